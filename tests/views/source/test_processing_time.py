"""Processing time: windows by when the log received a record, where the log is the one to say so."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from tandem.views.decode import decode
from tandem.views.instant import APPEND_TIME
from tandem.views.kernel.kernel import deduplicate, late, merge, partial, prepare, present
from tandem.views.measures import count, last
from tandem.views.source.event import Event
from tandem.views.source.offset_ranges import EMPTY
from tandem.views.source.source import Source
from tandem.views.view import View
from tandem.views.windows import session, tumbling
from tests.views.logged import records


class Ping(Event):
    """An event that does not know when it was."""

    id: int


PINGS = Source(topic="pings", event=Ping, event_time=APPEND_TIME, identity=("id",), name="pings", plausible=(
    datetime(1970, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
))  # fmt: skip


def appended(*values: bytes, kind: int | None = 1) -> pa.Table:
    """Records of one second each, whose timestamps the log gave."""
    table = records(values)
    return table.set_column(
        table.schema.get_field_index("timestamp_type"), "timestamp_type", pa.array([kind] * len(values), pa.int32())
    )


def test_a_window_is_of_when_the_log_received_a_record() -> None:
    decoded = decode(PINGS, appended(*(b'{"id": %d}' % number for number in range(5))))
    events = prepare(PINGS, decoded.events).events
    view = View(PINGS, window=tumbling(seconds=2), measures={"n": count(), "last": last("id")})
    rows = present(view, merge(view, [partial(view, events, EMPTY)])).sort_by("window_start").to_pylist()
    assert [(row["window_start"].second, row["n"], row["last"]) for row in rows] == [(0, 2, 1), (2, 2, 3), (4, 1, 4)]
    sessions = View(PINGS, window=session(seconds=2), measures={"n": count()})
    assert present(sessions, partial(sessions, events, EMPTY))["n"].to_pylist() == [5]


def test_a_copy_is_one_whenever_it_came() -> None:
    decoded = decode(PINGS, appended(b'{"id": 1}', b'{"id": 2}', b'{"id": 1}'))
    counted = deduplicate(PINGS, decoded.events)
    assert (counted.events.num_rows, counted.duplicates, counted.conflicts) == (2, 1, 0)


def test_nothing_is_late_by_the_clock_of_the_log() -> None:
    events = decode(PINGS, appended(*(b'{"id": %d}' % number for number in range(100)))).events
    assert late(PINGS, events).count == 0


def test_a_timestamp_of_the_producer_is_refused() -> None:
    for kind in (0, None):
        decoded = decode(PINGS, appended(b'{"id": 1}', kind=kind))
        assert decoded.events.num_rows == 0
        assert decoded.rejects["reason"].to_pylist() == ["producer_time"]


def test_append_times_have_to_be_plausible_too() -> None:
    young = Source(
        topic="pings",
        event=Ping,
        event_time=APPEND_TIME,
        plausible=(datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=2)),
    )
    decoded = decode(young, appended(b'{"id": 1}', b'{"id": "x"}', b'{"id": 3}', b'{"id": 4}'))
    assert decoded.events["id"].to_pylist() == [1]
    assert decoded.rejects["offset"].to_pylist() == [1, 2, 3]
    assert decoded.rejects["reason"].to_pylist() == ["wrong_type", "implausible_time", "implausible_time"]
