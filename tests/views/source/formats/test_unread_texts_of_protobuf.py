"""A text of a message that the event type does not take decides nothing, in the message and in messages within it."""

from datetime import datetime

import msgspec
import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from tandem import Event, Source, protobuf
from tests.views.logged import decoded

F = FieldDescriptorProto
NAMES = {"at": 1, "host": 2, "agent": 3}
BAD = b"\x01\xff"


def described() -> FileDescriptorSet:
    """Call with the texts of NAMES, a Place `read` and a Place `unread`."""
    file = FileDescriptorProto(name="call.proto", package="web", syntax="proto3")

    def texts(message: DescriptorProto) -> None:
        for name, number in NAMES.items():
            message.field.add(name=name, number=number, label=F.LABEL_OPTIONAL, type=F.TYPE_STRING)

    call = file.message_type.add(name="Call")
    texts(call)
    for number, name in enumerate(("Read", "Unread"), 4):
        texts(file.message_type.add(name=name))
        call.field.add(name=name.lower(), number=number, label=F.LABEL_OPTIONAL, type=F.TYPE_MESSAGE, type_name=f".web.{name}")
    return FileDescriptorSet(file=[file])


class Read(msgspec.Struct):
    host: str


class Call(Event):
    at: datetime
    host: str
    read: Read


CALLS = Source(
    topic="t", event=Call, event_time="at", decoder=protobuf(descriptor=described().SerializeToString(), message="web.Call")
)
POOL = DescriptorPool()
POOL.AddSerializedFile(described().file[0].SerializeToString())
GOOD: bytes = GetMessageClass(POOL.FindMessageTypeByName("web.Call"))(
    at="2026-11-01T00:00:00Z", host="h", read={"host": "inner"}
).SerializeToString()


@pytest.mark.parametrize(
    ("more", "outcome"),
    [
        (b"\x1a" + BAD, "event"),
        (b"\x22\x03\x1a" + BAD, "event"),
        (b"\x2a\x03\x12" + BAD, "event"),
        (b"\x12" + BAD, "format"),
        (b"\x22\x03\x12" + BAD, "format"),
        (b"\x1a\x05a", "format"),
    ],
    ids=["unread", "unread within read", "within unread", "read", "read within read", "cut"],
)
def test_only_texts_that_are_read_must_be_utf8(more: bytes, outcome: str) -> None:
    result = decoded(CALLS, GOOD + more)
    found = [(row["host"], row["read"]) for row in result.events.to_pylist()] or result.rejects["reason"].to_pylist()
    assert found == [("h", {"host": "inner"}) if outcome == "event" else outcome]
