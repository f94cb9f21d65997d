"""Logical types of Avro: the kind of a single value, and what makes it of a value of the physical type."""

from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Context, Decimal
from functools import partial
from math import log10
from typing import Any, Final
from uuid import UUID

from tandem.views.instant import time_of
from tandem.views.source.fields.clock_values import DAY, duration_of_microseconds, time_of_number
from tandem.views.source.fields.named_fields import Kind
from tandem.views.source.fields.reasons import Reject

Convert = Callable[[Any], Any]

_DECIMAL_BITS: Final = 4096
_DECIMALS: Final = Context(prec=1300)
"""Of more digits than those bits have: no decimal is rounded."""
_DAYS_TO_1970: Final = date(1970, 1, 1).toordinal()
_DETAIL_CHARACTERS: Final = 40
_KINDS: Final[dict[str, Kind]] = {
    "boolean": "boolean",
    "int": "integer",
    "long": "integer",
    "float": "float",
    "double": "float",
    "string": "string",
    "enum": "enum",
    "bytes": "bytes",
    "fixed": "bytes",
}


def leaf(schema: Mapping[str, Any]) -> tuple[Kind | None, Convert | None]:
    """The kind of a single value, and what makes it of a value of the physical type.

    An invalid logical type is ignored, as the specification says.
    """
    physical, logical = schema["type"], schema.get("logicalType")
    if logical == "decimal" and physical in ("bytes", "fixed") and valid_decimal(schema):
        return "decimal", partial(_decimal, schema.get("scale", 0))
    if physical != "fixed" or schema["size"] == _FIXED.get(logical or ""):
        annotated = _LOGICAL.get(f"{physical} {logical}")
        if annotated is not None:
            return annotated
    return _KINDS.get(physical), None


def valid_decimal(schema: Mapping[str, Any]) -> bool:
    """Whether a decimal's annotation is valid: a precision, a scale within it, and in `fixed` the bytes for all its values."""
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not (isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision and precision > 0):
        return False
    # Not by powers: a schema may have a size or precision of any number of digits.
    return bool(schema["type"] != "fixed" or precision <= log10(2) * (8 * schema["size"] - 1))


def _decimal(scale: int, data: bytes) -> Decimal:
    """The decimal of an integer in two's complement, with all its digits; raises OverflowError if it has thousands."""
    unscaled = int.from_bytes(data, "big", signed=True)
    if unscaled.bit_length() > _DECIMAL_BITS:
        raise OverflowError(f"a decimal of {unscaled.bit_length()} bits")
    return Decimal(unscaled).scaleb(-scale, _DECIMALS)


def _date(days: int) -> date:
    try:
        return date.fromordinal(days + _DAYS_TO_1970)
    except (OverflowError, ValueError) as error:
        raise OverflowError(f"{days} days since 1970 are not in a year from 1 to 9999") from error


def _local(microseconds: int) -> datetime:
    return time_of(microseconds).replace(tzinfo=None)


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as error:
        raise Reject("invalid_value", f"not a uuid: {text[:_DETAIL_CHARACTERS]!r}") from error


def _duration(data: bytes) -> timedelta:
    """The duration of months, days and milliseconds; a day has 24 hours. Raises Reject for months."""
    months, days, milliseconds = (int.from_bytes(data[start : start + 4], "little") for start in (0, 4, 8))
    if months:
        raise Reject("invalid_value", f"a duration of {months} months has no exact length")
    return duration_of_microseconds(days * DAY + milliseconds * 1000)


_FIXED: Final = {"duration": 12, "uuid": 16}
_LOGICAL: Final[dict[str, tuple[Kind | None, Convert]]] = {
    "int date": ("date", _date),
    "int time-millis": ("time_of_day", lambda number: time_of_number(number, "ms")),
    "long time-micros": ("time_of_day", lambda number: time_of_number(number, "us")),
    "long timestamp-millis": ("timestamp", lambda number: time_of(1000 * number)),
    "long timestamp-micros": ("timestamp", time_of),
    "long timestamp-nanos": ("timestamp", lambda number: time_of(number // 1000)),
    "long local-timestamp-millis": ("local_timestamp", lambda number: _local(1000 * number)),
    "long local-timestamp-micros": ("local_timestamp", _local),
    "long local-timestamp-nanos": ("local_timestamp", lambda number: _local(number // 1000)),
    "fixed duration": ("duration", _duration),
    "string uuid": ("uuid", _uuid),
    "fixed uuid": ("uuid", lambda data: UUID(bytes=data)),
}
