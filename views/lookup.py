"""A look-up: what a table of the project's files says of each event of a view.

    regions = Table.from_file("regions.csv", key="code")
    sales = View(source=orders, lookup={"r": regions.now(code="region")}, keys={"area": "r.area"}, measures={"n": count()})

The file is part of the definition, so batch and speed look up the same, and another content is another definition. It is a
constant in the statement that folds events. DuckDB finds a key in it by comparing with all of them, which bounds its rows.
"""

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from tandem.views.errors import DefinitionError, listed
from tandem.views.source.prepare import prepared_schema
from tandem.views.source.source import Source
from tandem.views.sql.engine import quoted
from tandem.views.sql.expressions import Expression, bind_expression
from tandem.views.sql.syntax import enclosed
from tandem.views.value_forms import not_a_text

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)
_MOST_ROWS: Final = 1_000
MOST_BYTES: Final = 1 << 20
"""The bytes of a file in which a view can look up."""

_FILES: ContextVar[Callable[[str], bytes]] = ContextVar("files")
"""What reads a file of the project whose definitions are being imported."""


@contextmanager
def project_files(read: Callable[[str], bytes]) -> Iterator[None]:
    """Let `Table.from_file` read by this function, which raises DefinitionError for a file that the project lacks."""
    token = _FILES.set(read)
    try:
        yield
    finally:
        _FILES.reset(token)


@dataclass(frozen=True)
class FileTable:
    """The rows of a CSV file by one of its columns; all values are texts, and an empty field is NULL."""

    path: str
    key: str
    content: bytes = field(repr=False)

    def now(self, **key: str) -> "Lookup":
        """The row whose key is what an expression over the event gives: `regions.now(code="region")`.

        Raises DefinitionError unless exactly the key's column is named.
        """
        if list(key) != [self.key]:
            raise DefinitionError(f"look-up in {self.path}: its key is {self.key}; write now({self.key}='...')")
        return Lookup(self, key[self.key])

    @cached_property
    def rows(self) -> dict[str, dict[str, str | None]]:
        """The rows by key, without it."""
        return dict(_rows(self))

    @cached_property
    def type(self) -> pa.StructType:
        """The type of a row."""
        first = next(iter(self.rows.values()))
        return pa.struct([(name, pa.string()) for name in first])


@dataclass(frozen=True)
class Lookup:
    """The row of `table` that has the value of `key`, an expression over the event; NULL if none has it."""

    table: FileTable
    key: str


def from_file(path: str, key: str) -> FileTable:
    """The table of a CSV file beside definitions.py. Raises DefinitionError for a file that cannot be one."""
    read = _FILES.get(None)
    if not isinstance(path, str) or not isinstance(key, str):
        raise DefinitionError(f"Table.from_file: {path!r} and {key!r} are not a file and a column, such as 'regions.csv', 'code'")
    if read is None:
        raise DefinitionError(f"Table.from_file: {path} is read with the project that it is a file of; load the project")
    table = FileTable(path, key, read(path))
    if not table.rows:
        raise DefinitionError(f"{path}: no rows; a table has at least one")
    return table


def _rows(table: FileTable) -> Iterator[tuple[str, dict[str, str | None]]]:
    """The rows of a table's file. Raises DefinitionError with the line."""
    try:
        text = table.content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DefinitionError(f"{table.path}: byte {error.start} is not UTF-8: {error.reason}") from error
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(lines, [])
        for name in header:
            if not _NAME.fullmatch(name):
                raise DefinitionError(f"{table.path}:1: {name!r} is not a name: a letter, then letters, digits and underscores")
        if len({name.casefold() for name in header}) < len(header):
            raise DefinitionError(f"{table.path}:1: two columns have one name; names differ in more than case")
        if table.key not in header or len(header) == 1:
            raise DefinitionError(
                f"{table.path}:1: key {table.key!r} and another column are needed; columns: {listed(table.key, header)}"
            )
        seen_at: dict[str, int] = {}
        for values in lines:
            place = f"{table.path}:{lines.line_num}"
            if len(values) != len(header):
                raise DefinitionError(f"{place}: {len(values)} fields; the header has {len(header)}")
            row: dict[str, str | None] = {name: value or None for name, value in zip(header, values, strict=True)}
            key = row.pop(table.key)
            if key is None:
                raise DefinitionError(f"{place}: the key {table.key} is empty")
            if key in seen_at:
                raise DefinitionError(f"{place}: {key!r} is the key of line {seen_at[key]}, too")
            seen_at[key] = lines.line_num
            if len(seen_at) > _MOST_ROWS:
                raise DefinitionError(f"{place}: more than {_MOST_ROWS} rows; join larger tables in SQL (docs/tables.md)")
            yield key, row
    except csv.Error as error:
        raise DefinitionError(f"{table.path}:{lines.line_num}: {error}") from error


