"""Ahead: a label of the record alone, by which no wrong clock moves the watermark, whatever else it does to its own event."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tandem.views.instant import APPEND_TIME
from tandem.views.kernel.kernel import late
from tandem.views.kernel.label_late_events import Late
from tandem.views.source.event import Event
from tandem.views.source.offset_ranges import Partition
from tandem.views.source.source import Source, events_schema
from tandem.views.source.watermark import (
    ahead,
    event_times,
    maxima_from_json,
    maxima_of,
    maxima_to_json,
    newest,
    newest_append,
    watermark,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
US = timedelta(microseconds=1)
SKEW, LATENESS, IDLE = timedelta(hours=1), timedelta(seconds=10), timedelta(minutes=1)


class Tick(Event):
    """An event with nothing but its time."""

    at: datetime


TICKS = Source(topic="ticks", event=Tick, event_time="at", lateness=LATENESS, idle=IDLE, clock_skew=SKEW)


class Told(NamedTuple):
    """One event of the log: where it is, when it says that it was, what its record's timestamp is."""

    partition: int
    offset: int
    at: datetime
    stamp: datetime


def of(instant: datetime) -> int:
    return (instant - EPOCH) // US


def table(log: Sequence[Told]) -> pa.Table:
    rows = [
        {"_topic_id": "T", "_partition": one.partition, "_offset": one.offset, APPEND_TIME: one.stamp, "at": one.at}
        for one in log
    ]
    return pa.Table.from_pylist(rows, schema=events_schema(TICKS))


_NEAR = st.integers(-30, 30).map(lambda seconds: NOW + timedelta(seconds=seconds))
_HOSTILE = st.sampled_from(
    [
        EPOCH,
        EPOCH - timedelta(milliseconds=1),
        NOW + timedelta(minutes=50),
        NOW - timedelta(days=40),
        NOW + timedelta(days=40),
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    ]
)
_CLOCKS = _NEAR | _HOSTILE
LOGS = st.lists(st.tuples(st.integers(0, 2), _CLOCKS, _CLOCKS | st.sampled_from([-1, 0, 1])), max_size=14).map(
    lambda rows: [
        # A number is how far the event is beyond the bound, exactly.
        Told(partition, offset, at, stamp if isinstance(stamp, datetime) else _stamped(at, stamp))
        for offset, (partition, at, stamp) in enumerate(rows)
    ]
)


def _stamped(at: datetime, beyond: int) -> datetime:
    earliest, latest = datetime.min.replace(tzinfo=UTC) + SKEW + US, datetime.max.replace(tzinfo=UTC) - SKEW - US
    return min(max(at, earliest), latest) - SKEW - beyond * US


def plainly_ahead(one: Told) -> bool:
    return one.at - one.stamp > SKEW


class Plain(NamedTuple):
    """What plain Python says of a log read event by event."""

    maxima: dict[Partition, tuple[int, int]]
    late: int
    watermark: int | None


def plain(log: Sequence[Told]) -> Plain:
    times: dict[Partition, tuple[int, int]] = {}
    behind = 0
    for one in sorted(log, key=lambda one: (one.partition, one.offset)):
        place = ("T", one.partition)
        if not plainly_ahead(one):
            event, stamp = times.get(place, (of(one.at), of(one.stamp)))
            times[place] = (max(event, of(one.at)), max(stamp, of(one.stamp)))
        behind += place in times and times[place][0] - of(one.at) > LATENESS // US
    if not times:
        return Plain({}, behind, None)
    last = max(stamp for _, stamp in times.values())
    return Plain(times, behind, min(event for event, stamp in times.values() if last - stamp <= IDLE // US))


@given(LOGS)
def test_the_bound_is_of_each_record_alone(log: list[Told]) -> None:
    """More than `clock_skew` after its own record's timestamp; neither neighbours nor order matter."""
    assert ahead(TICKS, table(log)).tolist() == [plainly_ahead(one) for one in log]
    assert ahead(TICKS, table(log[::-1])).tolist()[::-1] == [plainly_ahead(one) for one in log]
    assert not ahead(replace(TICKS, clock_skew=timedelta.max), table(log)).any()


@given(LOGS, st.lists(st.integers(0, 14), max_size=4))
def test_any_split_gives_the_watermark_and_the_late_ones_of_plain_python(log: list[Told], cuts: list[int]) -> None:
    whole = plain(log)
    assert maxima_of(TICKS, table(log)) == whole.maxima
    assert maxima_from_json(maxima_to_json(maxima_of(TICKS, table(log)))) == whole.maxima
    known, count = {}, 0
    for start, end in pairwise([0, *sorted(cuts), len(log)]):
        piece = table(log[start:end][::-1] if start < end else [])
        count += late(TICKS, piece, event_times(known)).count
        known = newest([known, maxima_of(TICKS, piece)])
    assert (known, count, watermark(known, IDLE)) == (whole.maxima, whole.late, whole.watermark)


def test_one_far_event_moves_nothing_and_the_next_one_does() -> None:
    """The event that would have made the windows of this minute final, and honest events late, for years."""
    before = [Told(0, 0, NOW, NOW)]
    far = Told(0, 1, NOW + timedelta(days=365), NOW)
    soon = NOW + timedelta(seconds=5)
    after = [Told(0, 2, soon, NOW)]
    assert watermark(maxima_of(TICKS, table([*before, far])), IDLE) == of(NOW)
    assert watermark(maxima_of(TICKS, table([*before, far, *after])), IDLE) == of(soon)
    assert late(TICKS, table([*before, far, *after])) == Late(0, {("T", 0): of(soon)})
    assert newest_append(table([far])) == of(NOW)


def test_what_the_log_has_timed_is_never_ahead() -> None:
    timed = replace(TICKS, event_time=APPEND_TIME, clock_skew=timedelta(0))
    assert not ahead(timed, table([Told(0, 0, NOW, NOW), Told(0, 1, NOW, EPOCH)])).any()
