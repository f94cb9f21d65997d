"""Decoders of records that name their schema by its id in a registry; a subclass for each format.

Tandem fetches a schema when the first record has its id, keeps it with the tables, and reads it there from then on. A task
never asks a registry: a record whose schema is not there yet is a reject here, and the driver fetches the schema before anything
counts (views/decode/schema_ids.py). A record is also a reject if the registry does not have its schema, or if the event type
cannot read the schema.

As Confluent's serializers write them:

* Before the value: a zero byte and the schema's id in four bytes (big-endian). Before a message of Protocol Buffers also its
  place among the messages of its file.
* Or in the header `__value_schema_id`: a byte 1 and a GUID in 16 bytes, or the bytes above; the place of a message follows there.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final, Literal, NamedTuple
from urllib.parse import urlsplit
from uuid import UUID

from tandem.views.errors import DefinitionError
from tandem.views.source.event import Event
from tandem.views.source.fields.reasons import Reason, Reject
from tandem.views.source.format import Listed, NestedFormat, Parse, Unnest, Unnested

Kind = Literal["AVRO", "PROTOBUF", "JSON"]
"""Types of schemas, in a registry's words."""

SCHEMA_ID_HEADER: Final = "__value_schema_id"
KEY_ID_HEADER: Final = "__key_schema_id"
FRAME_BYTES: Final = 5
_GUID_BYTES: Final = 17
_MOST_INDEXES: Final = 100


class SchemaKey(NamedTuple):
    """A schema as a decoder asks for it: the registry as the definition names it, the type that the decoder reads, the id."""

    registry: str
    kind: Kind
    id: str


@dataclass(frozen=True)
class FetchedSchema:
    """A registry's answer: the schema's type and text, with all that it imports. Both are empty for an id without schema.

    The text is JSON for Avro and JSON; for Protocol Buffers a FileDescriptorSet in base64, whose last file is the schema's.
    """

    kind: str = ""
    text: str = ""


FetchedSchemas = Mapping[SchemaKey, FetchedSchema]


class SchemaFrame(NamedTuple):
    """The id of a record's schema, where the value begins after it, and the place of the message among those of its file."""

    id: str
    start: int
    message: tuple[int, ...] = (0,)


def frame_of(
    value: bytes, headers: Sequence[Mapping[str, Any]] | None, *, message: bool, header_name: str = SCHEMA_ID_HEADER
) -> SchemaFrame:
    """The frame of a value, with the place of a `message` if its format has one. Raises Reject for a value without a frame."""
    for header in reversed(headers or ()):
        if header["key"] == header_name:
            content = header["value"] or b""
            identifier, end = schema_id(content)
            if not identifier:
                raise Reject("format", f"header {header_name} has {len(content)} bytes, which are not the id of a schema")
            return SchemaFrame(identifier, 0, _message_place(content, end)[0] if message and end < len(content) else (0,))
    if value[:1] != b"\0" or len(value) < FRAME_BYTES:
        raise Reject("format", "the value does not begin with a zero byte and a schema's id")
    identifier = str(int.from_bytes(value[1:FRAME_BYTES], "big"))
    if not message:
        return SchemaFrame(identifier, FRAME_BYTES)
    place, start = _message_place(value, FRAME_BYTES)
    return SchemaFrame(identifier, start, place)


def schema_id(content: bytes) -> tuple[str, int]:
    """The id in a header, and where it ends; an empty id if there is none."""
    if content[:1] == b"\x01" and len(content) >= _GUID_BYTES:
        return str(UUID(bytes=content[1:_GUID_BYTES])), _GUID_BYTES
    if content[:1] == b"\0" and len(content) >= FRAME_BYTES:
        return str(int.from_bytes(content[1:FRAME_BYTES], "big")), FRAME_BYTES
    return "", 0


