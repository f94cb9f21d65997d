"""Values of a row that Kafka Connect's JSON converter writes with their schema, in the notation that the json decoder reads.

| schema                                          | JSON                    | becomes                                 |
| ----------------------------------------------- | ----------------------- | --------------------------------------- |
| connect.data.Decimal                            | base64 of the integer   | a number with the schema's scale        |
| debezium.data.VariableScaleDecimal              | scale, and base64       | a number                                |
| debezium.time.Date, connect.data.Date           | days since 1970         | a date                                  |
| debezium.time.IsoDate                           | a date with `Z`         | a date                                  |
| debezium.time.Timestamp, MicroTimestamp, NanoTimestamp, connect.data.Timestamp | a number since 1970 | a time without a zone |
| debezium.time.IsoTimestamp                      | a time with `Z`         | a time without a zone                   |
| debezium.time.Time, MicroTime, NanoTime, connect.data.Time | a number since midnight | a time of day                |
| debezium.time.IsoTime                           | a time of day with `Z`  | a time of day                           |
| debezium.time.MicroDuration, NanoDuration       | a number                | a duration                              |

A database's `timestamp` without time zone has no zone in Debezium's messages either: the `Z` and the epoch are a form. Other
values stay as they are, and so does a number whose field has its own Epoch, Unit or Format, or is an int.
"""

from base64 import b64decode
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Final

import msgspec

from tandem.views.source.event import Field
from tandem.views.source.fields.clock_values import epoch_time
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.time_notation import EpochUnit

Rewrite = Callable[[bytes], bytes]
"""From one JSON value to the same in another notation. Raises errors of msgspec, ValueError and OverflowError."""


class ConnectSchema(msgspec.Struct, frozen=True):
    """A schema as Kafka Connect's JSON converter writes it, with what is read of it."""

    field: str = ""
    type: str = ""
    name: str | None = None
    parameters: Mapping[str, str] | None = None
    fields: "tuple[ConnectSchema, ...]" = ()
    items: "ConnectSchema | None" = None

    def member(self, name: str) -> "ConnectSchema":
        """The schema of a struct's field; an empty one if it has no such field."""
        return next((each for each in self.fields if each.field == name), ConnectSchema())


class _ScaledInteger(msgspec.Struct, frozen=True):
    scale: int
    value: str


_CONNECT: Final = "org.apache.kafka.connect.data."
_TIMES: Final = "io.debezium.time."
_DECIMAL: Final = _CONNECT + "Decimal"
_ANY_DECIMAL: Final = "io.debezium.data.VariableScaleDecimal"
_UNITS: Final[Mapping[str, tuple[type, EpochUnit]]] = {
    _CONNECT + "Timestamp": (datetime, "ms"),
    _TIMES + "Timestamp": (datetime, "ms"),
    _TIMES + "MicroTimestamp": (datetime, "us"),
    _TIMES + "NanoTimestamp": (datetime, "ns"),
    _CONNECT + "Time": (time, "ms"),
    _TIMES + "Time": (time, "ms"),
    _TIMES + "MicroTime": (time, "us"),
    _TIMES + "NanoTime": (time, "ns"),
    _TIMES + "MicroDuration": (timedelta, "us"),
    _TIMES + "NanoDuration": (timedelta, "ns"),
}
_DATES: Final = (_CONNECT + "Date", _TIMES + "Date")
_ISO: Final = (_TIMES + "IsoDate", _TIMES + "IsoTimestamp", _TIMES + "IsoTime")
_PER_SECOND: Final[Mapping[EpochUnit, int]] = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_EPOCH: Final = date(1970, 1, 1).toordinal()
_MOST_BYTES: Final = 64
_MOST_SCALE: Final = 1000
_INTEGER: Final = msgspec.json.Decoder(int)
_TEXT: Final = msgspec.json.Decoder(str)
_SCALED: Final = msgspec.json.Decoder(_ScaledInteger)
_ITEMS: Final = msgspec.json.Decoder(list[msgspec.Raw])


def rewrites(fields: tuple[Field, ...], schema: ConnectSchema) -> Mapping[str, Rewrite]:
    """For each of a row's fields, by key, whose values are written in another notation: the function to that of JSON."""
    return {field.key: rewrite for field in fields if (rewrite := _rewrite(field, schema.member(field.key))) is not None}


