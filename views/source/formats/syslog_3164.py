"""Syslog messages of RFC 3164, as programs, routers and relays send them, and as files of a machine have them.

    <34>Oct 11 22:14:15 mymachine su[230]: 'su root' failed for lonvick on /dev/pts/8
    <189>29: router: *Oct 11 22:14:15.123 CEST: %SYS-5-CONFIG_I: Configured from console

| part       | what is read                                                                                        |
| ---------- | --------------------------------------------------------------------------------------------------- |
| priority   | may be absent, as in files: facility and severity are then missing                                  |
| time       | `Oct 11 22:14:15`, its day with a space, a zero or neither; also with a year after it, or a fraction; |
|            | or RFC 3339, as rsyslog writes it, or `+0200` as journalctl does                                    |
| hostname   | a word; absent where the next word ends in a colon, as of programs that log to their own machine     |
| app, procid | `su[230]:` or `su:`; absent where no such word follows                                              |
| message    | the rest, without the space after the colon                                                         |

Cisco's devices write a colon after the time, and `%FACILITY-SEVERITY-MNEMONIC`, which is `app`:

* A number of the message before the time, and the sign of a clock that is not synchronised, `*` or `.`, are left out.
* The hostname is what stands before the time, or after it before ` : `.
* The year may stand before the month.
* `UTC` and `GMT` after the time are its zone. Another name of a zone must be that of the declared zone then: CEST in summer.
"""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, Literal

from tandem.views.source.fields import time_reader
from tandem.views.source.fields.reasons import Reject
from tandem.views.time_zone import time_zone

Year = Literal["nearest"] | int
"""The year of times without one: that in which a time is nearest to its record's timestamp, or this one."""
Parts = Mapping[str, str | None]

_PRIORITY: Final = r"(?:<(?P<priority>0|[1-9]\d{0,2})>)?"
_CLOCK: Final = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:\.(?P<fraction>\d+))?"
_DAY: Final = r"(?P<month>[A-Z][a-z]{2}) (?P<day>[ 0]?\d|\d\d)"
_MESSAGE: Final = re.compile(
    rf"{_PRIORITY}(?P<time>{_DAY}(?: (?P<year>\d{{4}}))? {_CLOCK}"
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d))"
    r"(?: (?P<hostname>(?!\S*:(?: |\Z))\S++))?"
    r"(?: (?P<app>[^\s:\[\]]++)(?:\[(?P<procid>[^\]\s]*+)\])?+:(?= |\Z))?"
    r"(?: (?P<message>.*))?",
    re.ASCII | re.DOTALL,
)
_OF_CISCO: Final = re.compile(
    rf"{_PRIORITY}(?:\d+: |: ?)?(?:(?P<before>[^\s:]\S*): )?[*.]?"
    rf"(?P<time>(?:(?P<first>\d{{4}}) )?{_DAY}(?: (?P<year>\d{{4}}))? {_CLOCK})"
    r"(?: (?P<name>[A-Za-z]{1,7})(?=:)| (?P<hostname>[^\s:]\S*) (?=:))?"
    r": (?P<app>%[A-Z0-9_]+(?:-[A-Z0-9_]+)*-\d(?:-[A-Z0-9_]+)?):(?: (?P<message>.*))?",
    re.ASCII | re.DOTALL,
)
_NEVER: Final = dict.fromkeys(("msgid", "structured", "procid", "name"))
"""Parts of RFC 5424, or of some messages, that others do not have."""
_UTC: Final = ("UTC", "GMT", "Z")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_HALF_YEAR: Final = timedelta(days=184)


def parts_of(text: str) -> Parts | None:
    """The parts of a message by the names of those of RFC 5424; None if it is not one of RFC 3164."""
    if ": %" in text and (cisco := _OF_CISCO.fullmatch(text)):
        parts = cisco.groupdict()
        return _NEVER | parts | {"hostname": parts["hostname"] or parts["before"], "year": parts["year"] or parts["first"]}
    match = _MESSAGE.fullmatch(text)
    return None if match is None else _NEVER | match.groupdict()


def time_of(parts: Parts, zone: str, year: Year, timestamp: datetime | None) -> datetime:
    """The time of a message; raises Reject if it does not exist, or in no year near the timestamp.

    Of a time that clocks show twice it is the first, unless the message names the zone; a time that they skip is moved forward by
    what they skip.
    """
    if parts["month"] is None:
        return iso_time(parts["time"] or "")
    if parts["year"] is not None:
        return _instant(parts, int(parts["year"]), zone)
    if year != "nearest":
        return _instant(parts, year, zone)
    if timestamp is None:
        raise Reject("invalid_value", f"time {parts['time']!r} has no year, and its record no timestamp")
    near: list[datetime] = []
    faults: list[Reject] = []
    for candidate in range(max(timestamp.year - 1, date.min.year), min(timestamp.year + 1, date.max.year) + 1):
        try:
            near.append(_instant(parts, candidate, zone))
        except Reject as fault:  # 29 February exists in leap years alone
            faults.append(fault)
    nearest = min(near, key=lambda each: abs(each - timestamp), default=None)
    if nearest is None and parts["name"] is not None:
        raise faults[1]
    if nearest is None or abs(nearest - timestamp) > _HALF_YEAR:
        raise Reject(
            "invalid_value", f"time {parts['time']!r} does not exist within half a year of the record's, {timestamp:%Y-%m-%d}"
        )
    return nearest


def iso_time(text: str) -> datetime:
    """A time of RFC 3339; raises Reject."""
    try:
        return time_reader.iso_time(text)
    except Reject as reject:
        raise Reject(reject.reason, f"time {text!r}: {reject.detail}") from reject


def _instant(parts: Parts, year: int, zone: str) -> datetime:
    text = {name: part or "0" for name, part in parts.items()}
    try:
        day = date(year, _MONTHS.index(text["month"]) + 1, int(text["day"]))
        clock = time(int(text["hour"]), int(text["minute"]), int(text["second"]), int(text["fraction"][:6].ljust(6, "0")))
        name = parts["name"]
        if name in _UTC:
            return datetime.combine(day, clock, UTC)
        shown = datetime.combine(day, clock, time_zone(zone))
        times = [each for each in (shown, shown.replace(fold=1)) if name is None or each.tzname() == name]
        if times:
            return times[0].astimezone(UTC)
    except (ValueError, OverflowError):
        raise Reject("invalid_value", f"time {parts['time']!r} does not exist in {year}") from None
    raise Reject("invalid_value", f"time {parts['time']!r} is in zone {name}, but clocks in {zone} show {shown.tzname()} then")
