"""Times of day and durations in texts, and numbers of units since 1970, since midnight or of a duration, read exactly.

What is beyond the microsecond is cut: of a time toward the past, of a duration toward zero.

| text of a time of day               | text of a duration                                        |
| ----------------------------------- | --------------------------------------------------------- |
| 13:45, 13:45:10.25, T13:45, 134510  | ISO 8601: P1DT2H, PT1.5H, -PT0.5S, PT-1H-30M              |
|                                     | a clock: 25:10:00, -0:00:01.5                             |
|                                     | days and a clock: 1 day, 2:00:00; -1 days +22:00:00; 1.02:00:00 |
|                                     | numbers with units: 1.5s, 1h30m, 250ms, -2us              |

A day has 24 hours, a week 7 days. Years and months have no length, unless they are zero.
"""

import re
from datetime import datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from tandem.views.instant import EPOCH, FIRST, LAST, time_of
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.time_notation import EpochUnit

DAY: Final = 86_400_000_000
"""The microseconds of a day."""

_MICROSECOND: Final = timedelta(microseconds=1)
_LONGEST: Final = 2**63
_TIME: Final = re.compile(r"T?(\d\d)(?:(:)?(\d\d)(?:(:)?(\d\d)(?:[.,](\d+))?)?)", re.ASCII | re.IGNORECASE)
_NUMBER: Final = r"[+-]?\d+(?:[.,]\d+)?"
_ISO: Final = re.compile(
    rf"([+-]?)P(?=[\dT+-])(?:({_NUMBER})Y)?(?:({_NUMBER})M)?(?:({_NUMBER})W)?(?:({_NUMBER})D)?"
    rf"(?:T(?=[\d+-])(?:({_NUMBER})H)?(?:({_NUMBER})M)?(?:({_NUMBER})S)?)?",
    re.ASCII | re.IGNORECASE,
)
_CLOCK: Final = re.compile(
    r"(?:([+-]?\d+) days?,? |([+-]?)(\d+)\.(?=\d\d:))?([+-]?)(\d+):([0-5]\d):([0-5]\d)(?:[.,](\d+))?", re.ASCII | re.IGNORECASE
)
_WITH_UNITS: Final = re.compile(
    r"([+-]?)(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?"
    r"(?:(\d+(?:\.\d+)?)ms)?(?:(\d+(?:\.\d+)?)[uµμ]s)?(?:(\d+(?:\.\d+)?)ns)?",
    re.ASCII,
)
_MOST_CHARACTERS: Final = 100
"""Longer texts are refused before their digits are numbers."""
_ISO_UNITS: Final = (7 * DAY, DAY, 3_600_000_000, 60_000_000, 1_000_000)
_SHORT_UNITS: Final = (3_600_000_000, 60_000_000, 1_000_000, 1_000, 1, Fraction(1, 1_000))
_DIGITS_TO_MICROSECOND: Final[dict[EpochUnit, int]] = {"s": 6, "ms": 3, "us": 0, "ns": -3}
_NAMES: Final[dict[EpochUnit, str]] = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_COUNT: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?", re.ASCII)
"""The texts of numbers that count units of time."""
_WRITTEN_NUMBER: Final = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?", re.ASCII)
_MOST_DIGITS: Final = len(str(2**63))
_EXPONENT_DIGITS: Final = 9


def time_of_text(text: str) -> time:
    """The time of day of a text; raises Reject. A leap second, 23:59:60, is the last microsecond of its day."""
    match = _TIME.fullmatch(text)
    if match is None or (match[5] is not None and match[2] != match[4]):
        raise Reject("invalid_value", "not a time of day without a zone, such as 13:45:10.25")
    hour, _, minute, _, second, fraction = match.groups()
    return clock_time(int(hour), int(minute), int(second or 0), fraction or "")


def clock_time(hour: int, minute: int, second: int, fraction: str) -> time:
    """The time that a clock shows, `fraction` with the digits after the second's point; raises Reject."""
    if hour == 24 and not minute and not second:
        raise Reject("out_of_range", "24:00 is the end of a day, and a time of day is before it; a timedelta reads it")
    if (hour, minute, second) == (23, 59, 60):
        return time.max
    try:
        return time(hour, minute, second, int(fraction[:6].ljust(6, "0")))
    except ValueError as error:
        raise Reject("invalid_value", f"the time of day does not exist: {error}") from None


def time_of_number(number: float | Decimal | str, unit: EpochUnit) -> time:
    """The time of day of a number since midnight; raises Reject."""
    microseconds = _microseconds_down(_digits(number, unit), unit)
    if microseconds is None or not 0 <= microseconds < DAY:
        raise Reject("out_of_range", f"the {_name_of_unit(unit)} since midnight are not within a day")
    return (EPOCH + timedelta(microseconds=microseconds)).time()


def duration_of_text(text: str) -> timedelta:
    """The duration of a text; raises Reject."""
    microseconds = _exact(text) if len(text) <= _MOST_CHARACTERS else None
    if microseconds is None:
        raise Reject("invalid_value", "not a duration, such as PT1H30M, 1:30:00 or 1.5s; Unit reads numbers")
    return _duration(int(microseconds))  # toward zero