def rewrite_value(key: str, rewrite: Rewrite, value: bytes) -> msgspec.Raw:
    """A field's value in JSON's notation; a null stays. Raises Reject for a value that is not of its schema."""
    if value == b"null":
        return msgspec.Raw(value)
    try:
        return msgspec.Raw(rewrite(value))
    except Reject as reject:
        raise Reject(reject.reason, f"field {key}: {reject.detail}") from reject
    except (msgspec.MsgspecError, ValueError, OverflowError) as error:
        raise Reject("invalid_value", f"field {key}: not a value of its schema: {error}") from error


def has_form(field: Field) -> bool:
    """Whether annotations say how a field's times are written: as numbers, or by a pattern."""
    notation = field.notation
    return notation is not None and any(form is not None for form in (notation.epoch, notation.unit, notation.format))


def day(value: bytes) -> bytes:
    """The date of a number of days since 1970, or of a text with a `Z`."""
    if value[:1] == b'"':
        return without_zone(value)
    return b'"%s"' % date.fromordinal(_EPOCH + _INTEGER.decode(value)).isoformat().encode()


def without_zone(value: bytes) -> bytes:
    """The text without its `Z`; any other value stays as it is."""
    return value[:-2] + b'"' if value.endswith(b'Z"') else value


def instant(value: bytes, unit: EpochUnit) -> bytes:
    """The time in UTC of a number since 1970."""
    return msgspec.json.encode(epoch_time(_INTEGER.decode(value), unit))


def _rewrite(field: Field, schema: ConnectSchema) -> Rewrite | None:
    if field.items is not None and schema.items is not None:
        item = _rewrite(field.items, schema.items)
        return None if item is None else partial(_each, item)
    if schema.name == _DECIMAL and field.type is not bytes:
        scale = int((schema.parameters or {}).get("scale", "0"))
        return partial(_decimal, scale=scale, text=field.type is str)
    if schema.name == _ANY_DECIMAL and not field.fields:
        return partial(_any_decimal, text=field.type is str)
    if has_form(field):
        return None
    if schema.name in _DATES and field.type is date:
        return day
    if schema.name in _ISO and field.type is not str:
        return without_zone
    kind, unit = _UNITS.get(schema.name or "", (None, "s"))
    return partial(_READS[kind], unit=unit) if kind is not None and field.type is kind else None


def _decimal(value: bytes, *, scale: int, text: bool) -> bytes:
    if value[:1] != b'"':
        return value  # the converter's decimal.format is NUMERIC
    return _number(_TEXT.decode(value), scale, text=text)


def _any_decimal(value: bytes, *, text: bool) -> bytes:
    scaled = _SCALED.decode(value)
    return _number(scaled.value, scaled.scale, text=text)


def _number(encoded: str, scale: int, *, text: bool) -> bytes:
    integer = b64decode(encoded, validate=True)
    if len(integer) > _MOST_BYTES or abs(scale) > _MOST_SCALE:
        raise Reject("out_of_range", "a number with more digits than any decimal")
    unscaled = int.from_bytes(integer, "big", signed=True)
    digits = tuple(map(int, str(abs(unscaled))))
    number = f"{Decimal((int(unscaled < 0), digits, -scale)):f}"  # not a division, which rounds
    return msgspec.json.encode(number) if text else number.encode()


def _timestamp(value: bytes, *, unit: EpochUnit) -> bytes:
    return b'"%s"' % epoch_time(_INTEGER.decode(value), unit).replace(tzinfo=None).isoformat().encode()


def _clock(value: bytes, *, unit: EpochUnit) -> bytes:
    seconds, rest = divmod(_INTEGER.decode(value), _PER_SECOND[unit])
    hour, minute = divmod(seconds // 60, 60)
    return b'"%02d:%02d:%02d.%09d"' % (hour, minute, seconds % 60, rest * 10**9 // _PER_SECOND[unit])


def _duration(value: bytes, *, unit: EpochUnit) -> bytes:
    number = _INTEGER.decode(value)
    seconds, rest = divmod(abs(number), _PER_SECOND[unit])
    return b'"%sPT%d.%09dS"' % (b"-" if number < 0 else b"", seconds, rest * 10**9 // _PER_SECOND[unit])


_READS: Final[Mapping[Any, Callable[..., bytes]]] = {datetime: _timestamp, time: _clock, timedelta: _duration}


def _each(item: Rewrite, value: bytes) -> bytes:
    items = (bytes(each) for each in _ITEMS.decode(value))
    return msgspec.json.encode([msgspec.Raw(each if each == b"null" else item(each)) for each in items])
