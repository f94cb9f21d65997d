"""Reads of an Avro value what an event type takes, and skips all else by its physical types.

A field that no event needs then decides nothing: neither its logical type nor its default, neither its symbols nor its encoding.
A reader is a function from bytes and a place in them to a value and the place behind it.

Of a union, the branches that the field takes are read; a value of another branch rejects its record.
"""

import struct
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import partial
from itertools import groupby
from typing import Any, Final

from tandem.views.errors import DefinitionError, listed
from tandem.views.source.event import Field
from tandem.views.source.fields.named_fields import Kind, advice, takes
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.fields.times import value_reader
from tandem.views.source.formats.avro_format.logical_types import Convert, leaf
from tandem.views.source.formats.avro_format.skip import ENDS_EARLY, after, block, branch_of, number, resolved, takes_no_bytes

Read = Callable[[bytes, int], tuple[Any, int]]
Skip = Callable[[bytes, int], int]

_DETAIL_CHARACTERS: Final = 40
_FLOAT: Final = struct.Struct("<f").unpack_from
_DOUBLE: Final = struct.Struct("<d").unpack_from
_SIZES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_TEXTS: Final = ("string", "bytes")
_NUMBERS: Final = ("int", "long", "enum")
_AS_WRITTEN: Final[frozenset[Kind | None]] = frozenset({"duration", "time_of_day", "uuid"})
"""Kinds of values that a field of the physical type reads, too: an int, a str or bytes."""
_NANOS: Final = ("timestamp-nanos", "local-timestamp-nanos")


@dataclass(frozen=True)
class AvroReaders:
    """Makes the readers of one schema; `names` are its named types, `which` names it in errors."""

    names: Mapping[str, Any]
    which: str

    def events(self, fields: tuple[Field, ...], schema: Any, place: str) -> Read:
        """The reader of a record, or of a union with records. Raises DefinitionError if no record gives the fields."""
        if not isinstance(schema, list):
            return self.record(fields, resolved(schema, self.names), place)

        def branch_reader(branch: Any) -> Read:
            if resolved(branch, self.names)["type"] != "record":
                raise DefinitionError(f"{place}: {self.which} has a branch that is not a record, whose fields have names")
            return self.record(fields, resolved(branch, self.names), place)

        def refuse(branch: Any) -> Read:
            avro_type = resolved(branch, self.names)
            return _refusal(f"the value is a {avro_type.get('name', avro_type['type'])}, which does not give {place}")

        return _union(schema, branch_reader, refuse)

    def record(self, fields: tuple[Field, ...], schema: Mapping[str, Any], place: str) -> Read:
        """The reader of a record's values by name. Raises DefinitionError if the schema does not give the fields."""
        there = {member["name"]: member["type"] for member in schema["fields"]}
        wanted = {field.key: field for field in fields}
        for field in fields:
            if field.required and field.key not in there:
                raise DefinitionError(
                    f"{place}.{field.name}: {self.which} has no field {field.key!r}; fields: {listed(field.key, there)}"
                )
        parts: list[tuple[str | None, Any]] = [
            (name, self.field(wanted[name], type_, f"{place}.{wanted[name].name}"))
            if name in wanted
            else (None, self._skip(type_))
            for name, type_ in there.items()
        ]
        parts = _join_texts(parts)

        def named_values(value: bytes, at: int) -> tuple[dict[str, Any], int]:
            values = {}
            for name, part in parts:
                if name is None:
                    at = part(value, at)
                else:
                    values[name], at = part(value, at)
            return values, at

        return named_values

    def field(self, field: Field, schema: Any, place: str) -> Read:
        """The reader of a field's values. Raises DefinitionError if the field takes no branch of the schema but null."""
        if isinstance(schema, list):
            return _union(
                schema, lambda branch: self._branch(field, branch, place), lambda branch: self._refuse(field, branch, place)
            )
        avro_type = resolved(schema, self.names)
        if field.items is not None and field.type is list and avro_type["type"] == "array":
            if takes_no_bytes(avro_type["items"], self.names):
                raise DefinitionError(
                    f"{place}: {self.which} has items of zero bytes, of which a short value may hold any number"
                )
            return items_reader(self.field(field.items, avro_type["items"], f"{place}[]"))
        if field.items is not None and field.type is dict and avro_type["type"] == "map":
            return map_reader(field.key, self.field(field.items, avro_type["values"], f"{place}[]"))
        if field.fields and avro_type["type"] == "record":
            return self.record(field.fields, avro_type, place)
        kind, convert = leaf(avro_type)
        if _takes_physical_type(field, kind, avro_type):
            kind, convert = leaf({**avro_type, "logicalType": None})
        if field.items is not None or field.fields or not takes(field, kind):
            raise DefinitionError(
                f"{place}: {self.which} has this field as {_type_name(avro_type)}, which is not what {field.arrow} is read "
                f"from{advice(leaf(avro_type)[0])}"
            )
        read = physical(avro_type)
        read = read if convert is None else _with_conversion(read, convert)
        # Most times and decimals are what the field holds already.
        ready = field.notation is None and (field.type, kind) in ((datetime, "timestamp"), (Decimal, "decimal"))
        convert = None if ready else value_reader(field)
        return read if convert is None else _with_conversion(read, convert)

    def _branch(self, field: Field, branch: Any, place: str) -> Read:
        # A null in a required field rejects its record.
        return _null if resolved(branch, self.names)["type"] == "null" else self.field(field, branch, place)

    def _refuse(self, field: Field, branch: Any, place: str) -> Read:
        written = _type_name(resolved(branch, self.names))
        return _refusal(f"field {place.partition('.')[2]} is a value of {written}, which is not what {field.arrow} is read from")

    def _skip(self, schema: Any) -> Skip:
        """The function from the place of an item to the place behind it."""
        if isinstance(schema, list):
            return partial(_after_branch, list(map(self._skip, schema)))
        avro_type = resolved(schema, self.names)
        kind = avro_type["type"]
        if kind in _TEXTS:
            return _after_text
        if kind in _NUMBERS:
            return _after_number
        if kind == "fixed" or kind in _SIZES:
            size = _SIZES.get(kind) or avro_type.get("size", 0)
            return lambda _, at: at + size
        return lambda value, at: after(schema, self.names, value, at)


