"""Protocol Buffers: one value is one message, of a type that the project describes. With
`max_events_per_record`, messages one after another, each after its length as a varint (what other languages call delimited).

    protoc --include_imports --descriptor_set_out=orders.bin orders.proto && base64 -w 0 orders.bin

gives the descriptor, which the project holds as a constant. `protobuf(registry="http://...")` reads the values of producers with
a schema registry, and fetches descriptors from it (schema_registry.py).

* The event type takes what it needs by the names of the fields (its JSON key, where that differs), as in
  tandem.views.source.fields.named_fields.
* `repeated` is a list, a message a struct, an enum the name of its value. google.protobuf.Timestamp is a datetime, cut to
  microseconds.
* A field whose absence can be seen (`optional`, in a oneof, a message) has the event type's default if it is absent, or is null
  in an Optional field. Without either, the record is rejected.
* Any other field that was not sent has its type's zero, as the format defines.
* A map with string keys is a dict. Fields that the descriptor does not have are ignored.
"""

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from tandem.views.definition_text import call
from tandem.views.errors import DefinitionError
from tandem.views.source.event import Event
from tandem.views.source.fields.named_fields import named_fields
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.format import Listed, NestedFormat, Parse, Unnest
from tandem.views.source.formats.schema_registry import FromRegistry, Kind, SchemaFrame, check_address

_LENGTH: Final = re.compile(rb"[\x80-\xff]{0,4}[\x00-\x7f]")


@dataclass(frozen=True)
class Protobuf:
    """A decoder of messages: `descriptor` is a serialized FileDescriptorSet, `message` a type's full name in it."""

    descriptor: bytes
    message: str

    def parser(self, event: type[Event]) -> Parse:
        """A function from one value to one event; raises DefinitionError if messages lack a field that the event type needs."""
        from tandem.views.source.formats.protobuf_messages import parser  # noqa: PLC0415 - few projects need protobuf

        return parser(event, self.descriptor, self.message)

    def listed(self, event: type[Event]) -> Listed:
        """Values that are messages one after another, each after its length; raises DefinitionError as `parser` does."""
        return Listed(_delimited, self.parser(event))

    def unnest(self, event: type[Event], place: Unnest) -> Listed:
        """Values that are a message with a repeated field or map in the place of a field."""
        from tandem.views.source.formats.protobuf_messages import unnest  # noqa: PLC0415 - few projects need protobuf

        return unnest(event, place, self.descriptor, self.message)

    def __str__(self) -> str:
        return call("protobuf", descriptor=self.descriptor, message=self.message)


@dataclass(frozen=True)
class ProtobufFromRegistry(FromRegistry):
    """The decoder of messages with schemas of a registry.

    With `message` any other type of message is rejected. With `descriptor`, which needs `message`, the registry only has to have
    the id: some registries return schemas as text alone.
    """

    kind: ClassVar[Kind] = "PROTOBUF"

    message: str | None = None
    descriptor: bytes | None = None

    def format_of(self, text: str, frame: SchemaFrame) -> Protobuf:
        """The decoder of one message type of a schema."""
        from tandem.views.source.formats.protobuf_messages import message_at  # noqa: PLC0415 - few projects need protobuf

        if self.descriptor is not None:
            assert self.message is not None  # `protobuf` has checked it
            return Protobuf(self.descriptor, self.message)
        if not text:
            raise DefinitionError("the registry returns it as text only; give descriptor=... and message=... beside registry=...")
        descriptor = base64.b64decode(text)
        name = message_at(descriptor, frame.message)
        if self.message not in (None, name):
            raise Reject("schema", f"a {name} of schema {frame.id}; the source reads {self.message}")
        return Protobuf(descriptor, name)

    def check(self, event: type[Event], build: Callable[[NestedFormat], Any]) -> None:
        """Raise DefinitionError if no message could give the event type's fields."""
        named_fields(event, "a message")
        if self.descriptor is not None and self.message is not None:
            build(Protobuf(self.descriptor, self.message))

    def __str__(self) -> str:
        return call("protobuf", registry=self.registry, message=self.message, descriptor=self.descriptor)


def protobuf(
    *, descriptor: bytes | str | None = None, message: str | None = None, registry: str | None = None
) -> Protobuf | ProtobufFromRegistry:
    """Decode Protocol Buffers: `descriptor` is a serialized FileDescriptorSet with all imports, as bytes or base64.

    `message` is the full name of the messages' type, such as "shop.Order". With the address of a schema `registry`, values begin
    with the id of their schema and the place of their type, or a header has both; then `descriptor`, and without it `message`,
    may be left out. Raises DefinitionError.
    """
    if not isinstance(message, str) and (registry is None or descriptor is not None or message is not None):
        raise DefinitionError(f"protobuf: message {message!r} is not the full name of a message's type, such as 'shop.Order'")
    if not isinstance(descriptor, bytes | str) and (registry is None or descriptor is not None):
        raise DefinitionError(f"protobuf: descriptor {descriptor!r} is not a FileDescriptorSet as bytes or base64")
    try:
        content = base64.b64decode(descriptor, validate=True) if isinstance(descriptor, str) else descriptor
    except (binascii.Error, ValueError) as error:
        raise DefinitionError(f"protobuf: the descriptor is not base64: {error}") from error
    if registry is not None:
        return ProtobufFromRegistry(check_address("protobuf", registry), message, content)
    assert content is not None
    assert message is not None
    return Protobuf(content, message)


def _delimited(value: bytes) -> list[bytes]:
    """The messages in a value, without their lengths."""
    messages: list[bytes] = []
    at = 0
    while at < len(value):
        found = _LENGTH.match(value, at)
        if found is None:
            raise Reject("format", f"event {len(messages)}: byte {at} begins no length")
        length = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(found[0]))
        at = found.end() + length
        if at > len(value):
            raise Reject("format", f"event {len(messages)}: {length} bytes announced, {len(value) - found.end()} there")
        messages.append(value[found.end() : at])
    return messages