@dataclass(frozen=True)
class BoundLookup:
    """A look-up of a view: its name, what it looks up, and the expression of the key."""

    name: str
    lookup: Lookup
    key: Expression

    @property
    def text(self) -> str:
        """What is looked up, for a person."""
        return f"{self.lookup.table.path} ({len(self.lookup.table.rows)} rows) by {self.lookup.key}"

    @property
    def sql(self) -> str:
        """SQL over an event for its row, NULL if it has none or the key cannot be computed."""
        type_ = f"MAP(VARCHAR, STRUCT({', '.join(f'{quoted(name.name)} VARCHAR' for name in self.lookup.table.type)}))"
        pairs = (f"{_literal(key)}: {_struct(row)}" for key, row in self.lookup.table.rows.items())
        return f"CAST(MAP {{{', '.join(pairs)}}} AS {type_})[TRY({enclosed(self.key.text)})] AS {quoted(self.name)}"


def expression_inputs(source: Source, lookups: Mapping[str, Any], place: str) -> tuple[pa.Schema, str, tuple[BoundLookup, ...]]:
    """What expressions read: the columns, what errors call an event, and the look-ups. Raises DefinitionError."""
    fields, event = prepared_schema(source), source.event.__name__
    if source.prepare is not None:
        event = f"{event} prepared by {source.prepare.__name__}"
    bound = _bind(lookups, fields, event, place)
    return with_lookups(fields, bound), event, bound


def _bind(lookups: Mapping[str, Any], fields: pa.Schema, event: str, place: str) -> tuple[BoundLookup, ...]:
    names = {name.casefold(): name for name in fields.names}
    bound = []
    for name, lookup in lookups.items():
        part = f"{place}, lookup {name!r}"
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise DefinitionError(f"{part} is not a name: a letter, then letters, digits and underscores")
        if (other := names.setdefault(name.casefold(), name)) != name or name in fields.names:
            raise DefinitionError(f"{part}: {event} has a field {other!r}; give the look-up another name")
        if not isinstance(lookup, Lookup):
            raise DefinitionError(
                f"{part}: {type(lookup).__name__} is not a look-up in a file, such as regions.now(code='region') for "
                "regions = Table.from_file('regions.csv', key='code'); a table of a source is joined in SQL (docs/tables.md)"
            )
        if not isinstance(lookup.key, str):
            raise DefinitionError(f"{part}: {lookup.key!r} {not_a_text(lookup.key)}")
        try:
            key = bind_expression(lookup.key, fields, event)
        except DefinitionError as error:
            raise DefinitionError(f"{part}: {lookup.key!r} {error}") from error
        if key.type.kind != "text":
            raise DefinitionError(
                f"{part}: {lookup.key!r} is of type {key.type.sql}; keys of {lookup.table.path} are texts; write "
                f"CAST({lookup.key} AS VARCHAR)"
            )
        bound.append(BoundLookup(name, lookup, key))
    return tuple(bound)


def with_lookups(fields: pa.Schema, lookups: tuple[BoundLookup, ...]) -> pa.Schema:
    """The fields of events, and the columns of the look-ups."""
    return pa.schema([*fields, *((each.name, each.lookup.table.type) for each in lookups)])


def rows_sql(lookups: tuple[BoundLookup, ...], rows: str) -> str:
    """SQL for rows of events with the columns of the look-ups."""
    return f"(SELECT *, {', '.join(lookup.sql for lookup in lookups)} FROM {rows})" if lookups else rows


def reading_events(expression: Expression, lookups: tuple[BoundLookup, ...]) -> Expression:
    """The expression with the fields of events that it reads, those of the keys of its look-ups among them."""
    used = [each for each in lookups if each.name in expression.fields]
    if not used:
        return expression
    of_event = expression.fields - {each.name for each in used}
    return replace(expression, fields=of_event.union(*(each.key.fields for each in used)))


def _struct(row: Mapping[str, str | None]) -> str:
    return "{" + ", ".join(f"{_literal(name)}: {_literal(value)}" for name, value in row.items()) + "}"


def _literal(value: str | None) -> str:
    return "NULL" if value is None else "'" + value.replace("'", "''") + "'"
