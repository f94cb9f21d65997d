"""What Avro's decoder needs fastavro for: checks of schemas, and values as records."""

import json
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from functools import partial
from io import BytesIO
from typing import Any, Final

from fastavro import parse_schema, schemaless_reader
from fastavro.read import LOGICAL_READERS

from tandem.views.errors import DefinitionError, listed
from tandem.views.source.event import Event, Field
from tandem.views.source.fields.named_fields import Kind, named_fields, takes
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.formats.avro_numbers import numbers_fit
from tandem.views.source.formats.avro_schema import resolved

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
# The kinds of values that fastavro returns for logical types; it ignores other annotations.
_ANNOTATED: Final[dict[str, Kind | None]] = {
    "int-date": "date",
    "long-timestamp-millis": "timestamp",
    "long-timestamp-micros": "timestamp",
    "long-local-timestamp-millis": None,
    "long-local-timestamp-micros": None,
    "int-time-millis": None,
    "long-time-micros": None,
    "bytes-exact-decimal": "decimal",
    "fixed-exact-decimal": "decimal",
    "string-uuid": "uuid",
}


_DECIMAL_BITS: Final = 4096
_DECIMALS: Final = Context(prec=1300)
"""Of more digits than those bits have: no decimal is rounded."""


def canonical(schema: str | Mapping[str, Any], which: str) -> str:
    """The schema as canonical JSON: equal for schemas that differ only in order, white space and documentation.

    Raises DefinitionError for a schema that no source may have.
    """
    try:
        loaded = json.loads(schema) if isinstance(schema, str) else schema
        names: dict[str, Any] = {}
        parsed = parse_schema(_undocumented(loaded), names)
    except Exception as error:
        raise DefinitionError(f"avro: {which} is not an Avro schema: {type(error).__name__}: {error}") from error
    if _record(parsed, names) is None:
        raise DefinitionError(f"avro: {which} is not a record, whose fields have names, and no array of a record")
    _check_bounded(parsed, names, which, ())
    return json.dumps(_undocumented(loaded), sort_keys=True, separators=(",", ":"))


