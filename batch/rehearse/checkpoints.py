"""The checkpoints of a rehearsal: times of the log, and what the log had at each of them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from tandem.batch.runtime import spark_jobs
from tandem.ledger.delta.location import Location
from tandem.ledger.files.file_ranges import EVENTS
from tandem.ledger.files.scan import scan
from tandem.ledger.files.splits import Slice
from tandem.ledger.log.positions import Position
from tandem.views.arrow.partitions import by_partition
from tandem.views.errors import TandemError
from tandem.views.exactness import span
from tandem.views.instant import APPEND_TIME, FIRST, MICROSECOND
from tandem.views.project import project
from tandem.views.source.offset_ranges import Partition
from tandem.views.source.source import position_columns
from tandem.views.source.watermark import Maxima, later, maxima_of, newest, watermark

MOST: Final = 1000
"""The maximum number of checkpoints of a rehearsal."""

_SCAN_ROWS: Final = 1 << 18


def checkpoints(end: int, since: timedelta, every: timedelta) -> tuple[int, ...]:
    """The multiples of `every` since 1970 that lie within `since` before `end`, and `end` itself, in microseconds since 1970.

    Raises TandemError if `every` makes no checkpoints, or too many, and if `since` leaves the calendar.
    """
    length, step = since // MICROSECOND, every // MICROSECOND
    if end - length < FIRST:
        raise TandemError("--since reaches back before the year 1; write a shorter one", code="usage-invalid")
    if step <= 0 or length < 0:
        raise TandemError(f"--every {span(every)} makes no checkpoints; write a length such as 6h", code="usage-invalid")
    if (number := length // step + 1) > MOST:
        raise TandemError(
            f"--every {span(every)} makes {number} checkpoints of {span(since)}, more than {MOST}; write a longer --every",
            code="usage-invalid",
        )
    first = -(-(end - length) // step) * step
    return (*range(first, end, step), end)


@dataclass(frozen=True)
class SourceAt:
    """A source at a checkpoint.

    Args:
        events: the number of its events so far, copies included.
        counts: the number of events of each partition so far, which grows with each arrival. Offsets would not: a record may be
            younger than those after it.
        watermark: in microseconds since 1970; None without events.
    """

    events: int
    counts: Position
    watermark: int | None


@dataclass(frozen=True)
class TimedLog:
    """What a task needs to read the times of a source's events."""

    definitions: Mapping[str, bytes] = field(hash=False)
    source: str
    events: Location
    checkpoints: tuple[int, ...]


@dataclass(frozen=True)
class _Arrivals:
    """The events that arrived after one checkpoint and until the next, `number`.

    Args:
        events: how many they are.
        maxima: their newest times.
        counts: by partition, how many they are.
    """

    number: int
    events: int
    maxima: Maxima
    counts: Mapping[Partition, int]


def source_at(session: SparkSession, logs: Sequence[tuple[TimedLog, Sequence[Slice]]]) -> list[tuple[SourceAt, ...]]:
    """For each log, what it had at each checkpoint. Raises TaskFailed, Unreadable."""
    items = [(number, log, piece) for number, (log, cut) in enumerate(logs) for piece in cut]
    arrivals = [arrived for some in spark_jobs.each(session, _arrivals, items) for arrived in some]
    return [tuple(_so_far(log, [each for of, each in arrivals if of == number])) for number, (log, _) in enumerate(logs)]


def _arrivals(item: tuple[int, TimedLog, Slice]) -> list[tuple[int, _Arrivals]]:
    number, log, piece = item
    source = project.load_files(log.definitions).sources[log.source]
    times = np.array(log.checkpoints, dtype=np.int64)
    read = sorted({*position_columns(source), APPEND_TIME, source.time_column})
    arrivals = []
    for events in scan(log.events, piece, EVENTS, read, rows=_SCAN_ROWS):
        at = np.searchsorted(times, events[APPEND_TIME].cast(pa.int64()).to_numpy(), side="left")
        for checkpoint in np.unique(at[at < len(times)]).tolist():
            some = events.filter(pa.array(at == checkpoint))
            rows = by_partition(some[EVENTS.topic], some[EVENTS.partition])
            counts = dict(zip(rows.partitions, rows.counts(), strict=True))
            arrivals.append((number, _Arrivals(checkpoint, some.num_rows, maxima_of(source, some), counts)))
    return arrivals


def _so_far(log: TimedLog, arrivals: Sequence[_Arrivals]) -> Iterator[SourceAt]:
    idle = project.load_files(log.definitions).sources[log.source].idle
    events, reached, counts = 0, None, Counter[Partition]()
    so_far: Maxima = {}
    for number, _ in enumerate(log.checkpoints):
        new = [each for each in arrivals if each.number == number]
        events += sum(each.events for each in new)
        so_far = newest([so_far, *(each.maxima for each in new)])
        for each in new:
            counts.update(each.counts)
        reached = later(reached, watermark(so_far, idle))
        yield SourceAt(events, Position.of(counts), reached)
