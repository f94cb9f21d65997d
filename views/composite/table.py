"""A table: the latest version of each key of a source, whose events are the versions.

It is two views. `NAME_versions` has a row for each key and event time, and is folded, stored and recomputed as every view is.
The table itself reads no event and stores no state: it unites the states of the versions of each key, as a rollup does, and
leaves out keys whose latest version is gone. A question may name a time: then only versions up to that time are united.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, get_args

import pyarrow as pa

from tandem.views.composite.current_rows import VALID_FROM, RowsView
from tandem.views.composite.rollup import Rollup, ancestors, root
from tandem.views.errors import DefinitionError
from tandem.views.lookup.file_table import FileTable, from_file
from tandem.views.lookup.lookup import How, Lookup, Missing, lookup_in
from tandem.views.measures.first_last import GONE, NewestVersion, Order
from tandem.views.source.event import event_fields
from tandem.views.source.prepare import prepared_schema
from tandem.views.source.rows_source import RowsOfTable
from tandem.views.source.source import Source
from tandem.views.source.united_source import names_of, sources_of
from tandem.views.source.value_types import ValueType
from tandem.views.sql.engine import quoted
from tandem.views.sql.expressions import bind_expression
from tandem.views.value_forms import display_text
from tandem.views.view import View, bind
from tandem.views.windows.in_time import AllTime, Current

VERSIONS: Final = "_versions"
"""What follows a table's name in the name of the view of its versions."""

_PARAMETERS: Final = ("source", "key", "gone", "fields", "where", "order", "name", "doc", "docs", "units")
_COPIED: Final = "parent"
"""The parameter that only a copy of a table has (dataclasses.replace)."""


@dataclass(frozen=True, eq=False, init=False)
class Table(Rollup):
    """The latest version of each key: `price_of = Table(prices, key={"sku": "sku"}, gone="deleted")`.

    `parent` is the view of its versions.
    """

    def __init__(
        self,
        source: Source,
        *,
        key: Mapping[str, str] | None = None,
        gone: str | None = None,
        fields: Mapping[str, str] | None = None,
        order: Order = "time",
        **parts: Any,
    ) -> None:
        """Make a table of a source's events.

        * `key`: expressions by name; the events with equal values are the versions of a key. NULL is a value like any other.
        * `gone`: a condition; a key whose latest version meets it has no row.
        * `fields`: expressions by name, the columns of a row; all fields of the event unless given, but those that `key` has.
        * `order`: which version is the latest. "time": that of the greatest event time, of equal ones the last in the log.
          "log": the last in the log, as change data capture needs.
        * `where`, `name`, `doc`, `docs`, `units`: as of a View.

        Raises DefinitionError for a parameter that no table can have.
        """
        if _COPIED in parts:
            super().__init__(source=source, **parts)
            return
        for name in parts:
            if name not in _PARAMETERS:
                raise DefinitionError(f"Table: unknown parameter {name!r}; parameters: {', '.join(_PARAMETERS)}")
        columns = _columns(source, key, fields)
        versions = _versions(source, key or {}, columns, NewestVersion("", gone, order), parts)
        super().__init__(
            source=source,
            keys=dict(key or {}),
            measures={name: versions.measures[name] for name in columns},
            window=AllTime() if gone is None else Current(next(iter(columns))),
            parent=versions,
            of_keys={name: quoted(name) for name in key or {}},
            **parts,
        )

    def rows(self) -> RowsOfTable:
        """The rows that the table has now, as the source of a view: `View(source=price_of.rows(), measures={"n": count()})`."""
        return RowsOfTable(self, RowsView)

    def as_of(self, *, missing: Missing = "null", **key: str) -> Lookup:
        """For each event of a view the version that was valid at the event's own time: `price_of.as_of(sku="sku")`.

        * `key`: by column of the table's key, an expression over the event.
        * `missing`: what an event without a row gets: "null"; "reject", which counts it as `unmatched`; or constants by
          column, such as {"price": "0"}.

        Raises DefinitionError unless exactly the key's columns are named.
        """
        return lookup_in(self, "as_of", key, missing)

    def now(self, *, missing: Missing = "null", **key: str) -> Lookup:
        """For each event of a view the latest version, whatever the event's time; otherwise as `as_of`."""
        return lookup_in(self, "now", key, missing)

    @property
    def label(self) -> str:
        """What errors call it."""
        return f"table {self.name}" if self.name else "the table"

    @property
    def summary(self) -> str:
        """What views look up in, for a person."""
        return self.label

    @property
    def lookup_source(self) -> Source:
        """The source whose events are the versions."""
        return sources_of(self.parent.source)[0]

    @property
    def lookup_keys(self) -> Mapping[str, ValueType]:
        """The types of the columns of its key."""
        return {name: key.type for name, key in bind(self.parent).keys if name != VALID_FROM}

    @cached_property
    def row_type(self) -> pa.StructType:
        """The type of a row, without the key."""
        types = {measure.name: measure.aggregate.answer for measure in bind(self.parent).measures}
        return pa.struct([(name, types[name]) for name in self.measures])

    @staticmethod
    def from_file(path: str, *, key: str, types: Mapping[str, str] | None = None) -> FileTable:
        """The rows of a CSV file beside definitions.py, in which views look up: `Table.from_file("regions.csv", key="code")`.

        The first line names the columns; an empty field is NULL. Values are texts, except in columns with an SQL type in `types`,
        such as {"code": "BIGINT", "since": "DATE"}. A file has at most 100 000 rows. Raises DefinitionError for a file that is
        missing or breaks these rules.
        """
        return from_file(path, key, types)


