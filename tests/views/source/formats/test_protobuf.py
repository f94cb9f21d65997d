"""Protocol Buffers: messages of a type that the project describes."""

import base64
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any
from uuid import UUID

import msgspec
import pytest
from google.protobuf import timestamp_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st

from tandem import Event, Scale, Source, protobuf
from tandem.views.errors import DefinitionError
from tests.views.logged import decoded, reason

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
F = FieldDescriptorProto


def field(
    message: DescriptorProto, name: str, kind: Any, *, repeated: bool = False, type_name: str = "", absent: bool = False
) -> None:
    """Add a field with the next number; `absent`: it can be told to be absent, as `optional` says in a file."""
    one = message.field.add(name=name, number=len(message.field) + 1, type=kind)
    one.label = F.LABEL_REPEATED if repeated else F.LABEL_OPTIONAL
    if type_name:
        one.type_name = type_name
    if absent:
        one.proto3_optional = True
        one.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")


def described() -> FileDescriptorSet:
    """What protoc makes of a small file."""
    file = FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3", dependency=["google/protobuf/timestamp.proto"])
    colour = file.enum_type.add(name="Colour")
    for number, name in enumerate(("NONE", "RED", "GREEN")):
        colour.value.add(name=name, number=number)
    spot = file.message_type.add(name="Spot")
    field(spot, "x", F.TYPE_DOUBLE)
    order = file.message_type.add(name="Order")
    field(order, "at", F.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp")
    field(order, "n", F.TYPE_INT64)
    field(order, "big", F.TYPE_UINT64)
    field(order, "price", F.TYPE_STRING)
    field(order, "colour", F.TYPE_ENUM, type_name=".shop.Colour")
    field(order, "key", F.TYPE_STRING)
    field(order, "raw", F.TYPE_BYTES)
    field(order, "ok", F.TYPE_BOOL)
    field(order, "f", F.TYPE_FLOAT)
    field(order, "tags", F.TYPE_STRING, repeated=True)
    field(order, "spot", F.TYPE_MESSAGE, type_name=".shop.Spot")
    field(order, "spots", F.TYPE_MESSAGE, type_name=".shop.Spot", repeated=True)
    field(order, "note", F.TYPE_STRING, absent=True)
    field(order, "needed", F.TYPE_INT32, absent=True)
    timestamp = FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(timestamp)
    return FileDescriptorSet(file=[timestamp, file])


DESCRIPTOR = described().SerializeToString()
POOL = DescriptorPool()
for one in described().file:
    POOL.AddSerializedFile(one.SerializeToString())
Sent: Any = GetMessageClass(POOL.FindMessageTypeByName("shop.Order"))


class Colour(Enum):
    NONE = "NONE"
    RED = "RED"


class Spot(msgspec.Struct):
    x: float


class Order(Event):
    at: datetime
    n: int
    big: int
    price: Annotated[Decimal, Scale(2)]
    colour: Colour
    key: UUID
    raw: bytes
    ok: bool
    f: float
    tags: list[str]
    spot: Spot | None
    spots: list[Spot]
    needed: int
    note: str | None = "none"


ORDERS = Source(topic="t", event=Order, event_time="at", decoder=protobuf(descriptor=DESCRIPTOR, message="shop.Order"))


def sent(**changes: Any) -> bytes:
    """An order with some of its fields replaced; None leaves one out."""
    good = {
        "at": {"seconds": 1_793_491_200, "nanos": 1999},
        "n": -5,
        "price": "12.3",
        "colour": 1,
        "key": str(UUID(int=7)),
        "needed": 0,
    }
    return Sent(**{key: value for key, value in (good | changes).items() if value is not None}).SerializeToString()


def event(value: bytes, source: Source = ORDERS) -> dict[str, Any]:
    found = decoded(source, value)
    (one,) = found.events.to_pylist() or found.rejects.to_pylist()
    return {name: field for name, field in one.items() if not name.startswith("_")}


def test_a_message_becomes_the_fields_that_the_event_type_names() -> None:
    """What is not sent is the type's zero, or absent where that can be told."""
    expected = {
        "at": EPOCH + timedelta(seconds=1_793_491_200, microseconds=1),
        "n": -5,
        "big": 0,
        "price": Decimal("12.30"),
        "colour": "RED",
        "key": str(UUID(int=7)),
        "raw": b"",
        "ok": False,
        "f": 0.0,
        "tags": [],
        "spot": None,
        "spots": [],
        "needed": 0,
        "note": "none",
    }
    assert event(sent()) == expected
    full = {
        "big": 2**63 - 1,
        "raw": b"\xff",
        "ok": True,
        "f": 1.5,
        "tags": ["a"],
        "note": "",
        "spot": {"x": 0},
        "spots": [{"x": 2}],
    }
    assert event(sent(**full)) == expected | full


def test_a_descriptor_may_be_base64() -> None:
    assert protobuf(descriptor=base64.b64encode(DESCRIPTOR).decode(), message="shop.Order") == ORDERS.decoder


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (sent(at=None), "missing_field"),
        (sent(needed=None), "missing_field"),
        (sent(big=2**63), "out_of_range"),
        (sent(f=float("inf")), "out_of_range"),
        (sent(price="1.234"), "out_of_range"),
        (sent(price=""), "invalid_value"),
        (sent(key="no"), "invalid_value"),
        (sent(colour=2), "invalid_value"),
        (sent(colour=9), "invalid_value"),
        (sent(at={"seconds": 2**62}), "out_of_range"),
        (sent(at={"seconds": 1_793_491_200, "nanos": -1}), "invalid_value"),
        (sent(at={"seconds": 0}), "implausible_time"),
        (sent()[:-1], "format"),
        (b"\xff", "format"),
        (sent(tags=["zz"]).replace(b"zz", b"\xff\xff"), "format"),
        (sent() + b"\xf8\x07\x01", "event"),
        (b"", "empty"),
    ],
    ids=lambda given: str(given)[:40],
)
def test_what_is_not_a_message_that_fits_goes_to_quarantine(value: bytes, expected: str) -> None:
    assert reason(ORDERS, value) == expected


