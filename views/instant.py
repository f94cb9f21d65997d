"""Instants as numbers that come from clocks which nobody checks."""

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
FIRST: Final = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
LAST: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
"""The first and last instants that a datetime can be, in microseconds since 1970: of the years 1 and 9999."""


def instant(microseconds: int) -> datetime:
    """The time this many microseconds after 1970; the nearest possible time, of a clock that has left the calendar."""
    return _EPOCH + timedelta(microseconds=min(max(microseconds, FIRST), LAST))
