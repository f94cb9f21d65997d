"""Some rows of an events table, read from the row groups that can hold them.

Statistics leave out files and row groups: those of positions, of event times, and of fields with a wanted value. Of the others
the columns that decide are read first, and the rest only where a row is wanted. `ReadBytes` counts what was read.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.errors import unreadable
from tandem.ledger.delta.location import Location, opened
from tandem.ledger.files.file_ranges import EVENTS, FileRange, log_table, within_times
from tandem.ledger.files.rows_at import holds_all, may_hold, rows_at
from tandem.serving.read.outcome import ReadFailed
from tandem.views.arrow import arrays
from tandem.views.arrow.python_values import scalar
from tandem.views.instant import MICROSECOND
from tandem.views.source.event import TIMESTAMP
from tandem.views.source.offset_ranges import Ranges

Span = tuple[datetime | None, datetime | None]
"""Half-open bounds of event times; None is open."""

ALL_TIMES: Final[Span] = (None, None)
_BOUNDED: Final = (str, int, bool)
"""The types of values that statistics of Parquet files bound without cutting them."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class RowsToFind:
    """`columns` of the rows that a function of the `deciding` columns wants, of these `times`; all have the `equal` values."""

    columns: Sequence[str]
    deciding: Sequence[str]
    wanted: Callable[[pa.Table], Mask]
    times: Span = ALL_TIMES
    equal: Mapping[str, Any] = field(default_factory=dict)

    def can_be_in(self, group: pq.RowGroupMetaData, time: str) -> bool:
        """Whether a row group may have such a row, by its statistics."""
        low, high = self.times
        for index in range(group.num_columns):
            column = group.column(index)
            name, bounds = column.path_in_schema, column.statistics
            if bounds is None or not bounds.has_min_max:
                continue
            if name == time and isinstance(bounds.min, datetime):
                if (high is not None and bounds.min >= high) or (low is not None and bounds.max < low):
                    return False
            elif name in self.equal and isinstance(bounds.min, _BOUNDED) and not bounds.min <= self.equal[name] <= bounds.max:
                return False
        return True


class TooManyEvents(ReadFailed, code="too-many-events"):
    """More events are behind a row than can be listed and computed again, or they are among too many others."""


@dataclass
class ReadBytes:
    """What was read of a table: its row groups, their compressed bytes as often as they were read, and the bytes of all files."""

    groups: set[tuple[str, int]] = field(default_factory=set)
    bytes: int = 0
    of_bytes: int = 0

    def to_json(self) -> dict[str, int]:
        """A JSON object of the numbers."""
        return {"row_groups": len(self.groups), "bytes": self.bytes, "of_bytes": self.of_bytes}


@dataclass
class EventRows:
    """The events of a source in the ranges `covered`; `time` is the column of event times, `most` a bound of bytes to read."""

    place: Location
    files: Sequence[FileRange]
    covered: Ranges
    time: str
    read: ReadBytes
    most: int | None = None

    @classmethod
    def of(cls, tables: Tables, address: str, covered: Ranges, time: str) -> "EventRows":
        """The rows of an events table; none if it does not exist. Raises Unreadable."""
        table = log_table(tables, address, EVENTS, time)
        return cls(table.place, table.files, covered, time, ReadBytes(of_bytes=sum(file.size for file in table.files)))

    def find(self, what: RowsToFind) -> Iterator[pa.Table]:
        """The wanted rows, a row group at a time. Raises TooManyEvents, Unreadable."""
        low, high = what.times
        files = self.files if low is None or high is None else within_times(self.files, low, high - MICROSECOND)
        for file in files:
            if may_hold(file, self.covered):
                yield from self._in_file(file, what)

    def _in_file(self, of: FileRange, what: RowsToFind) -> Iterator[pa.Table]:
        path, whole = of.path, holds_all(self.covered, of)
        first = [*dict.fromkeys((*EVENTS.names, self.time, *what.deciding))]
        rest = [name for name in what.columns if name not in first]
        with opened(self.place, path, verified=True) as file:
            for number in range(file.num_row_groups):
                if not what.can_be_in(file.metadata.row_group(number), self.time):
                    continue
                self.read.groups.add((path, number))
                rows = self._columns(file, path, number, first)
                mask = within(rows[self.time], what.times)
                places = np.flatnonzero(mask if whole else mask & rows_at(rows, EVENTS, self.covered))
                if len(places) < rows.num_rows:
                    rows = rows.take(arrays.from_numpy(places, pa.int64()))
                wanted = np.flatnonzero(what.wanted(rows)) if rows.num_rows else np.array([], np.int64)
                if not len(wanted):
                    continue
                rows = rows.take(arrays.from_numpy(wanted, pa.int64()))
                if rest:
                    others = self._columns(file, path, number, rest).take(arrays.from_numpy(places[wanted], pa.int64()))
                    for name in rest:
                        rows = rows.append_column(others.schema.field(name), others[name])
                yield rows.select([*what.columns])

    def _columns(self, file: pq.ParquetFile, path: str, number: int, names: list[str]) -> pa.Table:
        group = file.metadata.row_group(number)
        for column in map(group.column, range(group.num_columns)):
            if column.path_in_schema.partition(".")[0] in names:
                self.read.bytes += column.total_compressed_size
        if self.most is not None and self.read.bytes > self.most:
            raise TooManyEvents(
                f"these events are among more than {self.most >> 20} MB of the events table, the bound of a server; use `tandem "
                "why`, which has none"
            )
        try:
            return file.read_row_group(number, names, use_threads=False)
        except (OSError, pa.ArrowException) as error:
            unreadable(f"{self.place.address}: {path}", error)


def within(times: pa.ChunkedArray, span: Span) -> Mask:
    """Which of these times are in a span."""
    mask = np.ones(len(times), dtype=bool)
    for bound, compare in zip(span, (pc.greater_equal, pc.less), strict=True):
        if bound is not None:
            mask &= arrays.truths(arrays.whole(compare(times, scalar(bound, TIMESTAMP))))
    return mask
