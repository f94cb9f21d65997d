"""Late events: a label that is the same for any split of the log in offset order."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from tandem.views.kernel.label_late_events import late
from tandem.views.source.event import Event
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


def test_late_is_more_than_the_declared_lateness() -> None:
    """Exactly `lateness` behind is in time, one microsecond more is late; partitions do not see one another."""
    rows: list[Row] = [("a", 0, 0, 20), ("a", 0, 1, 10), ("a", 1, 0, 0), ("b", 0, 0, 0)]
    for some in (rows, [rows[0], rows[2]], [rows[0], rows[3]]):
        assert late(TICKS, table(some)).count == 0
    behind = late(TICKS, table(rows[:2]), {("a", 0): START_US + 20 * SECOND + 1})
    assert behind.count == 1
    assert behind.maxima == {("a", 0): START_US + 20 * SECOND + 1}


def test_partitions_without_events_keep_their_maxima() -> None:
    """What an earlier range knew of a partition is handed on when nothing came from it."""
    maxima = {("a", 7): START_US}
    assert late(TICKS, table([]), maxima).maxima == maxima
    assert late(TICKS, table([("a", 0, 0, 1)]), maxima).maxima == {**maxima, ("a", 0): START_US + SECOND}