def over_tables(lookups: Mapping[str, Lookup], tables: Mapping[str, View]) -> dict[str, Lookup]:
    """Look-ups in these tables in place of those of the same names."""
    return {
        name: replace(each, table=tables[each.table.name]) if isinstance(each.table, Table) else each  # type: ignore[arg-type]
        for name, each in lookups.items()
    }


def looked_up(view: View) -> dict[str, View]:
    """By name the views of versions in which a view looks up, or the root of a rollup. They have to be folded before it."""
    return {table.parent.name: table.parent for table, _ in _lookups(view)}


def reads_records_of(view: View, source: str) -> bool:
    """Whether a view counts the records of a source, or looks up in a table of it."""
    return source in names_of(view.source.name) or any(of.source.name == source for of in looked_up(view).values())


def lookup_kinds(view: View) -> dict[str, How]:
    """By name of a view of versions how a view looks up in it: "now" if any of its look-ups takes the latest version."""
    kinds: dict[str, How] = {}
    for table, how in _lookups(view):
        kinds[table.parent.name] = "now" if "now" in (how, kinds.get(table.parent.name)) else how
    return kinds


def _lookups(view: View) -> Iterator[tuple[Table, How]]:
    for each in root(view).lookup.values():
        if isinstance(each.table, Table):
            yield each.table, each.how


def origin(view: View) -> dict[str, Any]:
    """Of a table `table_of`, the view of its versions; of a view of rows `rows_of`, the table; of a rollup `rollup_of`, its
    parents; of other views nothing.
    """
    if isinstance(view, Table):
        return {"table_of": view.parent.name}
    if isinstance(view, RowsView):
        return {"rows_of": view.parent.name}
    return {"rollup_of": list(parents)} if (parents := ancestors(view)) else {}


def kind_of(view: Rollup) -> str:
    """What sentences call a view that stores no state."""
    return "table" if isinstance(view, Table) else "view of the rows of table" if isinstance(view, RowsView) else "rollup"


def origin_text(view: Mapping[str, Any]) -> str:
    """After the name of a view that has these and its `source`: what it is made of."""
    if "table_of" in view:
        return f", table of {view['table_of']}"
    if "rows_of" in view:
        return f" of the rows of {view['rows_of']}"
    return f", rollup of {view['rollup_of'][0]}" if "rollup_of" in view else f" of {' and '.join(names_of(view['source']))}"


def _columns(source: Any, key: Any, fields: Any) -> dict[str, str]:
    """The expressions of the columns of a table's rows, besides the key. Raises DefinitionError."""
    if not isinstance(source, Source):
        raise DefinitionError(f"Table: {display_text(source)} is not a Source; write Table(prices, key={{'sku': 'sku'}})")
    if source.prepare is not None:
        raise DefinitionError(
            f"Table: the rows that {source.prepare.__name__} makes of one event are in no order, so none of them is the latest; "
            "take a source without prepare"
        )
    for part, value in (("key", key), ("fields", fields)):
        if not (isinstance(value, Mapping) and value) and not (part == "fields" and value is None):
            raise DefinitionError(f"Table: {part}={value!r} is not a dict of expressions by name, such as {{'sku': 'sku'}}")
    names = [field.name for field in event_fields(source.event) if field.name not in {*key, *key.values()}]
    columns: dict[str, str] = {name: _field_sql(source, name) for name in names} if fields is None else dict(fields)
    if not columns:
        raise DefinitionError("Table: its rows have no field besides the key; name one, such as fields={'since': 'at'}")
    for name in (*key, *columns):
        if str(name).casefold() == VALID_FROM:
            raise DefinitionError(f"Table: {name!r} is the name of the versions' event time; give the column another name")
    return columns


def _versions(
    source: Source, key: Mapping[str, str], columns: Mapping[str, str], newest: NewestVersion, parts: Mapping[str, Any]
) -> View:
    """The view of the versions of a table, with the measures `newest` of the columns. Raises DefinitionError."""
    gone: Any = newest.gone
    if newest.order not in get_args(Order):
        raise DefinitionError(f"Table: order={newest.order!r}; expected 'time' or 'log'")
    if gone is not None and not isinstance(gone, str):
        raise DefinitionError(f"Table: gone={display_text(gone)} is not a condition in a text, such as 'deleted'")
    expressions = columns if gone is None or GONE in {**key, **columns} else {**columns, GONE: gone}
    named = {**key, **expressions}
    return View(
        source=source,
        keys={**key, VALID_FROM: _field_sql(source, source.time_column)},
        measures={name: replace(newest, expression=text) for name, text in expressions.items()},
        where=parts.get("where"),
        name=f"{name}{VERSIONS}" if isinstance(name := parts.get("name"), str) and name else "",
        docs={name: text for name, text in (parts.get("docs") or {}).items() if name in named},
        units={name: text for name, text in (parts.get("units") or {}).items() if name in named},
    )


def _field_sql(source: Source, field: str) -> str:
    """The expression that is a field: its name, in quotes where SQL has another meaning for it."""
    try:
        bound = bind_expression(field, prepared_schema(source), source.event.__name__)
    except DefinitionError:
        return quoted(field)
    return field if bound.column == field else quoted(field)
