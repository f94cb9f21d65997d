"""Copy a range of the log into files of the archive, byte for byte, in Spark tasks, and find the offsets that are lost."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from math import ceil
from typing import Final

import numpy as np
from pyspark.sql import SparkSession

from tandem.batch.archive.copy_task import Copied, copy_range, total
from tandem.batch.archive.decode_to_files import Decoding
from tandem.batch.runtime import spark_jobs
from tandem.infra.kafka import Address, Topic
from tandem.ledger.delta.location import Location
from tandem.ledger.files.file_ranges import RECORDS, FileRange
from tandem.ledger.files.scan import scan
from tandem.ledger.files.splits import Slice, even_rows
from tandem.views.source.offset_ranges import Interval, Offsets, Partition, Ranges

_FEW_RECORDS: Final = 50_000
_RECORDS_PER_FILE: Final = 1_000_000
_SCAN_ROWS: Final = 1 << 20


def copy(
    session: SparkSession,
    address: Address,
    topics: Sequence[Topic],
    ranges: Ranges,
    work: Decoding,
    *,
    parallelism: int,
    typed: bool = True,
) -> Copied:
    """Copy the records of these ranges to new files of the archive; decode them too if `typed`.

    Each task reads a piece of one partition from the log, once. Nothing is committed. Raises TaskFailed.
    """
    most = even_rows(ranges.length, parallelism, least=_FEW_RECORDS, most=_RECORDS_PER_FILE)
    task = partial(copy_range, address, topics, work, typed=typed)
    try:
        return total(spark_jobs.each(session, task, list(_pieces(ranges, most))), typed=typed)
    except spark_jobs.TaskFailed as failed:
        raise spark_jobs.TaskFailed(f"source {work.source!r} cannot be archived: {failed}") from failed.__cause__


def _pieces(ranges: Ranges, most: int) -> Iterator[tuple[Partition, Interval]]:
    """Even parts of the intervals, with at most this many offsets each."""
    for partition, intervals in ranges.intervals:
        for start, end in intervals:
            parts = ceil((end - start) / most)
            bounds = [start + (end - start) * part // parts for part in range(parts + 1)]
            yield from ((partition, interval) for interval in pairwise(bounds))


def doubtful(files: Iterable[FileRange], ranges: Ranges, firsts: Offsets) -> frozenset[str]:
    """The paths of files that have only records of these ranges, of a partition that the log no longer has.

    `firsts` are the first offsets that the log has now, by partition with the topic's id.
    """
    gone = [(partition, each) for partition, intervals in ranges.intervals if partition not in firsts for each in intervals]
    return frozenset(file.path for file in files if any(_lies_in(file, *piece) for piece in gone))


def _lies_in(file: FileRange, partition: Partition, interval: Interval) -> bool:
    """Whether all rows of the file are certainly in this interval of the partition."""
    topic, number = partition
    low, high = file.offsets
    return file.topics == (topic, topic) and file.partitions == (number, number) and interval[0] <= low and high <= interval[1]


def lost(place: Location, files: list[FileRange], ranges: Ranges, firsts: Offsets) -> Ranges:
    """The offsets of the ranges that the archive lacks, and that lie below the log's first offsets now: they count as lost.

    A missing offset that the log still covers is a marker, an aborted record or a compacted record. Below the log's start this
    cannot be known.
    """
    found: dict[Partition, list[Interval]] = {}
    for partition, intervals in ranges.intervals:
        for start, end in intervals:
            gone = min(end, firsts.get(partition, end))
            if start < gone:
                found[partition] = [*found.get(partition, []), *_absent(place, files, partition, (start, gone))]
    pieces = [Ranges.of({partition: interval}) for partition, intervals in found.items() for interval in intervals]
    return Ranges().union(*pieces)


def _absent(place: Location, files: list[FileRange], partition: Partition, interval: Interval) -> list[Interval]:
    """The parts of the interval for which the archive has no row."""
    holding = tuple(span.path for span in files if span.overlap(partition, interval))
    part = Slice(Ranges.of({partition: interval}), holding, 0)
    pieces = [rows[RECORDS.offset].to_numpy() for rows in scan(place, part, RECORDS, [RECORDS.offset], rows=_SCAN_ROWS)]
    start, end = interval
    there = np.sort(np.concatenate([np.array([start - 1]), *pieces, np.array([end])]))
    jumps = np.flatnonzero(np.diff(there) > 1)
    return [(int(there[at]) + 1, int(there[at + 1])) for at in jumps]
