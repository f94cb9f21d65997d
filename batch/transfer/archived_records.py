"""Read a partition's records from archive files in log order, in bounded memory, and compare two such readers."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from tandem.batch.runtime.parquet_writer import GROUP_ROWS
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.location import Location
from tandem.ledger.files.file_ranges import EVERY_OFFSET, RECORDS, FileRange, table_ranges
from tandem.ledger.files.rows_at import rows_at
from tandem.ledger.files.scan import scan
from tandem.ledger.files.splits import Slice
from tandem.views.errors import TandemError
from tandem.views.source.offset_ranges import EMPTY, Interval, Partition, Ranges
from tandem.views.source.source import RECORDS_SCHEMA

NAMES: Final = tuple(RECORDS_SCHEMA.names)


class Disordered(TandemError, code="archive-disordered"):
    """Files do not hold a partition's records in order, each once."""


@dataclass(frozen=True)
class Records:
    """Archive files; each holds a range of one partition's records, in order. Those at `erased` positions are left out."""

    place: Location
    files: tuple[FileRange, ...]
    erased: Ranges = EMPTY

    @classmethod
    def archived(cls, tables: Tables, source: str) -> "Records":
        """A source's archive now, unfinished runs included."""
        address = tables.archive(source)
        return cls(Location.of(tables, address), tuple(table_ranges(tables, address, RECORDS)))

    def of(self, partition: Partition) -> "Records":
        """The files that may have records of a partition."""
        return replace(self, files=tuple(file for file in self.files if file.overlap(partition, EVERY_OFFSET)))

    def read(self, partition: Partition, interval: Interval, *, rows: int = GROUP_ROWS) -> Iterator[pa.Table]:
        """Tables of RECORDS_SCHEMA with the records of the interval, at most `rows` in each. Raises Disordered."""
        holding = sorted((file for file in self.files if file.overlap(partition, interval)), key=lambda file: file.offsets)
        part = Slice(Ranges.of({partition: interval}), tuple(file.path for file in holding), 0)
        before = interval[0] - 1
        for table in scan(self.place, part, RECORDS, NAMES, rows=rows):
            before = refuse_disordered(table, before, partition, self.place.address)
            yield _without(table, self.erased).cast(RECORDS_SCHEMA)


def _without(table: pa.Table, erased: Ranges) -> pa.Table:
    return table.filter(pa.array(np.logical_not(rows_at(table, RECORDS, erased)))) if erased.length else table


def refuse_disordered(table: pa.Table, before: int, partition: Partition, where: str) -> int:
    """The last offset of the rows, or `before` without rows. Raises Disordered unless offsets rise, the first above `before`."""
    offsets = np.concatenate([np.array([before]), table[RECORDS.offset].to_numpy()])
    falls = np.flatnonzero(np.diff(offsets) <= 0)
    if falls.size:
        first, second = offsets[falls[0]], offsets[falls[0] + 1]
        raise Disordered(
            f"{where} has offset {second} of partition {partition[1]} of topic {partition[0]} after {first}; restore it"
        )
    return int(offsets[-1])


def first_difference(one: Iterable[pa.Table], other: Iterable[pa.Table]) -> int | None:
    """The offset of the first record that only one side has, or that differs in any byte; None if both are equal."""
    left, right = _Ahead(one), _Ahead(other)
    while left.rows or right.rows:
        number = min(left.rows, right.rows)
        if not number:
            return (left if left.rows else right).offset(0)
        first, second = left.take(number), right.take(number)
        if not first.equals(second):
            shared = _shared(first, second)
            return min(int(table[RECORDS.offset][shared].as_py()) for table in (first, second))
    return None


class _Ahead:
    """Tables with one table of look-ahead."""

    def __init__(self, tables: Iterable[pa.Table]) -> None:
        self._tables = iter(tables)
        self._table: pa.Table = RECORDS_SCHEMA.empty_table()
        self._fill()

    @property
    def rows(self) -> int:
        """How many rows are loaded; 0 only at the end."""
        return int(self._table.num_rows)

    def offset(self, row: int) -> int:
        """The offset of a loaded row."""
        return int(self._table[RECORDS.offset][row].as_py())

    def take(self, number: int) -> pa.Table:
        """Take the next rows, at most the loaded ones."""
        taken, self._table = self._table.slice(0, number), self._table.slice(number)
        self._fill()
        return taken

    def _fill(self) -> None:
        while not self._table.num_rows and (table := next(self._tables, None)) is not None:
            self._table = table


def _shared(one: pa.Table, other: pa.Table) -> int:
    """How many rows two different tables of equal length share at their start."""
    prefixes: Sequence[int] = range(1, one.num_rows + 1)
    return bisect_left(prefixes, True, key=lambda rows: not one.slice(0, rows).equals(other.slice(0, rows)))
