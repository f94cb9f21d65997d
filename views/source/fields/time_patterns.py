"""Reads texts by the pattern of a Format."""

import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from typing import Final

from tandem.views.source.fields.clock_values import clock_time
from tandem.views.source.fields.iso8601 import OFFSET, offset_of
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.fields.wall_clock import Clock, instant
from tandem.views.source.time_notation import Format, Zone

_MONTHS: Final = (
    "january february march april may june july august september october november december".split()  # noqa: SIM905  shorter
)
_DAYS: Final = "monday tuesday wednesday thursday friday saturday sunday".split()  # noqa: SIM905  shorter
_SHORT: Final = 3
_PIVOT: Final = 69
_HALF_DAY: Final = 12
_GROUP: Final = re.compile(r"(?<!\\)\((?!\?[^P])(?:\?P<\w+>)?")
_FULL: Final = {"Y": 4, "j": 3}
_TEXTS: Final = {
    "b": "|".join(name[:_SHORT] for name in _MONTHS),
    "B": "|".join(_MONTHS),
    "a": "|".join(name[:_SHORT] for name in _DAYS),
    "A": "|".join(_DAYS),
    "p": "AM|PM",
    "f": r"\d+",
    "z": OFFSET,
    "Z": "UTC|GMT|Z",
    "Y": r"\d{4}",
}


@lru_cache(maxsize=256)
def clock_reader(format_: Format) -> Callable[[str], time]:
    """The function from a text of the pattern to its time of day; it raises Reject."""
    match_parts = _match(format_)

    def time_of_day(text: str) -> time:
        parts = match_parts(text)
        return clock_time(_hour(parts), int(parts.get("M", 0)), int(parts.get("S", 0)), parts.get("f", ""))

    return time_of_day


@lru_cache(maxsize=256)
def pattern_reader(format_: Format, zone: Zone | None, *, dates: bool) -> Callable[[str], datetime | date]:
    """The function from a text of the pattern to its instant, or to its date; it raises Reject."""
    match_parts = _match(format_)

    def instant_or_date(text: str) -> datetime | date:
        parts = match_parts(text)
        day = _date(parts)
        if dates:
            return day
        clock = Clock(day, _hour(parts), int(parts.get("M", 0)), int(parts.get("S", 0)), parts.get("f", ""))
        offset = offset_of(parts["z"]) if "z" in parts else offset_of("Z") if "Z" in parts else None
        return instant(clock, offset, zone)

    return instant_or_date


def _match(format_: Format) -> Callable[[str], dict[str, str]]:
    """The function from a text of the pattern to its parts by directive, in lower case; it raises Reject."""
    pattern = re.compile(_with_groups(format_), re.ASCII | re.IGNORECASE)

    def parts_of(text: str) -> dict[str, str]:
        match = pattern.fullmatch(text)
        if match is None:
            raise Reject("invalid_value", f"not a text of {format_}")
        return {name: part.lower() for name, part in match.groupdict().items()}

    return parts_of


def expression(format_: Format) -> str:
    """The regular expression, without groups, of a format's texts; ASCII."""
    return f"(?i:{_GROUP.sub('(?:', _with_groups(format_))})"


def _with_groups(format_: Format) -> str:
    return "".join(_expression(piece, whole=whole) for piece, whole in format_.parts())


def _expression(piece: str, *, whole: bool) -> str:
    """The regular expression of a literal text or a directive; `whole`: of a number with all its digits."""
    name = piece[1:]
    if piece[0] != "%" or name == "%":
        return re.escape("%" if name == "%" and piece[0] == "%" else piece)
    if name in _TEXTS:
        return f"(?P<{name}>{_TEXTS[name]})"
    if name == "e":
        return r"(?P<e>\d\d| \d)" if whole else r"(?P<e>\d\d?| \d)"
    digits = _FULL.get(name, 2)
    return rf"(?P<{name}>\d{{{digits if whole else 1},{digits}}})"


def _date(parts: dict[str, str]) -> date:
    year = int(parts["Y"]) if "Y" in parts else int(parts["y"]) + (1900 if int(parts["y"]) >= _PIVOT else 2000)
    try:
        if "j" in parts:
            day = _day_of_year(year, int(parts["j"]))
        else:
            month = int(parts["m"]) if "m" in parts else 1 + _place(_MONTHS, parts.get("b") or parts["B"])
            day = date(year, month, int(parts["d"] if "d" in parts else parts["e"]))
    except (ValueError, OverflowError) as error:
        raise Reject("invalid_value", f"the date does not exist: {error}") from None
    for name in parts.keys() & {"a", "A"}:
        if _place(_DAYS, parts[name]) != day.weekday():
            raise Reject("invalid_value", f"{day.isoformat()} is not a {_DAYS[_place(_DAYS, parts[name])].capitalize()}")
    return day


def _day_of_year(year: int, number: int) -> date:
    if not 1 <= number <= (date(year, 12, 31) - date(year, 1, 1)).days + 1:
        raise ValueError(f"{year} has no day {number}")
    return date(year, 1, 1) + timedelta(days=number - 1)


def _hour(parts: dict[str, str]) -> int:
    if "I" not in parts:
        return int(parts.get("H", 0))
    hour = int(parts["I"])
    if not 1 <= hour <= _HALF_DAY:
        raise Reject("invalid_value", f"the hour {hour} is not from 1 to 12")
    return hour % _HALF_DAY + (_HALF_DAY if parts["p"] == "pm" else 0)


def _place(names: list[str], written: str) -> int:
    return next(place for place, name in enumerate(names) if name.startswith(written))
