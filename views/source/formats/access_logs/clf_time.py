"""Times as web servers log them: `17/May/2015:10:05:03 +0000`, the common log format."""

from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Final

from tandem.views.source.fields.reasons import Reject

CLF_TIME: Final = r"\d{2}/[A-Z][a-z]{2}/\d{4}:\d{2}:\d{2}:\d{2} [+-]\d{4}"
"""The regular expression of such a time, without groups; ASCII."""

_MONTHS: Final = {
    name: number
    for number, name in enumerate(("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), start=1)
}


def clf_time(text: str) -> datetime:
    """The time of a text that CLF_TIME matches; raises Reject if the time does not exist."""
    try:
        year, month, day = _day(text[:11])
        return datetime(year, month, day, int(text[12:14]), int(text[15:17]), int(text[18:20]), 0, _zone(text[21:]))
    except (KeyError, ValueError) as error:
        raise Reject("invalid_value", f"time {text!r} does not exist") from error


@lru_cache(maxsize=256)
def _day(text: str) -> tuple[int, int, int]:
    return int(text[7:]), _MONTHS[text[3:6]], int(text[:2])


@lru_cache(maxsize=256)
def _zone(text: str) -> timezone:
    minutes = int(text[1:3]) * 60 + int(text[3:5])
    return timezone(timedelta(minutes=-minutes if text[0] == "-" else minutes))
