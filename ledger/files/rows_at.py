"""Which rows of a table are at given positions of the log, for any number of intervals."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tandem.ledger.files.file_ranges import FileRange, PositionColumns
from tandem.views.source.offset_ranges import Ranges


def rows_at(table: pa.Table, where: PositionColumns, ranges: Ranges) -> npt.NDArray[np.bool_]:
    """Per row, whether its position is in the ranges."""
    at_positions = np.zeros(table.num_rows, dtype=bool)
    topics, numbers = table[where.topic], table[where.partition].to_numpy()
    offsets = table[where.offset].to_numpy()
    for (topic, number), intervals in ranges.intervals:
        of_partition = pc.equal(topics, topic).to_numpy() & (numbers == number)
        if of_partition.any():
            starts, ends = np.array(intervals, dtype=np.int64).T
            before = np.searchsorted(starts, offsets, side="right") - 1
            at_positions |= of_partition & (before >= 0) & (offsets < ends[np.maximum(before, 0)])
    return at_positions


def may_hold(file: FileRange, ranges: Ranges) -> bool:
    """Whether the file may have a row in the ranges, by the statistics in the Delta log."""
    return any(file.overlap(partition, (intervals[0][0], intervals[-1][1])) for partition, intervals in ranges.intervals)


def holds_all(ranges: Ranges, file: FileRange) -> bool:
    """Whether the ranges have all rows of the file, by the statistics in the Delta log."""
    low, end = file.offsets
    return any(
        partition == file.partition and start <= low and end <= stop
        for partition, intervals in ranges.intervals
        for start, stop in intervals
    )