VALUES = st.fixed_dictionaries(
    {
        "n": st.integers(-(2**63), 2**63 - 1),
        "raw": st.binary(max_size=8),
        "ok": st.booleans(),
        "f": st.floats(allow_nan=False, allow_infinity=False, width=32),
        "tags": st.lists(st.text(max_size=4), max_size=4),
        "note": st.text(max_size=4),
        "spots": st.lists(st.fixed_dictionaries({"x": st.floats(-1e9, 1e9)}), max_size=3),
    }
)


@given(VALUES, st.datetimes(datetime(2000, 1, 1), datetime(2099, 1, 1)))  # noqa: DTZ001  strategies take no zones here
def test_what_a_writer_writes_is_read_back(values: dict[str, Any], at: datetime) -> None:
    since = at.replace(tzinfo=UTC) - EPOCH
    time = {"seconds": since // timedelta(seconds=1), "nanos": since.microseconds * 1000}
    found = event(sent(**values, at=time))
    assert {name: found[name] for name in values} == values
    assert found["at"] == EPOCH + since


class Odd(Event):
    at: datetime
    m: int


class Wrong(Event):
    at: datetime
    n: str


class Flat(Event):
    at: datetime
    spots: Spot


class Deep(Event):
    at: datetime
    n: list[int]


class Timeless(Event):
    at: int


@pytest.mark.parametrize(
    ("event_type", "says"),
    [
        (Odd, "Odd.m: message shop.Order has no field 'm'; fields: "),
        (
            Wrong,
            "Wrong.n: field shop.Order.n is integer, which is not what string is read from; declare it as int or ",
        ),
        (Flat, "Flat.spots: field shop.Order.spots is repeated shop.Spot"),
        (Deep, "Deep.n: field shop.Order.n is integer"),
        (Timeless, "Timeless.at: field shop.Order.at is google.protobuf.Timestamp, .*; declare it as datetime"),
    ],
)
def test_an_event_type_that_no_message_can_be_is_an_error_of_the_definition(event_type: type[Event], says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        protobuf(descriptor=DESCRIPTOR, message="shop.Order").parser(event_type)


@pytest.mark.parametrize(
    ("descriptor", "message", "says"),
    [
        (DESCRIPTOR, "shop.Ordr", "no message 'shop.Ordr'; messages: shop.Order"),
        (b"\xff", "shop.Order", "is not a FileDescriptorSet"),
        (FileDescriptorSet(file=described().file[1:]).SerializeToString(), "shop.Order", "with all imports"),
        ("?", "shop.Order", "is not base64"),
    ],
)
def test_a_descriptor_that_does_not_describe_the_message_is_refused(descriptor: Any, message: str, says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        protobuf(descriptor=descriptor, message=message).parser(Order)


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"descriptor": DESCRIPTOR, "message": None}, "message None is not the full name"),
        ({"descriptor": DESCRIPTOR, "message": b"shop.Order"}, "is not the full name"),
        ({"descriptor": None, "message": "shop.Order"}, "descriptor None is not a FileDescriptorSet"),
    ],
)
def test_parameters_of_other_types_are_refused(parameters: Any, says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        protobuf(**parameters)
