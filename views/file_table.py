"""A table of the project's files, in which views look up.

    regions = Table.from_file("regions.csv", key="code")
    sales = View(source=orders, lookup={"r": regions.now(code="region")}, keys={"area": "r.area"}, measures={"n": count()})

The file is part of the definition, so batch and speed look up the same, and another content is another definition.
"""

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import pyarrow as pa

from tandem.views.arrow.python_values import array
from tandem.views.errors import DefinitionError, listed
from tandem.views.lookup import Lookup, Missing, lookup_in
from tandem.views.source.value_types import TEXT, ValueType

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)
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


@dataclass(frozen=True)
class FileTable:
    """The rows of a CSV file by one of its columns; all values are texts, and an empty field is NULL."""

    path: str
    key: str
    content: bytes = field(repr=False)

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
        return {self.key: TEXT}

    @cached_property
    def rows(self) -> dict[str, dict[str, str | None]]:
        """The rows by key, without it."""
        return dict(_rows(self))

    @cached_property
    def row_type(self) -> pa.StructType:
        """The type of a row."""
        first = next(iter(self.rows.values()))
        return pa.struct([(name, pa.string()) for name in first])

    @cached_property
    def table(self) -> pa.Table:
        """The rows, with the key, in the order of the file."""
        columns: dict[str, list[str | None]] = {self.key: [*self.rows]}
        columns |= {name: [row[name] for row in self.rows.values()] for name in self.row_type.names}
        return pa.table({name: array(values, pa.string()) for name, values in columns.items()})


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
