"""Valid values of every type that the decoders of Avro and Protocol Buffers take become events of these values.

Avro is written here, from its specification alone; Protocol Buffers by Google's library, whose own reader says what was written.
"""

import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToDict
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st

from tandem import Event, Scale, avro, protobuf
from tests.samples import just

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LONG = st.integers(-(2**63), 2**63 - 1)
INT = st.integers(-(2**31), 2**31 - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
TIME = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


def number(value: int) -> bytes:
    """An int or long: zigzag, then seven bits a byte, the lowest first."""
    left, found = (value << 1) ^ (value >> 63), b""
    while left > 0x7F:
        found += bytes([left & 0x7F | 0x80])
        left >>= 7
    return found + bytes([left])


def sized(value: bytes) -> bytes:
    return number(len(value)) + value


def two_complement(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)


def array(items: list[bytes]) -> bytes:
    """In two blocks, the first with its size in bytes; the specification allows both."""
    first, rest = items[:2], items[2:]
    content = b"".join(first)
    block = number(-len(first)) + number(len(content)) + content if first else b""
    return block + (number(len(rest)) + b"".join(rest) if rest else b"") + number(0)


class Inner(Event):
    name: str
    size: int | None = None


class Everything(Event):
    at: datetime
    exact: datetime
    day: date
    flag: bool
    small: int
    large: int
    ratio: float
    narrow: float
    text: str
    kind: Literal["a", "b", "c"]
    raw: bytes
    fixed: bytes
    money: Annotated[Decimal, Scale(2)]
    key: UUID
    opens: time
    closes: time
    took: timedelta
    items: list[str]
    inner: Inner
    inners: list[Inner]
    maybe: int | None = None


INNER = {
    "type": "record",
    "name": "Inner",
    "fields": [
        {"name": "unread", "type": "bytes"},
        {"name": "name", "type": "string"},
        {"name": "size", "type": ["long", "null"]},
    ],
}
TYPES: dict[str, Any] = {
    "at": {"type": "long", "logicalType": "timestamp-millis"},
    "exact": {"type": "long", "logicalType": "timestamp-micros"},
    "day": {"type": "int", "logicalType": "date"},
    "flag": "boolean",
    "small": "int",
    "large": "long",
    "ratio": "double",
    "narrow": "float",
    "text": "string",
    "kind": {"type": "enum", "name": "Kind", "symbols": ["a", "b", "c"]},
    "raw": "bytes",
    "fixed": {"type": "fixed", "name": "Four", "size": 4},
    "money": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
    "key": {"type": "string", "logicalType": "uuid"},
    "opens": {"type": "int", "logicalType": "time-millis"},
    "closes": {"type": "long", "logicalType": "time-micros"},
    "took": {"type": "fixed", "name": "Duration", "size": 12, "logicalType": "duration"},
    "items": {"type": "array", "items": "string"},
    "inner": INNER,
    "inners": {"type": "array", "items": "Inner"},
    "maybe": ["null", "long"],
}


def since_midnight(value: time) -> timedelta:
    return datetime.combine(EPOCH, value, UTC) - EPOCH


def duration_bytes(value: timedelta) -> bytes:
    """No months, then days and milliseconds; a day may as well be in milliseconds."""
    days = value.days if value.days % 2 == 0 or value.days > 40 else 0
    return struct.pack("<III", 0, days, (value - timedelta(days=days)) // timedelta(milliseconds=1))


def inner_bytes(value: dict[str, Any]) -> bytes:
    size = number(1) if value["size"] is None else number(0) + number(value["size"])
    return sized(b"\xff unread") + sized(value["name"].encode()) + size


WRITE: dict[str, Callable[[Any], bytes]] = {
    "at": lambda value: number((value - EPOCH) // timedelta(milliseconds=1)),
    "exact": lambda value: number((value - EPOCH) // timedelta(microseconds=1)),
    "day": lambda value: number((value - EPOCH.date()).days),
    "flag": lambda value: bytes([value]),
    "small": number,
    "large": number,
    "ratio": lambda value: struct.pack("<d", value),
    "narrow": lambda value: struct.pack("<f", value),
    "text": lambda value: sized(value.encode()),
    "kind": lambda value: number("abc".index(value)),
    "raw": sized,
    "fixed": bytes,
    "money": lambda value: sized(two_complement(int(value.scaleb(2)))),
    "key": lambda value: sized(str(value).encode()),
    "opens": lambda value: number(since_midnight(value) // timedelta(milliseconds=1)),
    "closes": lambda value: number(since_midnight(value) // timedelta(microseconds=1)),
    "took": duration_bytes,
    "items": lambda value: array([sized(each.encode()) for each in value]),
    "inner": inner_bytes,
    "inners": lambda value: array([inner_bytes(each) for each in value]),
    "maybe": lambda value: number(0) if value is None else number(1) + number(value),
}
INNERS = st.fixed_dictionaries({"name": TEXT, "size": st.none() | LONG})
VALUES = st.fixed_dictionaries(
    {
        "at": TIME.map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000)),
        "exact": TIME,
        "day": st.dates(date(1900, 1, 1), date(2200, 1, 1)),
        "flag": st.booleans(),
        "small": INT,
        "large": LONG,
        "ratio": st.floats(allow_nan=False, allow_infinity=False),
        "narrow": st.floats(allow_nan=False, allow_infinity=False, width=32),
        "text": TEXT,
        "kind": st.sampled_from("abc"),
        "raw": st.binary(max_size=20),
        "fixed": st.binary(min_size=4, max_size=4),
        "money": st.integers(-(10**12) + 1, 10**12 - 1).map(lambda cents: Decimal(cents).scaleb(-2)),
        "key": st.uuids(),
        "opens": st.times().map(lambda value: value.replace(microsecond=value.microsecond // 1000 * 1000)),
        "closes": st.times(),
        "took": st.integers(0, 10**14).map(lambda millis: timedelta(milliseconds=millis)),
        "items": st.lists(TEXT, max_size=5),
        "inner": INNERS,
        "inners": st.lists(INNERS, max_size=4),
        "maybe": st.none() | LONG,
    }
)


@just(1000, quick=75)
@given(VALUES, st.permutations([name for name in TYPES if name not in ("inner", "inners")]))
def test_avro(values: dict[str, Any], order: list[str]) -> None:
    """In any order of fields, each after one that the event type does not take."""
    names = [*order, "inner", "inners"]
    fields = [part for name in names for part in ({"name": f"un_{name}", "type": "string"}, {"name": name, "type": TYPES[name]})]
    schema = {"type": "record", "name": "Everything", "fields": fields}
    value = b"".join(sized(b"\xfe") + WRITE[name](values[name]) for name in names)
    event = avro(schema=schema).parser(Everything)(value)
    assert event == msgspec.convert(values, Everything)


class Message(Event):
    at: datetime
    flag: bool
    small: int
    large: int
    unsigned: int
    zigzag: int
    fixed: int
    ratio: float
    narrow: float
    text: str
    raw: bytes
    kind: Literal["a", "b", "c"]
    took: timedelta
    opens: time
    numbers: list[int]
    inner: Inner
    inners: list[Inner]
    maybe: int | None = None


F = FieldDescriptorProto
PROTO: dict[str, tuple[int, str]] = {
    "at": (F.TYPE_MESSAGE, ".google.protobuf.Timestamp"),
    "flag": (F.TYPE_BOOL, ""),
    "small": (F.TYPE_INT32, ""),
    "large": (F.TYPE_INT64, ""),
    "unsigned": (F.TYPE_UINT32, ""),
    "zigzag": (F.TYPE_SINT64, ""),
    "fixed": (F.TYPE_SFIXED64, ""),
    "ratio": (F.TYPE_DOUBLE, ""),
    "narrow": (F.TYPE_FLOAT, ""),
    "text": (F.TYPE_STRING, ""),
    "raw": (F.TYPE_BYTES, ""),
    "kind": (F.TYPE_ENUM, ".t.Kind"),
    "took": (F.TYPE_MESSAGE, ".google.protobuf.Duration"),
    "opens": (F.TYPE_MESSAGE, ".google.type.TimeOfDay"),
    "numbers": (F.TYPE_INT64, ""),
    "inner": (F.TYPE_MESSAGE, ".t.Inner"),
    "inners": (F.TYPE_MESSAGE, ".t.Inner"),
    "maybe": (F.TYPE_INT64, ""),
}


def described() -> tuple[bytes, Any]:
    """The descriptor of Message, and Google's class for it."""
    from google.protobuf import duration_pb2, timestamp_pb2  # noqa: PLC0415

    stamp, length = FileDescriptorProto(), FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(stamp)
    duration_pb2.DESCRIPTOR.CopyToProto(length)
    clock = FileDescriptorProto(name="google/type/timeofday.proto", package="google.type", syntax="proto3")
    of_day = clock.message_type.add(name="TimeOfDay")
    for place, name in enumerate(("hours", "minutes", "seconds", "nanos"), 1):
        of_day.field.add(name=name, number=place, label=F.LABEL_OPTIONAL, type=F.TYPE_INT32)
    needed = [stamp, length, clock]
    file = FileDescriptorProto(name="t.proto", package="t", syntax="proto3", dependency=[each.name for each in needed])
    kinds = file.enum_type.add(name="Kind")
    for place, name in enumerate("abc"):
        kinds.value.add(name=name, number=place)
    inner = file.message_type.add(name="Inner")
    inner.field.add(name="name", number=1, label=F.LABEL_OPTIONAL, type=F.TYPE_STRING)
    inner.oneof_decl.add(name="_size")
    inner.field.add(name="size", number=2, label=F.LABEL_OPTIONAL, type=F.TYPE_INT64, proto3_optional=True, oneof_index=0)
    message = file.message_type.add(name="Message")
    message.oneof_decl.add(name="_maybe")
    for place, (name, (kind, type_name)) in enumerate(PROTO.items(), 1):
        many = F.LABEL_REPEATED if name in ("numbers", "inners") else F.LABEL_OPTIONAL
        added = message.field.add(name=name, number=place, label=many, type=kind, type_name=type_name or None)
        if name == "maybe":
            added.proto3_optional, added.oneof_index = True, 0
    pool = DescriptorPool()
    for each in (*needed, file):
        pool.AddSerializedFile(each.SerializeToString())
    return FileDescriptorSet(file=[*needed, file]).SerializeToString(), GetMessageClass(pool.FindMessageTypeByName("t.Message"))


SET_BELOW = ("at", "inner", "inners", "maybe", "kind", "took", "opens")
DESCRIPTOR, GOOGLE = described()
PARSE = protobuf(descriptor=DESCRIPTOR, message="t.Message").parser(Message)
SENT = st.fixed_dictionaries(
    {
        "at": TIME,
        "flag": st.booleans(),
        "small": INT,
        "large": LONG,
        "unsigned": st.integers(0, 2**32 - 1),
        "zigzag": LONG,
        "fixed": LONG,
        "ratio": st.floats(allow_nan=False, allow_infinity=False),
        "narrow": st.floats(allow_nan=False, allow_infinity=False, width=32),
        "text": TEXT,
        "raw": st.binary(max_size=20),
        "kind": st.sampled_from("abc"),
        "took": st.timedeltas(-timedelta(days=3_652_500), timedelta(days=3_652_500)),
        "opens": st.times(),
        "numbers": st.lists(LONG, max_size=5),
        "inner": INNERS,
        "inners": st.lists(INNERS, max_size=4),
        "maybe": st.none() | LONG,
    }
)


@just(1000, quick=75)
@given(SENT)
def test_protobuf(values: dict[str, Any]) -> None:
    message = GOOGLE(**{name: value for name, value in values.items() if name not in SET_BELOW})
    message.at.FromDatetime(values["at"])
    message.took.FromTimedelta(values["took"])
    message.opens.SetInParent()
    shown = values["opens"]
    message.opens.hours, message.opens.minutes, message.opens.seconds = shown.hour, shown.minute, shown.second
    message.opens.nanos = shown.microsecond * 1000
    message.kind = "abc".index(values["kind"])
    for of, into in [(values["inner"], message.inner), *((each, message.inners.add()) for each in values["inners"])]:
        into.SetInParent()
        into.name = of["name"]
        if of["size"] is not None:
            into.size = of["size"]
    if values["maybe"] is not None:
        message.maybe = values["maybe"]
    sent = message.SerializeToString()
    assert PARSE(sent) == msgspec.convert(values, Message)
    read = MessageToDict(GOOGLE.FromString(sent), preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    assert (int(read["large"]), read["text"], read["kind"]) == (values["large"], values["text"], values["kind"])