def _record(parsed: Any, names: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The record schema: the schema itself, or that of its items; None if there is none."""
    found = parsed["items"] if isinstance(parsed, dict) and parsed["type"] == "array" else parsed
    record = None if isinstance(found, list) else resolved(found, names)
    return record if record is not None and record["type"] == "record" else None


def _undocumented(schema: Any) -> Any:
    if isinstance(schema, Mapping):
        return {key: _undocumented(value) for key, value in schema.items() if key != "doc"}
    return [_undocumented(one) for one in schema] if isinstance(schema, list | tuple) else schema


def _check_bounded(schema: Any, names: Mapping[str, Any], place: str, outer: tuple[str, ...]) -> None:
    """Refuse schemas by which a short value can be deep or large without bound: recursive types, and items of zero bytes."""
    if isinstance(schema, list):
        for branch in schema:
            _check_bounded(branch, names, place, outer)
        return
    schema = resolved(schema, names)
    if schema["type"] == "record":
        if schema["name"] in outer:
            raise DefinitionError(f"avro: {place}: {schema['name']} contains itself; an event has a fixed depth")
        for field in schema["fields"]:
            _check_bounded(field["type"], names, f"{place}, field {field['name']}", (*outer, schema["name"]))
    elif schema["type"] in ("array", "map"):
        items = schema["items" if schema["type"] == "array" else "values"]
        _check_bounded(items, names, place, outer)
        if schema["type"] == "array" and _takes_no_bytes(items, names):
            raise DefinitionError(f"avro: {place}: items of zero bytes, of which a short value may hold any number")


def _takes_no_bytes(schema: Any, names: Mapping[str, Any]) -> bool:
    if isinstance(schema, list):
        return False
    schema = resolved(schema, names)
    if schema["type"] == "record":
        return all(_takes_no_bytes(field["type"], names) for field in schema["fields"])
    return bool(schema["type"] == "null" or (schema["type"] == "fixed" and schema["size"] == 0))


def reader(event: type[Event], schema: str, which: str, *, listed: bool) -> Callable[[bytes], Any]:
    """A function from one value to a record's values by name, or to a list of those; `which` names the schema in errors.

    Raises DefinitionError if the schema does not give the fields of the event type, or is an array unless `listed`.
    """
    for written in ("bytes", "fixed"):
        LOGICAL_READERS.setdefault(f"{written}-exact-decimal", _exact_decimal)
    names: dict[str, Any] = {}
    parsed: Any = parse_schema(_with_exact_decimals(json.loads(schema)), names)
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
    _check_record(named_fields(event, "an Avro record"), record, names, event.__name__, which)
    return partial(_decoded, parsed, names)


def _with_exact_decimals(schema: Any) -> Any:
    """The schema with a logical type of ours for decimals: fastavro rounds a value to the schema's precision, half to even.

    Java's reader returns all digits; here they count, too. A decimal without a valid precision and scale is its bytes, as the
    specification says of invalid logical types.
    """
    if isinstance(schema, list):
        return [_with_exact_decimals(branch) for branch in schema]
    if not isinstance(schema, Mapping):
        return schema
    inner = {key: _with_exact_decimals(value) for key, value in schema.items()}
    if schema.get("logicalType") != "decimal":
        return inner
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision and precision > 0:
        return {**inner, "logicalType": "exact-decimal"}
    return {key: value for key, value in inner.items() if key != "logicalType"}


def _exact_decimal(data: bytes, schema: Any, _: Any = None) -> Decimal:
    """The decimal of an integer in two's complement, with all its digits; raises OverflowError if it has thousands."""
    unscaled = int.from_bytes(data, "big", signed=True)
    if unscaled.bit_length() > _DECIMAL_BITS:
        raise OverflowError(f"a decimal of {unscaled.bit_length()} bits")
    return Decimal(unscaled).scaleb(-schema.get("scale", 0), _DECIMALS)


def _decoded(schema: Any, names: Mapping[str, Any], value: bytes) -> Any:
    stream = BytesIO(value)
    try:
        found = schemaless_reader(stream, schema, None)
    except MemoryError:
        raise
    except UnicodeDecodeError as error:
        raise Reject("utf8", f"a string is not UTF-8: {error.reason}") from error
    except OverflowError as error:
        raise Reject("out_of_range", str(error)) from error
    except Exception as error:
        raise Reject("format", f"not a value of its schema: {type(error).__name__}: {error}") from error
    if stream.tell() < len(value):
        raise Reject("format", f"{len(value) - stream.tell()} bytes after the value")
    if not numbers_fit(schema, names, value):
        raise Reject("out_of_range", "a number does not fit 64 bits")
    return found


def _check_record(fields: tuple[Field, ...], record: Any, names: Mapping[str, Any], place: str, which: str) -> None:
    there = {field["name"]: field["type"] for field in record["fields"]}
    for field in fields:
        if field.key in there:
            _check_field(field, there[field.key], names, f"{place}.{field.name}", which)
        elif field.required:
            raise DefinitionError(f"{place}.{field.name}: {which} has no field {field.key!r}; fields: {listed(field.key, there)}")


def _check_field(field: Field, schema: Any, names: Mapping[str, Any], place: str, which: str) -> None:
    for branch in schema if isinstance(schema, list) else [schema]:
        one = resolved(branch, names)
        if one["type"] == "null" and isinstance(schema, list):
            continue  # a null in a required field rejects its record
        if field.items is not None and one["type"] == "array":
            _check_field(field.items, one["items"], names, f"{place}[]", which)
        elif field.fields and one["type"] == "record":
            _check_record(field.fields, one, names, place, which)
        elif field.items is not None or field.fields or not takes(field, _kind(one)):
            written = one.get("logicalType", one["type"]).removeprefix("exact-")
            raise DefinitionError(f"{place}: {which} has this field as {written}, which is not what {field.arrow} is read from")


def _kind(schema: Mapping[str, Any]) -> Kind | None:
    annotated = f"{schema['type']}-{schema.get('logicalType')}"
    return _ANNOTATED[annotated] if annotated in _ANNOTATED else _KINDS.get(schema["type"])
