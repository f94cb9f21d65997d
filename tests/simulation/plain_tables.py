"""Stand-ins for the few things of Arrow and Parquet that the ledger uses, over lists of Python dicts.

A schedule makes hundreds of tables of one row; Arrow would take a fraction of a millisecond for each.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import SimpleNamespace
from typing import Any, Self

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Scalar:
    value: Any

    def as_py(self) -> Any:
        return self.value


@dataclass(frozen=True)
class Column:
    values: list[Any]

    def to_pylist(self) -> list[Any]:
        return self.values

    def cast(self, _: object) -> "Column":
        return Column([int(value) for value in self.values])

    def __getitem__(self, index: int) -> Scalar:
        return Scalar(self.values[index])


@dataclass(frozen=True)
class Rows:
    """A table; rows are never changed once they are in one."""

    rows: Sequence[Row]
    names: tuple[str, ...] = ()

    @classmethod
    def from_pylist(cls, rows: Sequence[Row], schema: object = None) -> "Rows":
        return cls(list(rows))

    @classmethod
    def from_pydict(cls, columns: Mapping[str, Sequence[Any]], schema: object = None) -> "Rows":
        names = tuple(columns)
        return cls([dict(zip(names, values, strict=True)) for values in zip(*columns.values(), strict=True)], names)

    @property
    def num_rows(self) -> int:
        return len(self.rows)

    @property
    def column_names(self) -> list[str]:
        return list(self.rows[0]) if self.rows else list(self.names)

    def __getitem__(self, name: str) -> Column:
        return Column([row[name] for row in self.rows])

    def to_pylist(self) -> list[Row]:
        return [*self.rows]

    def select(self, names: Sequence[str]) -> "Rows":
        """The same rows: nobody minds further columns."""
        return Rows(self.rows, tuple(names))

    def slice(self, start: int, length: int | None = None) -> "Rows":
        return Rows(self.rows[start : None if length is None else start + length], self.names)

    def take(self, indices: Iterable[int]) -> "Rows":
        return Rows([self.rows[index] for index in indices], self.names)

    def filter(self, within: "Within") -> "Rows":
        return Rows([row for row in self.rows if within(row)], self.names)

    def cast(self, _: object) -> "Rows":
        return self


@dataclass(frozen=True)
class Within:
    """Rows of windows that start in `[start, end)`, or with `inside` False all others: what publish.batch_parts filters by."""

    start: datetime
    end: datetime
    inside: bool = True

    def __call__(self, row: Row) -> bool:
        return (self.start <= row["window_start"] < self.end) == self.inside

    def __invert__(self) -> "Within":
        return Within(self.start, self.end, not self.inside)


@dataclass
class Stream:
    """An open file: rows from a file, or on their way into one."""

    rows: Rows | None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@dataclass
class Upload:
    """A file that is being written: `keep` gets its rows when it is closed."""

    keep: Callable[[Rows], None]
    stream: Stream = field(default_factory=lambda: Stream(None))

    def close(self) -> int:
        assert self.stream.rows is not None
        self.keep(self.stream.rows)
        return self.stream.rows.num_rows

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@dataclass(frozen=True)
class ParquetFile:
    opened: Stream
    page_checksum_verification: bool

    def read(self, columns: Sequence[str] | None = None) -> Rows:
        assert self.opened.rows is not None
        return self.opened.rows if columns is None else self.opened.rows.select(columns)


def _write_table(rows: Rows, stream: Stream, **_: object) -> None:
    stream.rows = rows


def _concat_tables(tables: Iterable[Rows]) -> Rows:
    return Rows([row for table in tables for row in table.rows])


def _nothing(*_: object, **__: object) -> None:
    return None


ARROW = SimpleNamespace(
    Table=Rows, table=lambda rows: rows, concat_tables=_concat_tables, schema=_nothing, int64=_nothing, string=_nothing
)
"""For `pa` in the ledger's modules."""
PARQUET = SimpleNamespace(ParquetFile=ParquetFile, write_table=_write_table)
"""For `pq` in tandem.ledger.delta.delta_tables."""
