"""A table of the project's files, in which views look up.

    regions = Table.from_file("regions.csv", key="code")
    sales = View(source=orders, lookup={"r": regions.now(code="region")}, keys={"area": "r.area"}, measures={"n": count()})

`types={"code": "BIGINT"}` gives columns types other than text.

The file is part of the definition, so batch and speed look up the same, and another content is another definition.
"""

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import Any, Final, NamedTuple

import pyarrow as pa

from tandem.views.arrow import arrays
from tandem.views.arrow.python_values import array
from tandem.views.errors import DefinitionError, listed
from tandem.views.lookup.lookup import Lookup, Missing, lookup_in
from tandem.views.source.value_types import TEXT, ValueType, normalised, objections
from tandem.views.sql import engine
from tandem.views.sql.expressions import bind_expression

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)
_TYPE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_ ]*(\( *[0-9]+ *(, *[0-9]+ *)?\))?", re.ASCII)
_MOST_ROWS: Final = 100_000
MOST_BYTES: Final = 16 << 20
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


class FileRow(NamedTuple):
    """A row of a file: the number of its line, and its texts by column, in the order of the header."""

    number: int
    texts: dict[str, str | None]


@dataclass(frozen=True)
class FileTable:
    """The rows of a CSV file by one of its columns; an empty field is NULL.

    `types` are SQL types by column; values of other columns are texts.
    """

    path: str
    key: str
    content: bytes = field(repr=False)
    types: tuple[tuple[str, str], ...] = ()

    def now(self, *, missing: Missing = "null", **key: str) -> Lookup:
        """The row whose key is what an expression over the event gives: `regions.now(code="region")`.

        `missing` is as of a table of a source. Raises DefinitionError unless exactly the key's column is named.
        """
        return lookup_in(self, "now", key, missing)

    @property
    def lookup_source(self) -> None:
        """None: it is a file."""

    @property
    def label(self) -> str:
        """What errors call it."""
        return self.path

    @property
    def summary(self) -> str:
        """What is looked up in, for a person."""
        return f"{self.path} ({len(self.rows)} rows)"

    @property
    def lookup_keys(self) -> Mapping[str, ValueType]:
        """The key's column with its type."""
        return {self.key: self.column_types[self.key]}

    @cached_property
    def lines(self) -> tuple[FileRow, ...]:
        """The rows of the file. Raises DefinitionError with the line, and for a file without rows."""
        lines = tuple(_lines(self))
        if not lines:
            raise DefinitionError(f"{self.path}: no rows; a table has at least one")
        return lines

    @cached_property
    def column_types(self) -> dict[str, ValueType]:
        """The types of all columns. Raises DefinitionError."""
        names = [*self.lines[0].texts]
        types = dict.fromkeys(names, TEXT)
        for name, sql in self.types:
            if name not in types:
                raise DefinitionError(f"{self.path}:1: types has {name!r}, which is not a column; columns: {listed(name, names)}")
            types[name] = _type_of(sql, f"{self.path}: types, {name!r}")
        return types

    @cached_property
    def row_type(self) -> pa.StructType:
        """The type of a row."""
        return pa.struct([(name, type_.arrow) for name, type_ in self.column_types.items() if name != self.key])

    @cached_property
    def table(self) -> pa.Table:
        """The rows, with the key first, in the order of the file. Raises DefinitionError with the line of a value."""
        names = [self.key, *self.row_type.names]
        return pa.table({name: _column(self, name, self.column_types[name]) for name in names})

    @cached_property
    def rows(self) -> dict[Any, dict[str, Any]]:
        """The rows by key, without it."""
        return {row.pop(self.key): row for row in self.table.to_pylist()}


def from_file(path: str, key: str, types: Mapping[str, str] | None = None) -> FileTable:
    """The table of a CSV file beside definitions.py. Raises DefinitionError for a file that cannot be one."""
    read = _FILES.get(None)
    if not isinstance(path, str) or not isinstance(key, str):
        raise DefinitionError(f"Table.from_file: {path!r} and {key!r} are not a file and a column, such as 'regions.csv', 'code'")
    of_columns: Any = {} if types is None else types
    if not isinstance(of_columns, Mapping) or not all(isinstance(each, str) for pair in of_columns.items() for each in pair):
        raise DefinitionError(f"Table.from_file: types={types!r} is not a dict of SQL types, such as {{'code': 'BIGINT'}}")
    if read is None:
        raise DefinitionError(f"Table.from_file: {path} is read with the project that it is a file of; load the project")
    table = FileTable(path, key, read(path), tuple(sorted(of_columns.items())))
    _refuse_equal_keys(table)
    return table


def _lines(table: FileTable) -> Iterator[FileRow]:
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
        for number, values in enumerate(lines):
            place = f"{table.path}:{lines.line_num}"
            if len(values) != len(header):
                raise DefinitionError(f"{place}: {len(values)} fields; the header has {len(header)}")
            if number >= _MOST_ROWS:
                raise DefinitionError(f"{place}: more than {_MOST_ROWS} rows; join larger tables in SQL (docs/tables.md)")
            row = {name: value or None for name, value in zip(header, values, strict=True)}
            if row[table.key] is None:
                raise DefinitionError(f"{place}: the key {table.key} is empty")
            yield FileRow(lines.line_num, row)
    except csv.Error as error:
        raise DefinitionError(f"{table.path}:{lines.line_num}: {error}") from error


def _refuse_equal_keys(table: FileTable) -> None:
    first_at: dict[Any, int] = {}
    for line, key in zip(table.lines, table.table[table.key].to_pylist(), strict=True):
        if first_at.setdefault(key, line.number) != line.number:
            text = line.texts[table.key]
            raise DefinitionError(f"{table.path}:{line.number}: {text!r} is the key of line {first_at[key]}, too")


def _type_of(sql: str, where: str) -> ValueType:
    try:
        if _TYPE.fullmatch(sql):
            return bind_expression(f"CAST(NULL AS {sql})", pa.schema([("_", pa.bool_())]), "a constant").type
        why = "example: 'DECIMAL(9, 2)'"
    except DefinitionError as error:
        why = str(error)
    raise DefinitionError(f"{where}: {sql!r} is not the type of a column: {why}")


def _column(table: FileTable, name: str, type_: ValueType) -> pa.Array:
    """The values of a column. Raises DefinitionError for a text that its type cannot hold exactly."""
    texts = [line.texts[name] for line in table.lines]
    column = array(texts, pa.string())
    if type_ == TEXT:
        return column
    refused = " OR ".join(["v IS NULL", *(condition for condition, _ in objections("v", type_))])
    typed = f"SELECT text, TRY({normalised('text', type_)}) AS v FROM texts"
    cast = engine.query(f"SELECT v, {refused} AS refused FROM ({typed})", {"texts": pa.table({"text": column})})
    values = arrays.whole(cast["v"]).cast(type_.arrow)
    for line, value, bad in zip(table.lines, values.to_pylist(), cast["refused"].to_pylist(), strict=True):
        text = line.texts[name]
        if text is not None and (bad or _loses(text, value, type_)):
            raise DefinitionError(f"{table.path}:{line.number}: {name} {text!r} is not of type {type_.sql}")
    return values


def _loses(text: str, value: Any, type_: ValueType) -> bool:
    """Whether the cast has rounded a number, or cut the time off a date."""
    if type_.kind == "date":
        return text.strip() != str(value)
    try:
        return type_.kind in ("integer", "decimal") and Decimal(text) != value
    except InvalidOperation:
        return True
