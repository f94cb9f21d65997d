"""Instants: times in UTC, and the same as whole microseconds since 1970."""

from datetime import UTC, datetime, timedelta
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
FIRST: Final = (datetime.min.replace(tzinfo=UTC) - EPOCH) // MICROSECOND
LAST: Final = (datetime.max.replace(tzinfo=UTC) - EPOCH) // MICROSECOND
"""The first and last microsecond that a datetime, and every reader's calendar, can be: of the years 1 and 9999."""
GREGORIAN: Final = (datetime(1582, 10, 15, tzinfo=UTC) - EPOCH) // MICROSECOND
"""The first microsecond of the Gregorian calendar. Before it Spark's Kafka source reads timestamps by the Julian calendar."""
APPEND_TIME: Final = "_append_time"
"""The column with the instant at which the log received an event; as a source's event time it is processing time."""


def microseconds(time: datetime) -> int:
    """Microseconds since 1970."""
    return (time - EPOCH) // MICROSECOND


def time_of(microseconds: int) -> datetime:
    """The inverse of `microseconds`, in UTC. Raises OverflowError outside FIRST to LAST."""
    return EPOCH + microseconds * MICROSECOND


def nearest_time(microseconds: int) -> datetime:
    """The same for a number from a clock that nobody checked: below FIRST it gives FIRST, above LAST it gives LAST."""
    return time_of(min(max(microseconds, FIRST), LAST))


def utc_text(time: datetime) -> str:
    """A time in UTC as rows and documents have it, with microseconds unless they are 0."""
    return time.isoformat().replace("+00:00", "Z")
