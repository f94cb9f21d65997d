"""Messages of proto2: what a file's `default`, `required`, groups and closed enums mean for an event."""

from datetime import datetime
from typing import Annotated, Any

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from tandem import Epoch, Event, Source, protobuf
from tests.views.logged import decoded, reason

F = FieldDescriptorProto
AT = 1_793_491_200


def file_set() -> FileDescriptorSet:
    file = FileDescriptorProto(name="old.proto", package="old", syntax="proto2")
    colour = file.enum_type.add(name="Colour")
    colour.value.add(name="RED", number=1)
    colour.value.add(name="BLUE", number=2)
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=F.TYPE_INT64, label=F.LABEL_REQUIRED)
    order.field.add(name="pieces", number=2, type=F.TYPE_INT32, label=F.LABEL_OPTIONAL, default_value="1")
    order.field.add(
        name="colour", number=3, type=F.TYPE_ENUM, type_name=".old.Colour", label=F.LABEL_OPTIONAL, default_value="BLUE"
    )
    order.field.add(name="at", number=5, type=F.TYPE_INT64, label=F.LABEL_OPTIONAL)
    order.field.add(name="note", number=4, type=F.TYPE_STRING, label=F.LABEL_OPTIONAL, default_value="none")
    return FileDescriptorSet(file=[file])


POOL = DescriptorPool()
for each in file_set().file:
    POOL.AddSerializedFile(each.SerializeToString())
Sent: Any = GetMessageClass(POOL.FindMessageTypeByName("old.Order"))
DECODER = protobuf(descriptor=file_set().SerializeToString(), message="old.Order")


class Plain(Event):
    at: Annotated[datetime, Epoch("s")]
    id: int
    pieces: int


class Defaults(Event):
    at: Annotated[datetime, Epoch("s")]
    id: int
    pieces: int = 5
    colour: str = "GREY"
    note: str | None = None


def source(event: type[Event]) -> Source:
    return Source(topic="t", event=event, event_time="at", decoder=DECODER)


def test_the_default_of_the_file_changes_nothing() -> None:
    """A message records which fields its sender set, so the event type decides what an absent field means."""
    assert Sent(at=AT, id=7).pieces == 1  # what other readers show
    assert reason(source(Plain), Sent(at=AT, id=7).SerializeToString()) == "missing_field"
    row = event(Defaults, Sent(at=AT, id=7).SerializeToString())
    assert (row["pieces"], row["colour"], row["note"]) == (5, "GREY", None)


def test_a_value_that_equals_the_default_is_a_value() -> None:
    row = event(Defaults, Sent(at=AT, id=7, pieces=1, colour=2, note="none").SerializeToString())
    assert (row["pieces"], row["colour"], row["note"]) == (1, "BLUE", "none")


def test_a_required_field_that_was_not_sent_is_missing() -> None:
    assert reason(source(Plain), Sent(at=AT, pieces=2).SerializePartialToString()) in ("missing_field", "format")


def test_a_number_that_a_closed_enum_does_not_have_is_absent() -> None:
    """The library keeps it among the fields that it does not know."""
    assert event(Defaults, Sent(at=AT, id=7).SerializeToString() + b"\x18\x09")["colour"] == "GREY"


def event(of: type[Event], value: bytes) -> dict[str, Any]:
    result = decoded(source(of), value)
    assert result.rejects.to_pylist() == []
    (row,) = result.events.to_pylist()
    return dict(row)


@pytest.mark.parametrize("value", [b"", b"\x08"])
def test_no_value_and_half_a_value_are_rejects(value: bytes) -> None:
    assert reason(source(Plain), value) in ("empty", "format")
