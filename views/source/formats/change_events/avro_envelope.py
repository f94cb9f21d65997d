"""Change events in Avro, as Kafka Connect's Avro converters write them, in the notation of Connect's JSON converter.

The converters keep Connect's schema in the Avro schema, as `connect.name` and `connect.parameters`. So one reader reads both
notations: a value has the same meaning in Avro as in JSON with its schema. Where a converter leaves these names out
(`connect.meta.data=false`), the logical types of Avro are all that names a type.

Values are read by their physical types: bytes become base64, and a number that JSON lacks becomes its name.
"""

import json
import math
import struct
from base64 import b64encode
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec
import numpy as np

from tandem.views.errors import DefinitionError
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.formats.avro_format.readers import Read, items_reader, map_reader, physical, whole_reader
from tandem.views.source.formats.avro_format.records import parsed_schema
from tandem.views.source.formats.avro_format.skip import after, branch_of, number, resolved, takes_no_bytes
from tandem.views.source.formats.change_events.connect_schema import ConnectSchema

Members = Mapping[str, msgspec.Raw]
Columns = Mapping[str, Collection[str] | None]
"""By member of an envelope that is read, which of its own members are; None for all of them."""

_CONNECT: Final = "org.apache.kafka.connect.data."
_LOGICAL: Final = {
    "decimal": _CONNECT + "Decimal",
    "date": _CONNECT + "Date",
    "time-millis": _CONNECT + "Time",
    "timestamp-millis": _CONNECT + "Timestamp",
}
"""Connect's names of Avro's logical types, which its converters give to these types."""

_TYPES: Final = {"int": "int32", "long": "int64", "enum": "string", "fixed": "bytes"}
"""Connect's types of Avro's, where their names differ."""


@dataclass(frozen=True)
class AvroRecords:
    """The records of one schema: the function from a value to its members, and the schema in Connect's words."""

    read: Callable[[bytes], Members]
    schema: ConnectSchema


def avro_records(text: str, which: str, columns: Columns | None) -> AvroRecords:
    """The records of a schema, by what is read of them: all members unless `columns` are given.

    Raises DefinitionError for a schema that is not a record, or a union with one.
    """
    parsed, names = parsed_schema(json.loads(text))
    branches = [resolved(branch, names) for branch in (parsed if isinstance(parsed, list) else [parsed])]
    record = next((branch for branch in branches if branch["type"] == "record"), None)
    if record is None:
        raise DefinitionError(f"debezium: {which} is not a record, as a change and its key are")
    read = whole_reader(_Notation(names, which).reader(parsed, columns), parsed, names)

    def members(value: bytes) -> Members:
        try:
            whole = read(value)
        except RecursionError as error:
            raise Reject("format", "the value is nested too deeply") from error
        return {name: msgspec.Raw(msgspec.json.encode(member)) for name, member in (whole or {}).items()}

    return AvroRecords(members, _connect(record, names, frozenset()))


@dataclass(frozen=True)
class _Notation:
    """Makes the readers of one schema; `names` are its named types, `which` names it in errors."""

    names: Mapping[str, Any]
    which: str

    def reader(self, schema: Any, columns: Columns | Collection[str] | None) -> Read:
        """The reader of a value, of a record those of the columns; None for all of them, whose types may contain themselves."""
        if isinstance(schema, list):
            return partial(_branch, [self.reader(branch, columns) for branch in schema])
        avro_type = resolved(schema, self.names)
        kind = avro_type["type"]
        if kind == "record":
            return self._record(avro_type, columns)
        if kind == "array":
            if takes_no_bytes(avro_type["items"], self.names):
                raise DefinitionError(
                    f"debezium: {self.which} has items of zero bytes, of which a short value may hold any number"
                )
            return items_reader(self.reader(avro_type["items"], None))
        if kind == "map":
            return map_reader("of the change", self.reader(avro_type["values"], None))
        if kind in ("float", "double"):
            return _float if kind == "float" else partial(_number, physical(avro_type))
        return partial(_bytes, physical(avro_type)) if kind in ("bytes", "fixed") else physical(avro_type)

    def _record(self, avro_type: Mapping[str, Any], columns: Columns | Collection[str] | None) -> Read:
        inner = columns if isinstance(columns, Mapping) else {}
        parts: list[tuple[str, Any, Any]] = []
        for member in avro_type["fields"]:
            name, of = member["name"], member["type"]
            taken = columns is None or name in columns
            parts.append((name, of, self._later(of, inner.get(name)) if taken else None))

        def members_at(value: bytes, at: int) -> tuple[dict[str, Any], int]:
            members = {}
            for name, of, part in parts:
                if part is None:
                    at = after(of, self.names, value, at)
                else:
                    members[name], at = part(value, at)
            return members, at

        return members_at

    def _later(self, schema: Any, columns: Columns | Collection[str] | None) -> Read:
        """The reader of a member, created at its first value: a record may contain itself."""
        readers: list[Read] = []

        def value_at(value: bytes, at: int) -> tuple[Any, int]:
            if not readers:
                readers.append(self.reader(schema, columns))
            return readers[0](value, at)

        return value_at


def _connect(schema: Any, names: Mapping[str, Any], within: frozenset[str], field: str = "") -> ConnectSchema:
    """A schema in Connect's words; of a union the first branch that is not null. A type that contains itself ends there."""
    if isinstance(schema, list):
        schema = next((branch for branch in schema if resolved(branch, names)["type"] != "null"), "null")
    avro_type = resolved(schema, names)
    kind, name = avro_type["type"], avro_type.get("connect.name") or _LOGICAL.get(avro_type.get("logicalType", ""))
    parameters = avro_type.get("connect.parameters") or {"scale": str(avro_type.get("scale", 0))}
    if kind == "record" and avro_type["name"] not in within:
        inside = within | {avro_type["name"]}
        fields = tuple(_connect(member["type"], names, inside, member["name"]) for member in avro_type["fields"])
        return ConnectSchema(field, "struct", name, fields=fields)
    if kind == "array":
        return ConnectSchema(field, kind, name, items=_connect(avro_type["items"], names, within))
    return ConnectSchema(field, _TYPES.get(kind, kind), name, parameters)


def _branch(readers: list[Read], value: bytes, at: int) -> tuple[Any, int]:
    index, at = number(value, at)
    read: Read = branch_of(readers, index)
    return read(value, at)


def _bytes(read: Read, value: bytes, at: int) -> tuple[str, int]:
    content, at = read(value, at)
    return b64encode(content).decode(), at


def _number(read: Read, value: bytes, at: int) -> tuple[float | str, int]:
    content, at = read(value, at)
    return (content if math.isfinite(content) else str(content)), at


def _float(value: bytes, at: int) -> tuple[float | str, int]:
    """A number of four bytes, by its shortest decimal notation, as Java writes it."""
    (content,) = struct.unpack_from("<f", value, at)
    return (float(str(np.float32(content))) if math.isfinite(content) else str(content)), at + 4
