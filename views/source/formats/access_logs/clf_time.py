"""Times as web servers log them: `17/May/2015:10:05:03 +0000`, the common log format."""

from datetime import date, datetime, timedelta, timezone
from functools import lru_cache
from typing import Final

from tandem.views.source.fields.reasons import Reject
from tandem.views.source.fields.wall_clock import Clock, instant

CLF_TIME: Final = r"\d{2}/[A-Z][a-z]{2}/\d{4}:\d{2}:\d{2}:\d{2} [+-]\d{4}"
"""The regular expression of such a time, without groups; ASCII."""

_MONTHS: Final = {
    name: number
    for number, name in enumerate(("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), start=1)
}
_LEAP_SECOND: Final = 60
_MIDNIGHT: Final = 24


def clf_time(text: str) -> datetime:
    """The time of a text that CLF_TIME matches; raises Reject if the time does not exist."""
    hour, minute, second = int(text[12:14]), int(text[15:17]), int(text[18:20])
    try:
        year, month, day = _day(text[:11])
        if second == _LEAP_SECOND or hour == _MIDNIGHT:
            return instant(Clock(date(year, month, day), hour, minute, second), _zone(text[21:]), None)
        return datetime(year, month, day, hour, minute, second, 0, _zone(text[21:]))
    except (KeyError, ValueError) as error:
        raise Reject("invalid_value", f"time {text!r} does not exist") from error
    except Reject as reject:
        raise Reject(reject.reason, f"time {text!r}: {reject.detail}") from reject


@lru_cache(maxsize=256)
def _day(text: str) -> tuple[int, int, int]:
    return int(text[7:]), _MONTHS[text[3:6]], int(text[:2])


@lru_cache(maxsize=256)
def _zone(text: str) -> timezone:
    minutes = int(text[1:3]) * 60 + int(text[3:5])
    return timezone(timedelta(minutes=-minutes if text[0] == "-" else minutes))
