"""What Avro's decoder needs fastavro for: checks of schemas, and values as records."""

import json
from collections.abc import Callable, Mapping
from datetime import datetime, time, timedelta
from decimal import Context, Decimal
from functools import partial
from io import BytesIO
from typing import Any, Final
from uuid import UUID

from fastavro import parse_schema, schemaless_reader
from fastavro.read import LOGICAL_READERS

from tandem.views.errors import DefinitionError
from tandem.views.instant import time_of
from tandem.views.source.event import Event, Field
from tandem.views.source.fields.clock_values import DAY, duration_of_microseconds, time_of_number
from tandem.views.source.fields.named_fields import named_fields
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.formats.avro_projection import (
    EXACT_DECIMAL,
    EXACT_DURATION,
    LOCAL_TIME_OF_NANOS,
    TIME_OF_MICROS,
    TIME_OF_MILLIS,
    TIME_OF_NANOS,
    UUID_OF_BYTES,
    Projector,
    closed,
    has_holes,
    valid_decimal,
    without_holes,
)
from tandem.views.source.formats.avro_skip import BrokenItem, check_numbers, each_item, resolved, takes_no_bytes

_DECIMAL_BITS: Final = 4096
_DECIMALS: Final = Context(prec=1300)
"""Of more digits than those bits have: no decimal is rounded."""


def canonical(schema: str | Mapping[str, Any], which: str) -> str:
    """The schema as canonical JSON: equal for schemas that differ only in order, white space and documentation.

    Raises DefinitionError for a schema that no source may have.
    """
    try:
        loaded = json.loads(schema) if isinstance(schema, str) else schema
        parsed, names = parsed_schema(loaded)
    except Exception as error:
        raise DefinitionError(f"avro: {which} is not an Avro schema: {type(error).__name__}: {error}") from error
    if _record(parsed, names) is None:
        raise DefinitionError(f"avro: {which} is not a record, whose fields have names, and no array of a record")
    for name, named_type in names.items():
        if _holds_itself(named_type, names, ()):
            raise DefinitionError(f"avro: {which}: every {name} contains itself, so no value ends")
    return json.dumps(_without(loaded, ("doc",)), sort_keys=True, separators=(",", ":"))


def parsed_schema(loaded: Any) -> tuple[Any, dict[str, Any]]:
    """The schema and its named types. Defaults are for readers of other schemas, and decide nothing here."""
    names: dict[str, Any] = {}
    return parse_schema(_without(_valid(loaded), ("doc", "default")), names), names


