"""Times that are numbers since 1970-01-01T00:00:00Z, read exactly: what is beyond the microsecond is cut, toward the past."""

import re
from datetime import datetime
from decimal import Decimal
from typing import Final

from tandem.views.instant import FIRST, LAST, time_of
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.time_notation import EpochUnit

_DIGITS_TO_MICROSECOND: Final[dict[EpochUnit, int]] = {"s": 6, "ms": 3, "us": 0, "ns": -3}
_NAMES: Final[dict[EpochUnit, str]] = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_TEXT: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?", re.ASCII)
_NUMBER: Final = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?", re.ASCII)
_MOST_DIGITS: Final = len(str(LAST))
_EXPONENT_DIGITS: Final = 9


def epoch_time(number: float | Decimal | str, unit: EpochUnit) -> datetime:
    """The time of a number, or of the digits in a text; a float is the shortest decimal that is read as it. Raises Reject."""
    if isinstance(number, str) and not _TEXT.fullmatch(number):
        raise Reject("invalid_value", f"not the digits of a number of {_NAMES[unit]} since 1970")
    microsecond = _floor(str(number), _DIGITS_TO_MICROSECOND[unit])
    if microsecond is None or not FIRST <= microsecond <= LAST:
        raise Reject("out_of_range", f"the {_NAMES[unit]} since 1970 are not in a year from 1 to 9999")
    return time_of(microsecond)


def _floor(written: str, places: int) -> int | None:
    """The greatest integer that is not more than a decimal number times ten to the power of `places`; None if it is not finite or
    has more digits than any time.
    """
    match = _NUMBER.fullmatch(written)
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
