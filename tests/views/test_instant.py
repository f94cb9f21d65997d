"""Timestamps that no calendar has: records keep their events, with the nearest time that there is."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.views.decode import decode
from tandem.views.instant import FIRST, GREGORIAN, LAST, nearest_time
from tandem.views.source.event import Event
from tandem.views.source.source import Source
from tests.views.logged import EPOCH, records

US = timedelta(microseconds=1)
LATEST = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)


class Tick(Event):
    id: int
    at: datetime


def stamped(value: bytes, timestamp: datetime) -> Tick:
    """A decoder of a project that reads the record's timestamp."""
    return Tick(id=int(value), at=timestamp)


TICKS = Source(topic="ticks", event=Tick, event_time="at")


@given(st.integers(-(2**70), 2**70))
def test_every_number_is_an_instant_and_those_of_the_calendar_are_their_own(microseconds: int) -> None:
    found = nearest_time(microseconds)
    if FIRST <= microseconds <= LAST:
        assert (found - EPOCH) // US == microseconds
    else:
        assert found == (LATEST if microseconds > 0 else datetime(1, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("numbers", [[LAST, LAST + 1], [GREGORIAN, GREGORIAN - 1, FIRST], [2**63 - 1, -(2**63), 0]])
def test_a_timestamp_beyond_the_calendar_is_the_nearest_within(numbers: list[int]) -> None:
    """Within 1582-10-15 and the year 9999: in events, in rejects, and for a decoder that reads it."""
    log = records([b'{"id": 1, "at": "2026-11-01T12:00:00Z"}', b"broken"] * len(numbers))
    place = log.schema.get_field_index("timestamp")
    both = [number for number in numbers for _ in range(2)]
    log = log.set_column(place, log.schema.field(place), pa.array(both, pa.int64()).cast(log.schema.field(place).type))
    found = decode(TICKS, log)
    expected = [nearest_time(max(number, GREGORIAN)) for number in numbers]
    assert found.events["_append_time"].to_pylist() == expected
    assert found.rejects["timestamp"].to_pylist() == expected
    wide = (datetime(1, 1, 1, tzinfo=UTC), LATEST)
    own = Source(topic="ticks", event=Tick, event_time="at", decoder=stamped, plausible=wide)
    read = decode(own, log.set_column(log.schema.get_field_index("value"), "value", pa.array([b"7"] * len(both), pa.binary())))
    assert read.events["at"].to_pylist() == [time for time in expected for _ in range(2) if time < LATEST]
    assert set(read.rejects["reason"].to_pylist()) <= {"implausible_time"}