def _record(parsed: Any, names: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The record schema: the schema itself, or that of its items; None if there is none."""
    found = parsed["items"] if isinstance(parsed, dict) and parsed["type"] == "array" else parsed
    record = None if isinstance(found, list) else resolved(found, names)
    return record if record is not None and record["type"] == "record" else None


def _without(schema: Any, keys: tuple[str, ...]) -> Any:
    if isinstance(schema, Mapping):
        return {key: _without(value, keys) for key, value in schema.items() if key not in keys}
    return [_without(one, keys) for one in schema] if isinstance(schema, list | tuple) else schema


def _valid(schema: Any) -> Any:
    """The schema without annotations of decimals that fastavro refuses; the specification ignores an invalid logical type."""
    if isinstance(schema, list | tuple):
        return [_valid(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    inner = {key: _valid(value) for key, value in schema.items()}
    return inner if schema.get("logicalType") != "decimal" or valid_decimal(schema) else _without(inner, ("logicalType",))


def _holds_itself(schema: Any, names: Mapping[str, Any], outer: tuple[str, ...]) -> bool:
    one = {} if isinstance(schema, list) else resolved(schema, names)
    if one.get("type") != "record":
        return False
    return one["name"] in outer or any(_holds_itself(part["type"], names, (*outer, one["name"])) for part in one["fields"])


def reader(
    event: type[Event], schema: str, which: str, *, listed: bool, fields: tuple[Field, ...] = ()
) -> tuple[Callable[[bytes], Any], bool]:
    """A function from one value to a record's values by name, or to a list of those; and whether times may be texts.

    `which` names the schema in errors; `fields` are those to read, if they are not the event type's. Raises DefinitionError if
    the schema does not give the fields, or is an array unless `listed`.
    """
    for written in ("bytes", "fixed"):
        LOGICAL_READERS.setdefault(f"{written}-{EXACT_DECIMAL}", _exact_decimal)
    LOGICAL_READERS.setdefault(f"int-{TIME_OF_MILLIS}", _time_of_millis)
    LOGICAL_READERS.setdefault(f"long-{TIME_OF_MICROS}", _time_of_micros)
    LOGICAL_READERS.setdefault(f"fixed-{EXACT_DURATION}", _exact_duration)
    LOGICAL_READERS.setdefault(f"long-{TIME_OF_NANOS}", _time_of_nanos)
    LOGICAL_READERS.setdefault(f"long-{LOCAL_TIME_OF_NANOS}", lambda value, *_: _time_of_nanos(value).replace(tzinfo=None))
    LOGICAL_READERS.setdefault(f"fixed-{UUID_OF_BYTES}", lambda value, *_: UUID(bytes=value))
    parsed, names = parsed_schema(json.loads(schema))
    if listed and parsed["type"] == "record":
        raise DefinitionError(
            f"avro: {which} is a record, which is one event; a source with max_events_per_record=... takes an array of records"
        )
    if not listed and parsed["type"] == "array":
        raise DefinitionError(
            f"avro: {which} is an array, which is several events; say how many a value holds at most: max_events_per_record=..."
        )
    record = _record(parsed, names)
    assert record is not None  # `canonical` has checked the schema
    if listed and takes_no_bytes(record, names):
        raise DefinitionError(f"avro: {which} has items of zero bytes, of which a short value may hold any number")
    projector = Projector(names, which)
    projected: Any = projector.record(fields or named_fields(event, "an Avro record"), record, event.__name__)
    read = _value_reader(projected, names)
    if not listed:
        return read, projector.texts
    read_all = _value_reader({"type": "array", "items": projected}, names)

    def items_of(value: bytes) -> Any:
        try:
            return read_all(value)
        except Reject as reject:
            items = each_item(value, record, names, read)
            if not any(isinstance(item, BrokenItem) for item in items):
                raise reject from None
            return items

    return items_of, projector.texts


def _value_reader(projected: Any, names: Mapping[str, Any]) -> Callable[[bytes], Any]:
    """The reader of a projected schema, without its holes."""
    read = partial(_decoded, parse_schema(closed(projected)))
    return (lambda value: read(without_holes(projected, names, value))) if has_holes(projected) else read


def _exact_decimal(data: bytes, schema: Any, _: Any = None) -> Decimal:
    """The decimal of an integer in two's complement, with all its digits; raises OverflowError if it has thousands."""
    unscaled = int.from_bytes(data, "big", signed=True)
    if unscaled.bit_length() > _DECIMAL_BITS:
        raise OverflowError(f"a decimal of {unscaled.bit_length()} bits")
    return Decimal(unscaled).scaleb(-schema.get("scale", 0), _DECIMALS)


def _time_of_millis(milliseconds: int, *_: Any) -> time:
    return time_of_number(milliseconds, "ms")


def _time_of_micros(microseconds: int, *_: Any) -> time:
    return time_of_number(microseconds, "us")


def _time_of_nanos(nanoseconds: int, *_: Any) -> datetime:
    return time_of(nanoseconds // 1000)


def _exact_duration(data: bytes, *_: Any) -> timedelta:
    """The duration of months, days and milliseconds; a day has 24 hours. Raises Reject for months."""
    months, days, milliseconds = (int.from_bytes(data[start : start + 4], "little") for start in (0, 4, 8))
    if months:
        raise Reject("invalid_value", f"a duration of {months} months has no exact length")
    return duration_of_microseconds(days * DAY + milliseconds * 1000)


def _decoded(schema: Any, value: bytes) -> Any:
    stream = BytesIO(value)
    try:
        found = schemaless_reader(stream, schema, None)
    except (MemoryError, Reject):
        raise
    except UnicodeDecodeError as error:
        raise Reject("utf8", f"a string is not UTF-8: {error.reason}") from error
    except OverflowError as error:
        raise Reject("out_of_range", str(error)) from error
    except Exception as error:
        raise Reject("format", f"not a value of its schema: {type(error).__name__}: {error}") from error
    if stream.tell() < len(value):
        raise Reject("format", f"{len(value) - stream.tell()} bytes after the value")
    check_numbers(schema, {}, value)
    return found
