"""The record whose timestamp decides how long unarchived records are safe, whatever a producer's clock."""

from datetime import UTC, datetime, timedelta

import pytest

from tandem.infra.kafka import Record
from tandem.serving.status.sources import _oldest

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
SOON, BEFORE, EARLIER = NOW + 900 * HOUR, NOW - HOUR, NOW - 2 * HOUR


def milliseconds(time: datetime) -> int:
    return (time - EPOCH) // timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("stamps", "oldest"),
    [
        ([BEFORE, EARLIER], BEFORE),
        # A broker deletes the oldest records first: those behind wait for the first.
        ([SOON, EARLIER, BEFORE], EARLIER),
        ([SOON, SOON], NOW),
        ([EPOCH, BEFORE], EPOCH),
    ],
)
def test_the_first_record_that_is_not_from_the_future_decides(stamps: list[datetime], oldest: datetime) -> None:
    assert _oldest([Record(milliseconds(stamp), None, b"x") for stamp in stamps], NOW) == oldest


@pytest.mark.parametrize("stamp", [1_800_000_000_000_000, 2**63 - 1])
def test_a_time_outside_the_calendar_counts_as_future(stamp: int) -> None:
    """Microseconds that a producer has taken for milliseconds."""
    assert _oldest([Record(stamp, None, b"x"), Record(milliseconds(BEFORE), None, b"x")], NOW) == BEFORE
