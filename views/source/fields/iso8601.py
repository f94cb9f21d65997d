"""Times as ISO 8601 writes them: the extended form, and the basic form without its punctuation.

    2026-11-01T08:00:00.5+01:00    2026-11-01 08:00Z    2026-11-01T08:00:00,5+01    20261101T080000+0100

* `T` may be a space. `T` and `Z` are in any case. Seconds may be missing. A comma is a point. An offset may lack its colon or
  minutes, and have a space before it. After a space UTC may be written, as by BigQuery.
* Not read are dates without a time, weeks (2026-W44-7), days of a year (2026-305), hours without minutes, fractions of a minute,
  and years of more than four digits.
"""

import re
from datetime import UTC, date, datetime, timedelta, timezone
from functools import lru_cache
from typing import Final

from tandem.views.source.fields.reasons import Reject
from tandem.views.source.fields.wall_clock import Clock, instant
from tandem.views.source.time_notation import Zone

OFFSET: Final = r"Z|[+-]\d{2}(?::?\d{2})?"
"""The regular expression of an offset from UTC; ASCII, in any case."""

_TIME: Final = re.compile(
    r"(\d{4})(-?)(\d{2})\2(\d{2})[T ](\d{2})(?:(:)|(?=\d))(\d{2})(?:(:)?(\d{2})(?:[.,](\d+))?)?" rf"(?: ?({OFFSET}|(?<= )UTC))?",
    re.ASCII | re.IGNORECASE,
)


def iso8601_time(text: str, zone: Zone | None = None) -> datetime:
    """The instant of a text, with its offset; without one, in UTC from the wall clocks of `zone`. Raises Reject."""
    match = _TIME.fullmatch(text)
    if match is None or not _same_form(match):
        raise Reject("invalid_value", "not a time of ISO 8601, such as 2026-11-01T08:00:00Z")
    year, _, month, day, hour, _, minute, _, second, fraction, offset = match.groups()
    try:
        shown = date(int(year), int(month), int(day))
    except ValueError as error:
        raise Reject("invalid_value", f"the date does not exist: {error}") from None
    clock = Clock(shown, int(hour), int(minute), int(second or 0), fraction or "")
    return instant(clock, None if offset is None else offset_of(offset), zone)


@lru_cache(maxsize=256)
def offset_of(text: str) -> timezone:
    """The offset of a text that OFFSET matches; raises Reject if it is a day or more, or has 60 minutes."""
    if text.upper() in ("Z", "UTC"):
        return UTC
    hours, minutes = int(text[1:3]), int(text[3:].removeprefix(":") or 0)
    if hours > 23 or minutes > 59:
        raise Reject("invalid_value", f"the offset {text} does not exist")
    size = timedelta(hours=hours, minutes=minutes)
    return timezone(-size if text[0] == "-" else size) if size else UTC


def _same_form(match: re.Match[str]) -> bool:
    """Whether date and time are both extended or both basic; seconds are as the minutes before them."""
    extended = bool(match[2])
    return bool(match[6]) == extended and (match[9] is None or bool(match[8]) == extended)