def _message_place(content: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """The place of a message, and where it ends: numbers in zigzag, their count first; a zero alone is the first message."""
    count, at = _zigzag(content, at)
    if not count:
        return (0,), at
    if not 0 < count <= _MOST_INDEXES:
        raise Reject("format", f"the place of the message has {count} numbers")
    place = []
    for _ in range(count):
        number, at = _zigzag(content, at)
        place.append(number)
    return tuple(place), at


def _zigzag(content: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 35, 7):
        if at >= len(content):
            break
        byte = content[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number >> 1 ^ -(number & 1), at
    raise Reject("format", "the place of the message in its schema is cut")


_MOST_READERS: Final = 1000
_EXAMPLE: Final = "'http://127.0.0.1:8081'"
_PATH: Final = re.compile("[!-~]*")


class _ListedPart(NamedTuple):
    """A part of a list, and how its schema's decoder reads it."""

    listed: Listed
    part: Any


@dataclass(frozen=True)
class FromRegistry:
    """A decoder whose schemas are in the registry at this address; `schemas` are those that were fetched, by id.

    No fingerprint depends on which are there: a schema's id never changes its meaning.
    """

    kind: ClassVar[Kind]
    reads_keys: ClassVar[bool] = False
    """Whether a record's key names a schema, too."""

    registry: str
    schemas: tuple[tuple[str, FetchedSchema], ...] = field(default=(), repr=False, kw_only=True)

    @property
    def record_parts(self) -> tuple[str, ...]:
        """The headers, which may have the schema's id."""
        return ("headers",)

    def format_of(self, text: str, frame: SchemaFrame) -> NestedFormat:
        """The decoder of values without frames, of a fetched schema. Raises DefinitionError, Reject."""
        raise NotImplementedError

    def check(self, event: type[Event], build: Callable[[NestedFormat], Any]) -> None:
        """Raise DefinitionError if the event type fits no schema; `build` makes what reads it, of a decoder."""
        raise NotImplementedError

    def parser(self, event: type[Event]) -> Parse:
        """A function from one value and its headers to one event; raises DefinitionError if the event type fits no schema."""
        find = self._finder(event, lambda decoder: decoder.parser(event))

        def parse(value: bytes, headers: Any) -> Any:
            read, payload = find(value, headers)
            return read(payload)

        return parse

    def listed(self, event: type[Event]) -> Listed:
        """The lists that the schemas' decoders read; raises DefinitionError if the event type fits no schema."""
        return self._lists(event, lambda decoder: decoder.listed(event))

    def unnest(self, event: type[Event], place: Unnest) -> Listed:
        """The lists and maps in the place of a field; raises DefinitionError if the event type fits no schema."""
        return self._lists(event, lambda decoder: decoder.unnest(event, place))

    def _lists(self, event: type[Event], build: Callable[[NestedFormat], Listed]) -> Listed:
        find = self._finder(event, build)

        def split(value: bytes, headers: Any) -> Unnested:
            listed, payload = find(value, headers)
            return Unnested(listed.split(payload), partial(_ListedPart, listed))

        return Listed(split, lambda part: part.listed.parse(part.part), lambda part: part.listed.shown(part.part))

    def _finder(self, event: type[Event], build: Callable[[NestedFormat], Any]) -> Callable[[bytes, Any], tuple[Any, bytes]]:
        """The function from a value and its headers to what `build` makes for its schema, and the value without frame."""
        self.check(event, build)
        schemas, message = dict(self.schemas), self.kind == "PROTOBUF"
        readers: dict[tuple[str, tuple[int, ...]], Any] = {}
        refused: dict[tuple[str, tuple[int, ...]], tuple[Reason, str]] = {}

        def find(value: bytes, headers: Any) -> tuple[Any, bytes]:
            frame = frame_of(value, headers, message=message)
            place = frame.id, frame.message
            reader = readers.get(place)
            if reader is None:
                if place in refused:
                    raise Reject(*refused[place])
                if len(readers) + len(refused) >= _MOST_READERS:
                    readers.clear()
                    refused.clear()
                try:
                    reader = build(self.format_of(self.text(schemas, frame.id), frame))
                except DefinitionError as error:
                    reason: Reason = "schema"
                    refused[place] = reason, f"schema {frame.id}: {error}"
                    raise Reject(*refused[place]) from error
                readers[place] = reader
            return reader, value[frame.start :]

        return find

    def text(self, schemas: Mapping[str, FetchedSchema], identifier: str) -> str:
        """The text of a fetched schema. Raises Reject."""
        schema = schemas.get(identifier)
        if schema is None:
            raise Reject("schema", f"schema {identifier} of {self.registry} is not fetched yet")
        if not schema.kind:
            raise Reject("schema", f"the registry {self.registry} has no schema {identifier}")
        if schema.kind != self.kind:
            raise Reject("schema", f"schema {identifier} of {self.registry} is of type {schema.kind}, not {self.kind}")
        return schema.text


def check_address(function: str, registry: str) -> str:
    """The address of a registry. Raises DefinitionError unless it is one of HTTP without a login."""
    if fault := address_fault(registry) if isinstance(registry, str) else f"{registry!r} is not an address, such as {_EXAMPLE}":
        raise DefinitionError(f"{function}: registry {fault}")
    return registry


def address_fault(address: str) -> str:
    """Why this is not an address of HTTP without a login, which is a secret that is not printed; empty if it is one."""
    # Of an invalid address nobody can say where a login ends, so nothing of it is printed once it has an @.
    if "@" in address:
        return (
            "has a login in its address; give it as settings `registry.username` and TANDEM_REGISTRY_PASSWORD, and write any "
            "other @ as %40"
        )
    try:
        parts = urlsplit(address)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        # Python's client refuses other characters, in words that have the path, which may be a secret.
        valid = valid and _PATH.fullmatch(f"{parts.path}{parts.query}") is not None
    except ValueError:
        valid = False
    return "" if valid else f"{address!r} is not an address, such as {_EXAMPLE}"
