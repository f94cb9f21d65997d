"""What of an Avro schema an event type reads: all other fields become the physical types that are read fastest.

A field that no event needs then decides nothing: neither its logical type nor its default, neither its symbols nor its encoding.
Where values of a field could be nested without bound, or have items of zero bytes, the field is a hole: its bytes are cut out of
the value before fastavro reads it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from itertools import count
from typing import Any, Final

from tandem.views.errors import DefinitionError, listed
from tandem.views.source.event import Field
from tandem.views.source.fields.named_fields import Kind, advice, takes
from tandem.views.source.formats.avro_skip import after, block, branch_of, number, resolved, takes_no_bytes

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
EXACT_DECIMAL: Final = "exact-decimal"
"""A logical type of ours: fastavro rounds a value to the schema's precision, half to even."""
TIME_OF_MILLIS: Final = "time-of-millis"
TIME_OF_MICROS: Final = "time-of-micros"
EXACT_DURATION: Final = "exact-duration"
"""Logical types of ours: fastavro reads a time of -1 ms or 24:00 as a broken value, and a duration as its bytes."""
TIME_OF_NANOS: Final = "time-since-1970-of-nanos"
LOCAL_TIME_OF_NANOS: Final = "local-time-of-nanos"
UUID_OF_BYTES: Final = "uuid-of-bytes"
"""Further ones, which fastavro 1.13 does not read."""
_OURS: Final = {
    "int-time-millis": TIME_OF_MILLIS,
    "long-time-micros": TIME_OF_MICROS,
    "long-timestamp-nanos": TIME_OF_NANOS,
    "long-local-timestamp-nanos": LOCAL_TIME_OF_NANOS,
    "fixed-duration": EXACT_DURATION,
    "fixed-uuid": UUID_OF_BYTES,
}
_SIZES: Final = {"duration": 12, "uuid": 16}
# The kinds of values that fastavro returns for logical types. Any other annotation is ignored, as the specification says.
_ANNOTATED: Final[dict[str, Kind | None]] = {
    "int-date": "date",
    "long-timestamp-millis": "timestamp",
    "long-timestamp-micros": "timestamp",
    "long-local-timestamp-millis": "local_timestamp",
    "long-local-timestamp-micros": "local_timestamp",
    f"int-{TIME_OF_MILLIS}": "time_of_day",
    f"long-{TIME_OF_MICROS}": "time_of_day",
    f"fixed-{EXACT_DURATION}": "duration",
    "bytes-exact-decimal": "decimal",
    "fixed-exact-decimal": "decimal",
    "string-uuid": "uuid",
    f"fixed-{UUID_OF_BYTES}": "uuid",
    f"long-{TIME_OF_NANOS}": "timestamp",
    f"long-{LOCAL_TIME_OF_NANOS}": "local_timestamp",
}
_AS_WRITTEN: Final[frozenset[Kind | None]] = frozenset({"duration", "time_of_day", "uuid"})
"""Kinds of values that a field of the physical type reads, too: an int, a str or bytes."""
_NANOS: Final = ("timestamp-nanos", "local-timestamp-nanos")
_PHYSICAL: Final = {"string": "bytes", "enum": "int"}
"""Types of the same bytes, of which every value is read, and faster."""


class _Unbounded(Exception):
    """A value of the type may be nested, or have items, without bound."""


