"""Restore the identities that were counted shortly before a position, when a speed layer starts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tandem.infra import kafka
from tandem.infra.spark import log_reader
from tandem.infra.spark.versions import compared
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.positions import Position, ranges
from tandem.speed.dedup.dedup_window import BYTES, DedupWindow, recalled
from tandem.speed.dedup.identity_runs import Numbers
from tandem.speed.dedup.within_task import joined, values
from tandem.speed.micro_batch.task import SCHEMA, Task, identify
from tandem.speed.source import record_frames
from tandem.speed.source.counted_at import CountedLog, CountedRange, divided, together
from tandem.speed.source.start_position import Beginning
from tandem.views.arrow.arrays import from_ipc
from tandem.views.instant import MICROSECOND, microseconds
from tandem.views.source.offset_ranges import EMPTY, Offsets, Ranges
from tandem.views.source.source import Source, record_columns

_AT_ONCE: Final = 1_000_000
"""Offsets whose identities are loaded at once."""


def unseen(source: Source, identities_mb: int) -> DedupWindow:
    """The empty dedup window of a source, at the log's start."""
    return DedupWindow(source.dedup_window // MICROSECOND if source.identity else 0, most(identities_mb))


def most(identities_mb: int) -> int:
    """How many identities fit in this many megabytes."""
    return identities_mb * 1_000_000 // BYTES


def begun(source: Source, stretches: Sequence[CountedRange], known: CountedLog, identities_mb: int) -> DedupWindow:
    """The dedup window after these stretches, which are numbered from 0, before their identities are added."""
    empty = unseen(source, identities_mb)
    return recalled(
        empty.span,
        empty.most,
        times=[microseconds(one.at) for one in stretches],
        caught_up=None if known.caught_up is None else microseconds(known.caught_up),
        newest=None if known.newest is None else microseconds(known.newest),
    )


def seen(
    spark: SparkSession,
    tables: Tables,
    options: Mapping[str, str],
    source: Source,
    task: Task,
    *,
    known: CountedLog,
    beginning: Beginning,
    identities_mb: int,
) -> DedupWindow:
    """The dedup window after the counted part of the log, with the identities of all stretches within the source's dedup window.

    Reads Kafka, and the archive for records that Kafka no longer has: the newest first, up to the bound of memory.
    """
    if not source.identity or not source.dedup_window:
        return unseen(source, identities_mb)
    stretches = list(divided(known.within(source.dedup_window), beginning.firsts, most=_AT_ONCE))
    dedup_window = begun(source, stretches, known, identities_mb)
    reading = _Reading(spark, tables, options, source, beginning, kafka.starts(beginning.log.connection, beginning.log.topics))
    number = len(stretches)
    for group in reversed(list(together(stretches, beginning.firsts, most=_AT_ONCE))):
        if dedup_window.most is not None and dedup_window.size >= dedup_window.most:
            stamps = [microseconds(min(one.newest, one.at)) for one in stretches[:number] if one.newest is not None]
            return dedup_window.without(number, newest=max(stamps, default=None))
        number -= len(group)
        for frames in _records(reading, group[0].start, group[-1].end):
            rows = log_reader.use_either(partial(_collect_identities, task), *frames)
            found = joined([from_ipc(row) for row in rows["share"].to_pylist()])
            dedup_window = dedup_window.with_identities(values(found), numbered(found, group, first=number))
    return dedup_window


def numbered(found: pa.Table, group: Sequence[CountedRange], *, first: int) -> Numbers:
    """The number of the stretch of each row; all rows lie in these stretches, of which the first has the number `first`."""
    numbers = np.zeros(found.num_rows, np.int32)
    topics, partitions = found["_topic_id"].cast(pa.string()).to_numpy(), found["_partition"].to_numpy()
    for topic, partition in group[-1].end:
        here = (topics == topic) & (partitions == partition)
        ends = np.array([one.end.get((topic, partition), 0) for one in group])
        numbers[here] = first + np.searchsorted(ends, found["_offset"].to_numpy()[here], side="right")
    return numbers


def _collect_identities(task: Task, frame: DataFrame) -> pa.Table:
    return frame.mapInArrow(compared(partial(identify, task)), SCHEMA).toArrow()


@dataclass(frozen=True)
class _Reading:
    """How to read records: the session, the source, and `lows`, the first offsets that the log still has."""

    spark: SparkSession
    tables: Tables
    options: Mapping[str, str]
    source: Source
    beginning: Beginning
    lows: Offsets


def _records(reading: _Reading, start: Position, end: Position) -> Iterator[tuple[DataFrame, Callable[[], DataFrame]]]:
    """The records of `[start, end)`: from the log, or from the archive if the log no longer has them.

    Each frame comes with one by the port, for records that Spark cannot read.
    """
    firsts, lows, topics = reading.beginning.firsts, reading.lows, reading.beginning.log.topics
    ends = {p: max(end.get(p, 0), low) for p, low in lows.items()}
    starts = {p: min(max(start.get(p, firsts.get(p, 0)), low), ends[p]) for p, low in lows.items()}
    if starts != ends:
        address, columns = reading.beginning.log.connection.address, record_columns(reading.source)
        there = Ranges.of({p: (low, ends[p]) for p, low in starts.items()})
        yield (
            record_frames.of_log(reading.spark, reading.options, topics, reading.source, starts=starts, ends=ends),
            lambda: log_reader.of_ranges(reading.spark, address, topics, there, columns),
        )
    # Generations of the topic before this one are in the archive only.
    gone = Position.of({p: min(at, lows.get(p, at)) for p, at in end.items()})
    before = Position.of({p: min(start.get(p, firsts.get(p, 0)), at) for p, at in gone.items()})
    archived = ranges(before, gone)
    if archived != EMPTY:
        frame = record_frames.of_archive(reading.spark, reading.tables, reading.source, archived)
        yield frame, lambda: frame
