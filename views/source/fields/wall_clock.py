"""The instant of a date and a time of day, as clocks show them: with an offset, or on the wall clocks of a zone."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone

from tandem.views.instant import MICROSECOND
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.time_notation import Zone
from tandem.views.time_zone import time_zone

_DAY = timedelta(days=1)
_LEAP_SECOND = 60
_MIDNIGHT = 24


@dataclass(frozen=True)
class Clock:
    """What a text shows: `second` may be 60, `hour` 24; `fraction` has the digits after the second's point."""

    day: date
    hour: int = 0
    minute: int = 0
    second: int = 0
    fraction: str = ""


def instant(clock: Clock, offset: timezone | None, zone: Zone | None) -> datetime:
    """The instant, with the offset as its zone, or else in UTC; further digits are cut, toward the past.

    * 24:00 is the end of its day.
    * A leap second, 23:59:60 in UTC at the end of a month, is its last microsecond but one second: 23:59:59.999999.

    Raises Reject, also if there is neither offset nor zone.
    """
    if offset is None and zone is None:
        raise Reject("no_zone", "the time has no zone")
    try:
        if clock.hour == _MIDNIGHT:
            return _end_of_day(clock, offset, zone)
        if clock.second == _LEAP_SECOND:
            return _leap_second(_instant(_naive(clock, 59, 999_999), offset, zone))
        return _instant(_naive(clock, clock.second, int(clock.fraction[:6].ljust(6, "0"))), offset, zone)
    except OverflowError:
        raise Reject("out_of_range", "the time is not in a year from 1 to 9999 of UTC") from None
    except ValueError as error:
        raise Reject("invalid_value", f"the time does not exist: {error}") from None


def on_wall_clocks(shown: datetime, zone: Zone) -> datetime:
    """The instant in UTC at which the clocks of a zone show a time without a zone.

    Raises Reject if clocks skip it and the zone's rule says so, or if it is beyond the years of UTC.
    """
    local = shown.replace(tzinfo=time_zone(zone.name))
    first, second = local.replace(fold=0).utcoffset(), local.replace(fold=1).utcoffset()
    assert first is not None
    assert second is not None
    if first < second and zone.gap == "reject":
        raise Reject("invalid_value", f"{zone.name} has no time {shown.isoformat(' ')}: clocks are set forward there")
    # In a gap, the offset from before is the first, and moves the time forward by what clocks skip.
    later = zone.fold == "second" and first > second
    try:
        return (shown - (second if later else first)).replace(tzinfo=UTC)
    except OverflowError:
        raise Reject("out_of_range", f"{shown.isoformat(' ')} in {zone.name} is not in a year from 1 to 9999 of UTC") from None


def _naive(clock: Clock, second: int, microsecond: int) -> datetime:
    return datetime.combine(clock.day, time(clock.hour, clock.minute, second, microsecond))


def _instant(shown: datetime, offset: timezone | None, zone: Zone | None) -> datetime:
    if offset is None:
        assert zone is not None
        return on_wall_clocks(shown, zone)
    there = shown.replace(tzinfo=offset)
    there.astimezone(UTC)  # no column holds a time beyond the years of UTC
    return there


def _end_of_day(clock: Clock, offset: timezone | None, zone: Zone | None) -> datetime:
    if clock.minute or clock.second or clock.fraction.strip("0"):
        raise Reject("invalid_value", "the hour 24 is the end of a day, 24:00")
    if offset is not None and clock.day == date.max:  # the next year is beyond datetime, and may be in this one in UTC
        return datetime.combine(clock.day, time(), offset).astimezone(UTC) + _DAY
    return _instant(datetime.combine(clock.day + _DAY, time()), offset, zone)


def _leap_second(before: datetime) -> datetime:
    """The microsecond before a leap second, which is the last that a datetime has; raises Reject where there is none."""
    utc = before.astimezone(UTC)
    try:
        after = utc + MICROSECOND
    except OverflowError:
        return before
    if (after.day, after.hour, after.minute) != (1, 0, 0):
        raise Reject("invalid_value", "the time does not exist: a leap second is 23:59:60 in UTC at the end of a month")
    return before
