"""Late events: a label that is the same for any split of the log in offset order."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tandem.views.kernel.late import late
from tandem.views.source.event import Event
from tandem.views.source.offset_ranges import Partition
from tandem.views.source.source import Source, events_schema

START = datetime(2026, 11, 1, tzinfo=UTC)
SECOND = 1_000_000
START_US = int(START.timestamp()) * SECOND


class Tick(Event):
    """An event with nothing but its time."""

    at: datetime


TICKS = Source(topic="ticks", event=Tick, event_time="at", lateness=timedelta(seconds=10))
Row = tuple[str, int, int, int]  # topic id, partition, offset, seconds after START


def table(rows: list[Row]) -> pa.Table:
    """Rows as an events table, in their order."""
    return pa.Table.from_pylist(
        [
            {
                "_topic_id": topic,
                "_partition": partition,
                "_offset": offset,
                "_append_time": START,
                "at": START + timedelta(seconds=second),
            }
            for topic, partition, offset, second in rows
        ],
        schema=events_schema(TICKS),
    )


ROWS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.integers(0, 50), st.integers(0, 40)),
    max_size=25,
    unique_by=lambda row: row[:3],
)


def expected(rows: list[Row]) -> tuple[int, dict[Partition, int]]:
    """Plain Python's word: the late ones, and the newest second of each partition."""
    newest: dict[Partition, int] = {}
    count = 0
    for topic, partition, _, second in sorted(rows):
        newest[topic, partition] = max(second, newest.get((topic, partition), second))
        count += newest[topic, partition] - second > 10
    return count, {key: START_US + value * SECOND for key, value in newest.items()}


@given(ROWS, st.lists(st.integers(0, 51), max_size=4))
def test_any_split_in_offset_order_gives_the_same(rows: list[Row], cuts: list[int]) -> None:
    """Carrying the maxima along, pieces of the log count the late events that the whole log has, in any row order."""
    whole = late(TICKS, table(rows))
    assert (whole.count, whole.maxima) == expected(rows)
    bounds = [0, *sorted(cuts), 51]
    count, maxima = 0, dict[Partition, int]()
    for start, end in pairwise(bounds):
        piece = late(TICKS, table([row for row in rows if start <= row[2] < end]), maxima)
        count, maxima = count + piece.count, dict(piece.maxima)
    assert (count, maxima) == (whole.count, whole.maxima)


def test_late_is_more_than_the_declared_lateness() -> None:
    """Exactly `lateness` behind is in time, one microsecond more is late; partitions do not see one another."""
    rows: list[Row] = [("a", 0, 0, 20), ("a", 0, 1, 10), ("a", 1, 0, 0), ("b", 0, 0, 0)]
    assert late(TICKS, table(rows)).count == 0
    behind = late(TICKS, table(rows[:2]), {("a", 0): START_US + 20 * SECOND + 1})
    assert behind.count == 1
    assert behind.maxima == {("a", 0): START_US + 20 * SECOND + 1}


def test_partitions_without_events_keep_their_maxima() -> None:
    """What an earlier range knew of a partition is handed on when nothing came from it."""
    maxima = {("a", 7): START_US}
    assert late(TICKS, table([]), maxima).maxima == maxima
    assert late(TICKS, table([("a", 0, 0, 1)]), maxima).maxima == {**maxima, ("a", 0): START_US + SECOND}