def duration_of_number(number: float | Decimal | str, unit: EpochUnit) -> timedelta:
    """The duration of a number of a unit; raises Reject."""
    return _duration(_microseconds(number, unit))


def duration_of_microseconds(microseconds: int) -> timedelta:
    """The duration; raises Reject if its microseconds are not an integer of 64 bits."""
    return _duration(microseconds)


def column_value(value: Any) -> Any:
    """A time of day or a duration as its column has it: the microseconds. What is neither stays as it is. Raises Reject."""
    if isinstance(value, timedelta):
        microseconds = value // _MICROSECOND
        if not -_LONGEST <= microseconds < _LONGEST:
            raise Reject("out_of_range", "the microseconds of the duration do not fit 64 bits")
        return microseconds
    if isinstance(value, time):
        if value.tzinfo is not None:
            raise Reject("invalid_value", f"a time of day has no zone: {value.isoformat()}")
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    return value


def _duration(microseconds: int) -> timedelta:
    if not -_LONGEST <= microseconds < _LONGEST:
        raise Reject("out_of_range", "the microseconds of the duration do not fit 64 bits")
    return timedelta(microseconds=microseconds)


def _microseconds(number: float | Decimal | str, unit: EpochUnit) -> int:
    """The microseconds of a number, toward zero; raises Reject."""
    written = _digits(number, unit)
    size = _microseconds_down(written.removeprefix("-"), unit)
    if size is None:
        raise Reject("out_of_range", f"no duration has as many {_name_of_unit(unit)}")
    return -size if written.startswith("-") else size


def _digits(number: float | Decimal | str, unit: EpochUnit) -> str:
    if isinstance(number, str) and not _COUNT.fullmatch(number):
        raise Reject("invalid_value", f"not the digits of a number of {_name_of_unit(unit)}")
    return str(number)


def _exact(text: str) -> Fraction | int | None:
    """The microseconds of a duration's text, exactly; None for another text. Raises Reject for years and months."""
    if match := _ISO.fullmatch(text):
        sign, years, months, *parts = match.groups()
        if any(part is not None and _fraction(part) for part in (years, months)):
            raise Reject("invalid_value", "years and months have no exact length; write days")
        return _sign(sign, _sum(parts, _ISO_UNITS))
    if match := _CLOCK.fullmatch(text):
        days, sign, dotted, sign_of_clock, *parts, fraction = match.groups()
        if dotted is not None and sign_of_clock:
            return None
        clock = _sum([*parts[:2], f"{parts[2]}.{fraction or 0}"], _ISO_UNITS[2:])
        if dotted is not None:  # the sign is that of the whole, as .NET writes it
            return _sign(sign, int(dotted) * DAY + clock)
        return int(days or 0) * DAY + _sign(sign_of_clock, clock)
    if (match := _WITH_UNITS.fullmatch(text)) and any(part is not None for part in match.groups()[1:]):
        sign, *parts = match.groups()
        return _sign(sign, _sum(parts, _SHORT_UNITS))
    return None


def _sum(parts: list[str | None], units: tuple[Any, ...]) -> Fraction:
    return sum((_fraction(part) * unit for part, unit in zip(parts, units, strict=True) if part is not None), Fraction())


def _fraction(digits: str) -> Fraction:
    return Fraction(digits.replace(",", "."))


def _sign(sign: str | None, size: Fraction) -> Fraction:
    return -size if sign == "-" else size


def epoch_time(number: float | Decimal | str, unit: EpochUnit) -> datetime:
    """The time of a number, or of the digits in a text; a float is the shortest decimal that is read as it. Raises Reject."""
    if isinstance(number, str) and not _COUNT.fullmatch(number):
        raise Reject("invalid_value", f"not the digits of a number of {_NAMES[unit]} since 1970")
    microsecond = _microseconds_down(str(number), unit)
    if microsecond is None or not FIRST <= microsecond <= LAST:
        raise Reject("out_of_range", f"the {_NAMES[unit]} since 1970 are not in a year from 1 to 9999")
    return time_of(microsecond)


def _microseconds_down(written: str, unit: EpochUnit) -> int | None:
    """The microseconds of a number of units, toward minus infinity; None if it is not finite or beyond any time."""
    return _floor(written, _DIGITS_TO_MICROSECOND[unit])


def _name_of_unit(unit: EpochUnit) -> str:
    """The unit's name in English, as of many."""
    return _NAMES[unit]


def _floor(written: str, places: int) -> int | None:
    """The greatest integer that is not more than a decimal number times ten to the power of `places`; None if it is not finite or
    has more digits than any time.
    """
    match = _WRITTEN_NUMBER.fullmatch(written)
    if match is None:
        return None
    sign, whole, fraction, exponent = match.groups("")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return 0
    if len(exponent) > _EXPONENT_DIGITS:
        return None if exponent[0] != "-" else -bool(sign)
    point = len(digits) - len(fraction) + places + int(exponent or 0)
    if point > _MOST_DIGITS:
        return None
    kept = digits[: max(point, 0)].ljust(max(point, 0), "0")
    further = digits[max(point, 0) :].strip("0")
    return -int(kept or 0) - bool(further) if sign else int(kept or 0)