@dataclass
class Projector:
    """Builds the projection of one schema; `names` are its named types, `which` names it in errors.

    `texts` is whether a field so far has values that values_by_name reads: a time in a string, a map.
    """

    names: Mapping[str, Any]
    which: str
    texts: bool = False
    numbers: Iterator[int] = field(default_factory=count)

    def record(self, fields: tuple[Field, ...], schema: Any, place: str) -> dict[str, Any]:
        """The record with the fields that an event type reads; raises DefinitionError if it does not give them."""
        there = {member["name"]: member["type"] for member in schema["fields"]}
        wanted = {wanted_field.key: wanted_field for wanted_field in fields}
        for wanted_field in fields:
            if wanted_field.required and wanted_field.key not in there:
                have = listed(wanted_field.key, there)
                raise DefinitionError(
                    f"{place}.{wanted_field.name}: {self.which} has no field {wanted_field.key!r}; fields: {have}"
                )
        projected = []
        for name, type_ in there.items():
            if name in wanted:
                projected.append({"name": name, "type": self._field(wanted[name], type_, f"{place}.{wanted[name].name}")})
                continue
            try:
                projected.append({"name": name, "type": self._physical(type_, ())})
            except _Unbounded:
                projected.append({"name": name, "hole": type_})
        return {"type": "record", "name": self._name(), "fields": projected}

    def _field(self, field: Field, schema: Any, place: str) -> Any:
        if isinstance(schema, list):
            # A null in a required field rejects its record.
            return [
                "null" if resolved(branch, self.names)["type"] == "null" else self._field(field, branch, place)
                for branch in schema
            ]
        avro_type = resolved(schema, self.names)
        if field.items is not None and field.type is list and avro_type["type"] == "array":
            if takes_no_bytes(avro_type["items"], self.names):
                raise DefinitionError(
                    f"{place}: {self.which} has items of zero bytes, of which a short value may hold any number"
                )
            return {"type": "array", "items": self._field(field.items, avro_type["items"], f"{place}[]")}
        if field.items is not None and field.type is dict and avro_type["type"] == "map":
            self.texts = True
            pair = [
                {"name": "key", "type": "string"},
                {"name": "value", "type": self._field(field.items, avro_type["values"], f"{place}[]")},
            ]
            # Pairs have the same bytes, and show a key that occurs twice.
            return {"type": "array", "items": {"type": "record", "name": self._name(), "fields": pair}}
        if field.fields and avro_type["type"] == "record":
            return self.record(field.fields, avro_type, place)
        read, kind = _leaf(avro_type)
        if self._takes_physical_type(field, kind, avro_type):
            read, kind = _leaf({**avro_type, "logicalType": None})
        if field.items is not None or field.fields or not takes(field, kind):
            written = avro_type.get("logicalType", avro_type["type"])
            valid = advice(_leaf(avro_type)[1])
            raise DefinitionError(
                f"{place}: {self.which} has this field as {written}, which is not what {field.arrow} is read from{valid}"
            )
        self.texts = self.texts or field.notation is not None or (kind == "string" and field.type in (datetime, Decimal))
        if "name" in read:
            return {**read, "name": self._name()}
        return read if "logicalType" in read else avro_type["type"]  # fastavro reads a type by its name faster

    @staticmethod
    def _takes_physical_type(field: Field, kind: Kind | None, avro_type: Mapping[str, Any]) -> bool:
        """Whether a field reads the physical type: an int or Epoch of nanoseconds, a str of a uuid, bytes of a duration."""
        nanos = avro_type.get("logicalType") in _NANOS
        if nanos and field.notation is not None and field.notation.epoch is not None:
            return True
        return (nanos or kind in _AS_WRITTEN) and not takes(field, kind)

    def _physical(self, schema: Any, outer: tuple[str, ...]) -> Any:
        if isinstance(schema, list):
            return [self._physical(branch, outer) for branch in schema]
        avro_type = resolved(schema, self.names)
        kind = avro_type["type"]
        if kind == "record":
            if avro_type["name"] in outer:
                raise _Unbounded
            inner = (*outer, avro_type["name"])
            fields = [{"name": part["name"], "type": self._physical(part["type"], inner)} for part in avro_type["fields"]]
            return {"type": "record", "name": self._name(), "fields": fields}
        if kind == "array":
            if takes_no_bytes(avro_type["items"], self.names):
                raise _Unbounded
            return {"type": "array", "items": self._physical(avro_type["items"], outer)}
        if kind == "map":
            # A pair has the same bytes, and its key need not be UTF-8.
            pair = [{"name": "key", "type": "bytes"}, {"name": "value", "type": self._physical(avro_type["values"], outer)}]
            return {"type": "array", "items": {"type": "record", "name": self._name(), "fields": pair}}
        if kind == "fixed":
            return {"type": "fixed", "name": self._name(), "size": avro_type["size"]}
        return _PHYSICAL.get(kind, kind)

    def _name(self) -> str:
        return f"T{next(self.numbers)}"


def _leaf(schema: Mapping[str, Any]) -> tuple[dict[str, Any], Kind | None]:
    """The schema of a single value as fastavro reads it, and the kind of its values."""
    kept = {
        name: schema[name] for name in ("type", "name", "size", "symbols", "logicalType", "scale", "precision") if name in schema
    }
    logical = kept.pop("logicalType", None)
    if logical == "decimal":
        logical = EXACT_DECIMAL if valid_decimal(schema) else None
    if schema["type"] != "fixed" or schema["size"] == _SIZES.get(logical or ""):
        logical = _OURS.get(f"{schema['type']}-{logical}", logical)
    annotated = f"{schema['type']}-{logical}"
    if annotated in _ANNOTATED:
        return {**kept, "logicalType": logical}, _ANNOTATED[annotated]
    return kept, _KINDS.get(schema["type"])


def valid_decimal(schema: Mapping[str, Any]) -> bool:
    """Whether a decimal's annotation is valid: a precision, a scale within it, and in `fixed` the bytes for all its values."""
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not (isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision and precision > 0):
        return False
    return bool(schema["type"] != "fixed" or 10**precision <= 2 ** (8 * schema["size"] - 1))


def has_holes(schema: Any) -> bool:
    """Whether a projected schema has a field that is cut out of values."""
    if isinstance(schema, list):
        return any(map(has_holes, schema))
    if not isinstance(schema, dict):
        return False
    inner = [member.get("type") for member in schema.get("fields", ())]
    return any("hole" in member for member in schema.get("fields", ())) or any(map(has_holes, (*inner, schema.get("items"))))


def closed(schema: Any) -> Any:
    """A projected schema without its holes."""
    if isinstance(schema, list):
        return [closed(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    if "fields" in schema:
        return {
            **schema,
            "fields": [{**member, "type": closed(member["type"])} for member in schema["fields"] if "hole" not in member],
        }
    return {**schema, "items": closed(schema["items"])} if "items" in schema else schema


def without_holes(schema: Any, names: Mapping[str, Any], value: bytes) -> bytes:
    """A value of the projected schema without the bytes of its holes; raises Reject for a value that ends too early."""
    kept: list[bytes] = []
    start = 0
    for first, last in _spans(schema, names, value, [0]):
        kept.append(value[start:first])
        start = last
    return b"".join((*kept, value[start:]))


def _spans(schema: Any, names: Mapping[str, Any], value: bytes, at: list[int]) -> Iterator[tuple[int, int]]:
    """The spans of holes in the item that begins at `at[0]`, which moves to the item's end."""
    if isinstance(schema, list):
        branch, at[0] = number(value, at[0])
        yield from _spans(branch_of(schema, branch), names, value, at)
    elif not has_holes(schema):
        at[0] = after(schema, names, value, at[0])
    elif schema["type"] == "record":
        for member in schema["fields"]:
            if "hole" in member:
                start, at[0] = at[0], after(member["hole"], names, value, at[0])
                yield start, at[0]
            else:
                yield from _spans(member["type"], names, value, at)
    else:
        items, at[0] = block(value, at[0])
        while items:
            for _ in range(items):
                yield from _spans(schema["items"], names, value, at)
            items, at[0] = block(value, at[0])
