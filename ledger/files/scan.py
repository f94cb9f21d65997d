"""Read the rows of a slice's ranges from a table in bounded pieces, inside a task."""

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tandem.ledger.delta.errors import unreadable
from tandem.ledger.delta.location import Location, opened
from tandem.ledger.files.file_ranges import FileRange, PositionColumns
from tandem.ledger.files.splits import Slice
from tandem.views.source.offset_ranges import Ranges

_MOST_BYTES: Final = 64 << 20


class DerivedColumn(Protocol):
    """A column that some files have, and that for all other files is made of `columns`, row by row."""

    @property
    def name(self) -> str:
        """The column's name in the files that have it."""

    @property
    def columns(self) -> Sequence[str]:
        """Columns that all files have."""

    def made(self, rows: pa.Table, /) -> pa.ChunkedArray:
        """The column of these rows, which have `columns`."""


def scan(
    place: Location,
    part: Slice,
    where: PositionColumns,
    columns: Sequence[str],
    *,
    rows: int,
    made: DerivedColumn | None = None,
    verified: bool = False,
) -> Iterator[pa.Table]:
    """Tables of at most `rows` rows with the named columns and `made`, in the order of the files; at most one file is open.

    `verified` checks pages against their checksums. Memory is bounded by `rows`, by one row group, and by about 64 MB if rows are
    large. Raises Unreadable.
    """
    pending: list[pa.Table] = []
    for piece in _pieces(place, part, where, columns, made, verified=verified):
        pending.append(piece)
        if sum(table.num_rows for table in pending) >= rows or sum(table.nbytes for table in pending) >= _MOST_BYTES:
            whole = pa.concat_tables(pending)
            pending = []
            yield from (whole.slice(start, rows) for start in range(0, whole.num_rows, rows))
    if pending:
        yield pa.concat_tables(pending)


def stored(place: Location, part: Slice, column: str) -> bool:
    """Whether all files of a slice have the column. Raises Unreadable."""
    for path in part.files:
        with opened(place, path) as file:
            if column not in file.schema_arrow.names:
                return False
    return True


def _pieces(
    place: Location,
    part: Slice,
    where: PositionColumns,
    columns: Sequence[str],
    made: DerivedColumn | None,
    *,
    verified: bool,
) -> Iterator[pa.Table]:
    """The rows of the ranges in each row group that may have any."""
    for path in part.files:
        with opened(place, path, verified=verified) as file:
            missing = made is not None and made.name not in file.schema_arrow.names
            read = list(dict.fromkeys((*columns, *_read_for(made, missing=missing))))
            for group in range(file.num_row_groups):
                span = _span(path, file.metadata.row_group(group), where)
                shared = [
                    (partition, span.overlap(partition, interval))
                    for partition, intervals in part.ranges.intervals
                    for interval in intervals
                ]
                if not any(count for _, count in shared):
                    continue
                if inside(span, part.ranges):
                    found = _row_group(file, group, read, place, path)
                else:
                    table = _row_group(file, group, list(dict.fromkeys((*where.names, *read))), place, path)
                    found = table.filter(within(table, where, part.ranges))
                if found.num_rows:
                    yield _completed(found, columns, made, missing=missing)


def _row_group(file: pq.ParquetFile, group: int, columns: list[str], place: Location, path: str) -> pa.Table:
    try:
        return file.read_row_group(group, columns, use_threads=False)
    except (OSError, pa.ArrowException) as error:
        unreadable(f"{place.address}: {path}", error)


def _read_for(made: DerivedColumn | None, *, missing: bool) -> Sequence[str]:
    if made is None:
        return ()
    return made.columns if missing else (made.name,)


def _completed(rows: pa.Table, columns: Sequence[str], made: DerivedColumn | None, *, missing: bool) -> pa.Table:
    if made is None:
        return rows.select(columns)
    whole = rows.append_column(made.name, made.made(rows)) if missing else rows
    return whole.select([*columns, made.name])


def within(table: pa.Table, where: PositionColumns, ranges: Ranges) -> pa.ChunkedArray:
    """Per row, whether its position is in the ranges."""
    topics, partitions, offsets = (table[name] for name in where.names)
    masks = []
    for (topic, number), intervals in ranges.intervals:
        of_partition = pc.and_(pc.equal(topics, topic), pc.equal(partitions, number))
        sides = [pc.and_(pc.greater_equal(offsets, start), pc.less(offsets, end)) for start, end in intervals]
        masks.append(pc.and_(of_partition, reduce(pc.or_, sides)))
    return reduce(pc.or_, masks)


def _span(path: str, group: pq.RowGroupMetaData, where: PositionColumns) -> FileRange:
    """The bounds of the row group's positions, by its statistics."""
    bounds = {}
    for index in range(group.num_columns):
        column = group.column(index)
        if column.path_in_schema in where.names:
            statistics = column.statistics
            known = statistics is not None and statistics.has_min_max
            bounds[column.path_in_schema] = (statistics.min, statistics.max) if known else None
    topics, partitions, offsets = (bounds[name] for name in where.names)
    if offsets is None:
        return FileRange(path, group.num_rows)
    return FileRange(path, group.num_rows, topics, partitions, (offsets[0], offsets[1] + 1))


def inside(span: FileRange, ranges: Ranges) -> bool:
    """Whether all rows of the file or row group are certainly in the ranges."""
    low, high = span.offsets
    return any(
        start <= low and high <= end
        for partition, intervals in ranges.intervals
        if partition == span.partition
        for start, end in intervals
    )
