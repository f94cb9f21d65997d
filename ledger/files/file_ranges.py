"""Which part of the log each file of a table holds, by the statistics in the Delta log."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable

from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.location import Location
from tandem.views.source.offset_ranges import Interval, Partition, Ranges
from tandem.views.source.source import INDEX


@dataclass(frozen=True)
class PositionColumns:
    """The columns of a row's position in the log."""

    topic: str
    partition: str
    offset: str

    @property
    def names(self) -> list[str]:
        """All three, in log order."""
        return [self.topic, self.partition, self.offset]


RECORDS: Final = PositionColumns("topic_id", "partition", "offset")
"""The position columns of the archive and the quarantine."""
EVENTS: Final = PositionColumns("_topic_id", "_partition", "_offset")
"""The position columns of events tables."""

Times = tuple[datetime, datetime]

EVERY_OFFSET: Final = (0, 2**63 - 1)


@dataclass(frozen=True)
class FileRange:
    """One file: its path in the table, its number of rows, bounds of their positions in the log, its size in bytes.

    Bounds are inclusive for topic, partition and event times, half-open for offsets; None is unknown. They may be wider than
    the rows. An offset has at most `each` rows.
    """

    path: str
    rows: int
    topics: tuple[str, str] | None = None
    partitions: tuple[int, int] | None = None
    offsets: Interval = EVERY_OFFSET
    size: int = 0
    times: Times | None = None
    each: int = 1

    @property
    def partition(self) -> Partition | None:
        """The partition of all rows; None if they may be of several."""
        if self.topics is None or self.partitions is None or self.topics[0] != self.topics[1]:
            return None
        return (self.topics[0], self.partitions[0]) if self.partitions[0] == self.partitions[1] else None

    def within(self, *pieces: tuple[Partition, Interval]) -> int:
        """About how many of its rows are in these pieces of the log: all of them if the pieces cover the bounds."""
        offsets = sum(self.overlap(*piece) for piece in pieces)
        if self.each > 1 and self.partitions is not None and self.partitions[0] == self.partitions[1]:
            # Some offsets have more rows than others: estimate by the average.
            return min(self.rows, -(-self.rows * offsets // (self.offsets[1] - self.offsets[0])))
        return min(self.rows, offsets * self.each)

    def overlap(self, partition: Partition, interval: Interval) -> int:
        """How many offsets of the partition's interval lie within the bounds."""
        topic, number = partition
        if self.topics is not None and not self.topics[0] <= topic <= self.topics[1]:
            return 0
        if self.partitions is not None and not self.partitions[0] <= number <= self.partitions[1]:
            return 0
        return max(0, min(interval[1], self.offsets[1]) - max(interval[0], self.offsets[0]))


def rows_within(files: Iterable[FileRange], ranges: Ranges) -> int:
    """About how many rows of the files are in the ranges."""
    pieces = [(partition, interval) for partition, intervals in ranges.intervals for interval in intervals]
    return sum(span.within(*pieces) for span in files)


@dataclass(frozen=True)
class LogTable:
    """A table of the log at its newest version: its location, and which part of the log each of its files holds."""

    place: Location
    files: tuple[FileRange, ...]
    columns: PositionColumns


def log_table(tables: Tables, address: str, columns: PositionColumns, time: str = "") -> LogTable:
    """List a table's files; none if the table does not exist. `time` names the column of event times. Raises Unreadable."""
    return LogTable(Location.of(tables, address), tuple(table_ranges(tables, address, columns, time)), columns)


def table_ranges(tables: Tables, address: str, columns: PositionColumns, time: str = "") -> list[FileRange]:
    """The ranges of a table's files at its newest version; empty if the table does not exist. Raises Unreadable."""
    table = delta_tables.open_table(tables, address)
    return [] if table is None else file_ranges(table, columns, time)


def file_ranges(table: DeltaTable, columns: PositionColumns, time: str = "") -> list[FileRange]:
    """The active files of the table at the handle's version that have rows; `time` names the column of event times."""
    actions = pa.table(table.get_add_actions(flatten=True))
    return [_span(row, columns, time) for row in actions.to_pylist() if row.get("num_records") != 0]


def within_times(files: Iterable[FileRange], low: datetime, high: datetime) -> list[FileRange]:
    """The files that may have events of these times, both included."""
    return [file for file in files if file.times is None or (file.times[0] <= high and low <= file.times[1])]


def _span(row: dict[str, Any], columns: PositionColumns, time: str) -> FileRange:
    topics, partitions, offsets = (_bounds(row, column) for column in columns.names)
    return FileRange(
        path=row["path"],
        rows=row.get("num_records") or 0,
        topics=topics,
        partitions=partitions,
        offsets=EVERY_OFFSET if offsets is None else (offsets[0], offsets[1] + 1),
        size=row["size_bytes"],
        times=_bounds(row, time),
        each=1 + (row.get(f"max.{INDEX}") or 0),
    )


def _bounds(row: dict[str, Any], column: str) -> tuple[Any, Any] | None:
    low, high = row.get(f"min.{column}"), row.get(f"max.{column}")
    return None if low is None or high is None else (low, high)
