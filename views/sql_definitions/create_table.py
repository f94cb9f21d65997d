"""CREATE TABLE: PRIMARY KEY as the key of a table, the other columns of the select list as its fields, WITH as the rest."""

from dataclasses import dataclass, field
from typing import Any, Final

from tandem.views.errors import listed
from tandem.views.sql_definitions.create_source import settings
from tandem.views.sql_definitions.create_view import clauses_of, column_of
from tandem.views.sql_definitions.literals import constant
from tandem.views.sql_definitions.statements import Fragment

_FORM: Final = "CREATE TABLE price_of (PRIMARY KEY (sku)) WITH (gone = 'deleted') AS SELECT sku, price FROM prices"
_OPTIONS: Final = ("gone", "order")


@dataclass
class TableText:
    """A table: its source's name, its key and fields as expressions, and its options; without fields it has all of the event."""

    name: str
    start: int
    source: Fragment
    key: dict[str, Fragment] = field(default_factory=dict)
    fields: dict[str, Fragment] = field(default_factory=dict)
    where: Fragment | None = None
    options: dict[str, Any] = field(default_factory=dict)
    doc: str = ""
    docs: dict[str, str] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns, as far as the statement names them."""
        return (*self.key, *self.fields)


def table_text(name: str, head: Fragment) -> TableText:
    """A table after its name. Raises DefinitionError for what no table can mean."""
    if not head.begins("(", "PRIMARY", "KEY", "(", at=1):
        raise head.cut(1).fault(f"CREATE TABLE {name} is followed by its key: {_FORM}")
    inner, after = head.brackets(1)
    named, end = inner.brackets(2)
    if end < len(inner.words):
        raise inner.cut(end).fault(f"a table's brackets have its PRIMARY KEY alone: {_FORM}")
    options: dict[str, Fragment] = {}
    if head.begins("WITH", "(", at=after):
        written, after = head.brackets(after + 1)
        options = settings(written)
    if not head.begins("AS", at=after):
        raise head.cut(after).fault(f"CREATE TABLE {name} ends with AS SELECT ...: {_FORM}")
    clauses = clauses_of(head.cut(after + 1))
    if "GROUP" in clauses:
        raise clauses["GROUP"].fault("a table has a row for each value of its PRIMARY KEY, so it has no GROUP BY")
    source = clauses.get("FROM")
    if source is None or len(source.words) != 1 or source.name() is None:
        raise (source or head).fault(f"a table is of one source by its name: {_FORM}")
    table = TableText(name, head.start, source, where=clauses.get("WHERE"))
    columns: dict[str, Fragment] = {}
    for item in [] if clauses["SELECT"].text == "*" else clauses["SELECT"].split(","):
        column, expression = column_of(item)
        if column.casefold() in map(str.casefold, columns):
            raise item.fault(f"two columns are called {column}")
        columns[column] = expression
    for part in named.split(","):
        key = part.name() if len(part.words) == 1 else None
        if key is None or (columns and key not in columns):
            raise part.fault(f"PRIMARY KEY names columns of SELECT; {part.text} is not one of {listed(part.text, columns)}")
        if key in table.key:
            raise part.fault(f"PRIMARY KEY names {key} twice")
        table.key[key] = columns[key] if columns else part
    if not table.key:
        raise named.fault("a PRIMARY KEY names columns")
    columns = {column: expression for column, expression in columns.items() if column not in table.key}
    if not columns and clauses["SELECT"].text != "*":
        raise clauses["SELECT"].fault(f"table {name} has no columns besides its key; select some, or *")
    table.fields = columns
    for option, value in options.items():
        if option not in _OPTIONS:
            raise value.fault(f"unknown option {option!r} of a table; options: {listed(option, _OPTIONS)}")
        table.options[option] = constant(value)
    table.places = {f"key {key!r}": part.start for key, part in table.key.items()}
    table.places |= {f"measure {column!r}": part.start for column, part in table.fields.items()}
    return table
