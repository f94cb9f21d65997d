"""Protocol Buffers: one value is one message, of a type that the project describes. With
`max_events_per_record`, messages one after another, each after its length as a varint (what other languages call delimited).

    protoc --include_imports --descriptor_set_out=orders.bin orders.proto && base64 -w 0 orders.bin

gives the descriptor, which the project holds as a constant.

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
from dataclasses import dataclass
from typing import Final

from tandem.views.definition_text import call
from tandem.views.errors import DefinitionError
from tandem.views.source.event import Event
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.format import Listed, Parse

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

    def __str__(self) -> str:
        return call("protobuf", descriptor=self.descriptor, message=self.message)


def protobuf(*, descriptor: bytes | str, message: str) -> Protobuf:
    """Decode Protocol Buffers: `descriptor` is a serialized FileDescriptorSet with all imports, as bytes or base64.

    `message` is the full name of the messages' type, such as "shop.Order". Raises DefinitionError.
    """
    if not isinstance(message, str):
        raise DefinitionError(f"protobuf: message {message!r} is not the full name of a message's type, such as 'shop.Order'")
    if not isinstance(descriptor, bytes | str):
        raise DefinitionError(f"protobuf: descriptor {descriptor!r} is not a FileDescriptorSet as bytes or base64")
    try:
        return Protobuf(base64.b64decode(descriptor, validate=True) if isinstance(descriptor, str) else descriptor, message)
    except (binascii.Error, ValueError) as error:
        raise DefinitionError(f"protobuf: the descriptor is not base64: {error}") from error


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
