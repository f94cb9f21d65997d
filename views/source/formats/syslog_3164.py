"""Syslog messages of RFC 3164, as programs, routers and relays send them, and as files of a machine have them.

    <34>Oct 11 22:14:15 mymachine su[230]: 'su root' failed for lonvick on /dev/pts/8

| part       | what is read                                                                                        |
| ---------- | --------------------------------------------------------------------------------------------------- |
| priority   | may be absent, as in files: facility and severity are then missing                                  |
| time       | `Oct 11 22:14:15`, its day with a space, a zero or neither; also with a year after it, or a fraction; |
|            | or RFC 3339, as rsyslog writes it                                                                   |
| hostname   | a word; absent where the next word ends in a colon, as of programs that log to their own machine     |
| app, procid | `su[230]:` or `su:`; absent where no such word follows                                              |
| message    | the rest, without the space after the colon                                                         |
"""

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, Literal

from tandem.views.source.fields import time_reader
from tandem.views.source.fields.reasons import Reject
from tandem.views.time_zone import time_zone

Year = Literal["nearest"] | int
"""The year of times without one: that in which a time is nearest to its record's timestamp, or this one."""

MESSAGE: Final = re.compile(
    r"(?:<(?P<priority>0|[1-9]\d{0,2})>)?"
    r"(?P<time>(?P<month>[A-Z][a-z]{2}) (?P<day>[ 0]?\d|\d\d)(?: (?P<year>\d{4}))? "
    r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:\.(?P<fraction>\d+))?"
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d))"
    r"(?: (?P<hostname>(?!\S*:(?: |\Z))\S++))?"
    r"(?: (?P<app>[^\s:\[\]]++)(?:\[(?P<procid>[^\]\s]*+)\])?+:(?= |\Z))?"
    r"(?: (?P<message>.*))?"
    r"(?P<msgid>(?!))?(?P<structured>(?!))?",
    re.ASCII | re.DOTALL,
)
"""The parts have the names of those of RFC 5424; two of them never occur."""
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_HALF_YEAR: Final = timedelta(days=184)


def time_of(match: re.Match[str], zone: str, year: Year, timestamp: datetime | None) -> datetime:
    """The time of a message that MESSAGE matches; raises Reject if it does not exist, or in no year near the timestamp.

    Of a time that clocks show twice it is the first; a time that they skip is moved forward by what they skip.
    """
    if match["month"] is None:
        return iso_time(match["time"])
    if match["year"] is not None:
        return _instant(match, int(match["year"]), zone)
    if year != "nearest":
        return _instant(match, year, zone)
    if timestamp is None:
        raise Reject("invalid_value", f"time {match['time']!r} has no year, and its record no timestamp")
    near: list[datetime] = []
    for candidate in range(max(timestamp.year - 1, date.min.year), min(timestamp.year + 1, date.max.year) + 1):
        try:
            near.append(_instant(match, candidate, zone))
        except Reject:
            continue  # 29 February exists in leap years alone
    nearest = min(near, key=lambda each: abs(each - timestamp), default=None)
    if nearest is None or abs(nearest - timestamp) > _HALF_YEAR:
        raise Reject(
            "invalid_value", f"time {match['time']!r} does not exist within half a year of the record's, {timestamp:%Y-%m-%d}"
        )
    return nearest


def iso_time(text: str) -> datetime:
    """A time of RFC 3339; raises Reject."""
    try:
        return time_reader.iso_time(text)
    except Reject as reject:
        raise Reject(reject.reason, f"time {text!r}: {reject.detail}") from reject


def _instant(match: re.Match[str], year: int, zone: str) -> datetime:
    try:
        day = date(year, _MONTHS.index(match["month"]) + 1, int(match["day"]))
        fraction = int((match["fraction"] or "")[:6].ljust(6, "0"))
        clock = time(int(match["hour"]), int(match["minute"]), int(match["second"]), fraction)
        return datetime.combine(day, clock, time_zone(zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise Reject("invalid_value", f"time {match['time']!r} does not exist in {year}") from None