def whole_reader(read: Read, schema: Any, names: Mapping[str, Any]) -> Callable[[bytes], Any]:
    """The function from a value to what `read` reads; it raises Reject, also for bytes that are not of the schema."""

    def of_value(value: bytes) -> Any:
        try:
            whole, end = read(value, 0)
        except OverflowError as error:
            raise Reject("out_of_range", str(error)) from error
        except (IndexError, ValueError, struct.error) as error:
            after(schema, names, value, 0)  # raises Reject with the place at which the bytes leave the schema
            if isinstance(error, UnicodeDecodeError):
                raise Reject("utf8", f"a string is not UTF-8: {error.reason}") from error
            raise Reject("format", f"not a value of its schema: {type(error).__name__}: {error}") from error
        if end != len(value):
            raise Reject("format", ENDS_EARLY if end > len(value) else f"{len(value) - end} bytes after the value")
        return whole

    return of_value


def items_reader(read: Read) -> Read:
    """The reader of an array whose items `read` reads, each of a byte at least."""

    def of_blocks(value: bytes, at: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        size = len(value)
        while True:
            count, at = block(value, at)
            if not count:
                return items, at
            for _ in range(count):
                item, at = read(value, at)
                if at > size:
                    raise Reject("format", ENDS_EARLY)
                items.append(item)

    return of_blocks


def map_reader(name: str, read: Read) -> Read:
    """The reader of a map whose values `read` reads; `name` names it in errors."""
    return partial(_map, name, items_reader(partial(_entry, read)))


def _union(schema: list[Any], reader: Callable[[Any], Read], refuse: Callable[[Any], Read]) -> Read:
    """The reader of a union by the `reader` of each branch. Raises the first DefinitionError if it takes none but null."""
    branches: list[Read] = []
    errors: list[DefinitionError] = []
    for branch in schema:
        try:
            branches.append(reader(branch))
        except DefinitionError as error:
            errors.append(error)
            branches.append(refuse(branch))
    if errors and len(errors) + branches.count(_null) == len(branches):
        raise errors[0]

    def of_branch(value: bytes, at: int) -> tuple[Any, int]:
        index, at = _number(value, at)
        return branch_of(branches, index)(value, at)  # type: ignore[no-any-return]

    return of_branch


def _refusal(detail: str) -> Read:
    def refuse(_: bytes, __: int) -> tuple[Any, int]:
        raise Reject("wrong_type", detail)

    return refuse


def _type_name(avro_type: Mapping[str, Any]) -> str:
    name: str = avro_type.get("logicalType") or avro_type["type"]
    return name


def _takes_physical_type(field: Field, kind: Kind | None, avro_type: Mapping[str, Any]) -> bool:
    """Whether a field reads the physical type: an int or Epoch of nanoseconds, a str of a uuid, bytes of a duration."""
    nanos = avro_type.get("logicalType") in _NANOS
    if nanos and field.notation is not None and field.notation.epoch is not None:
        return True
    return (nanos or kind in _AS_WRITTEN) and not takes(field, kind)


def physical(avro_type: Mapping[str, Any]) -> Read:
    """The reader of the single values of a type, without its logical type."""
    kind = avro_type["type"]
    if kind == "fixed":
        size = avro_type["size"]
        return lambda value, at: (value[at : at + size], at + size)
    return partial(_enum, avro_type["symbols"]) if kind == "enum" else _PHYSICAL[kind]


def _with_conversion(read: Read, convert: Convert) -> Read:
    def convert_next(value: bytes, at: int) -> tuple[Any, int]:
        item, at = read(value, at)
        return convert(item), at

    return convert_next


def _null(_: bytes, at: int) -> tuple[None, int]:
    return None, at


def _boolean(value: bytes, at: int) -> tuple[bool, int]:
    return value[at] != 0, at + 1


def _number(value: bytes, at: int) -> tuple[int, int]:
    byte = value[at]
    return ((byte >> 1) ^ -(byte & 1), at + 1) if byte < 0x80 else number(value, at)


def _float(value: bytes, at: int) -> tuple[float, int]:
    return _FLOAT(value, at)[0], at + 4


def _double(value: bytes, at: int) -> tuple[float, int]:
    return _DOUBLE(value, at)[0], at + 8


def _bytes(value: bytes, at: int) -> tuple[bytes, int]:
    end = _after_text(value, at)
    byte = value[at]
    start = at + 1 if byte < 0x80 else number(value, at)[1]
    return value[start:end], end


def _string(value: bytes, at: int) -> tuple[str, int]:
    byte = value[at]
    if byte < 0x80 and not byte & 1:
        start = at + 1
        end = start + (byte >> 1)
        return value[start:end].decode(), end
    content, end = _bytes(value, at)
    return content.decode(), end


def _enum(symbols: list[str], value: bytes, at: int) -> tuple[str, int]:
    index, at = _number(value, at)
    if not 0 <= index < len(symbols):
        raise Reject("format", f"not a value of its schema: an enum has no symbol {index}")
    return symbols[index], at


def _entry(read: Read, value: bytes, at: int) -> tuple[tuple[str, Any], int]:
    key, at = _string(value, at)
    item, at = read(value, at)
    return (key, item), at


def _map(name: str, read: Read, value: bytes, at: int) -> tuple[dict[str, Any], int]:
    entries, at = read(value, at)
    items = dict(entries)
    if len(items) < len(entries):
        repeated, times = Counter(key for key, _ in entries).most_common(1)[0]
        raise Reject("repeated_key", f"field {name}: key {repeated[:_DETAIL_CHARACTERS]!r} occurs {times} times")
    return items, at


def _after_text(value: bytes, at: int) -> int:
    byte = value[at]
    if byte < 0x80 and not byte & 1:
        return at + 1 + (byte >> 1)
    length, at = number(value, at)
    if length < 0:
        raise Reject("format", f"not a value of its schema: a text of {length} bytes")
    return at + length


def _join_texts(parts: list[tuple[str | None, Any]]) -> list[tuple[str | None, Any]]:
    """The parts of a record, of which texts to skip that follow one another are one."""
    joined: list[tuple[str | None, Any]] = []
    for part, run in groupby(parts):
        texts = len(list(run))
        joined += [part] * texts if part[1] is not _after_text or texts == 1 else [(None, partial(_after_texts, range(texts)))]
    return joined


def _after_texts(texts: range, value: bytes, at: int) -> int:
    for _ in texts:
        byte = value[at]
        at = at + 1 + (byte >> 1) if byte < 0x80 and not byte & 1 else _after_text(value, at)
    return at


def _after_number(value: bytes, at: int) -> int:
    return at + 1 if value[at] < 0x80 else number(value, at)[1]


def _after_branch(skips: list[Skip], value: bytes, at: int) -> int:
    index, at = _number(value, at)
    skip: Skip = branch_of(skips, index)
    return skip(value, at)


_PHYSICAL: Final[dict[str, Read]] = {
    "null": _null,
    "boolean": _boolean,
    "int": _number,
    "long": _number,
    "float": _float,
    "double": _double,
    "string": _string,
    "bytes": _bytes,
}
