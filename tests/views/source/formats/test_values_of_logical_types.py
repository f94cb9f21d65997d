"""What other formats have without loss is read from Avro's logical types and Google's messages of one value, too."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from typing import Annotated, Any
from uuid import UUID

import fastavro
import pytest
from google.protobuf import wrappers_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from tandem import Epoch, Event, Scale, Zone, avro, protobuf
from tandem.views.errors import DefinitionError
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.format import RecordFormat

KEY = UUID("5d5e3713-5a38-4533-8143-b96b8eb47b5a")
SIXTEEN = {"type": "fixed", "name": "Sixteen", "size": 16}
NANOS = {"type": "long", "logicalType": "timestamp-nanos"}
LOCAL = {"type": "long", "logicalType": "local-timestamp-nanos"}
AT = datetime(2026, 11, 1, 8, tzinfo=UTC)
SINCE_1970 = int(AT.timestamp()) * 10**9
CASES: list[tuple[Any, Any, Any, Any, Any]] = [
    (UUID, {**SIXTEEN, "logicalType": "uuid"}, SIXTEEN, KEY.bytes, KEY),
    (bytes, {**SIXTEEN, "logicalType": "uuid"}, SIXTEEN, KEY.bytes, KEY.bytes),
    (str, {"type": "string", "logicalType": "uuid"}, "string", str(KEY).upper(), str(KEY).upper()),
    (datetime, NANOS, "long", SINCE_1970 + 1_999, AT + timedelta(microseconds=1)),
    (datetime, NANOS, "long", -1, datetime(1970, 1, 1, tzinfo=UTC) - timedelta(microseconds=1)),
    (Annotated[datetime, Epoch("ns")], NANOS, "long", SINCE_1970 + 1_999, AT + timedelta(microseconds=1)),
    (Annotated[datetime, Zone("Europe/Berlin")], LOCAL, "long", SINCE_1970, AT - timedelta(hours=1)),
    (Annotated[datetime, Epoch("ns")], LOCAL, "long", SINCE_1970, AT),
    (int, NANOS, "long", SINCE_1970 + 1, SINCE_1970 + 1),
    (int, {"type": "int", "logicalType": "time-millis"}, "int", 5, 5),
    (Annotated[Decimal, Scale(2)], "long", "long", 2**63 - 1, Decimal(2**63 - 1)),
    (
        bytes,
        {"type": "fixed", "name": "Five", "size": 5, "logicalType": "uuid"},
        {"type": "fixed", "name": "Five", "size": 5},
        b"12345",
        b"12345",
    ),
]


def parser(kind: Any, decoder: RecordFormat) -> Any:
    class One(Event):
        x: kind

    return decoder.parser(One)


def record(type_: Any) -> Mapping[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "x", "type": type_}]}


@pytest.mark.parametrize(("kind", "declared", "physical", "written", "expected"), CASES)
def test_avro(kind: Any, declared: Any, physical: Any, written: Any, expected: Any) -> None:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(dict(record(physical))), {"x": written})
    for type_ in (declared, ["null", declared]):
        value = stream.getvalue() if type_ is declared else b"\x02" + stream.getvalue()
        assert parser(kind, avro(schema=record(type_)))(value).x == expected


@pytest.mark.parametrize(
    ("kind", "declared", "says"),
    [
        (str, {**SIXTEEN, "logicalType": "uuid"}, "as uuid, which is not what string is read from; declare it as UUID"),
        (str, NANOS, "as timestamp-nanos, .*; declare it as datetime"),
        (bool, LOCAL, r"as local-timestamp-nanos, .*; declare it as a datetime with a zone, such as Annotated\[datetime, Zone"),
    ],
)
def test_a_field_of_another_type_is_told_which_one_takes_the_values(kind: Any, declared: Any, says: str) -> None:
    with pytest.raises(DefinitionError, match=f"One.x: .*{says}"):
        parser(kind, avro(schema=record(declared)))


F = FieldDescriptorProto


def messages() -> tuple[bytes, Any]:
    wrappers = FileDescriptorProto()
    wrappers_pb2.DESCRIPTOR.CopyToProto(wrappers)
    dates = FileDescriptorProto(name="google/type/date.proto", package="google.type", syntax="proto3")
    day = dates.message_type.add(name="Date")
    for place, name in enumerate(("year", "month", "day"), 1):
        day.field.add(name=name, number=place, label=F.LABEL_OPTIONAL, type=F.TYPE_INT32)
    file = FileDescriptorProto(name="m.proto", package="m", syntax="proto3", dependency=[wrappers.name, dates.name])
    message = file.message_type.add(name="M")
    for place, (name, kind) in enumerate(
        {"n": "protobuf.Int64Value", "text": "protobuf.StringValue", "flag": "protobuf.BoolValue", "day": "type.Date"}.items(), 1
    ):
        message.field.add(name=name, number=place, label=F.LABEL_OPTIONAL, type=F.TYPE_MESSAGE, type_name=f".google.{kind}")
    message.field.add(name="cents", number=5, label=F.LABEL_OPTIONAL, type=F.TYPE_UINT64)
    pool = DescriptorPool()
    files = [wrappers, dates, file]
    for each in files:
        pool.AddSerializedFile(each.SerializeToString())
    return FileDescriptorSet(file=files).SerializeToString(), GetMessageClass(pool.FindMessageTypeByName("m.M"))


class Wrapped(Event):
    n: int | None
    text: str | None
    flag: bool | None
    day: date | None
    cents: Annotated[Decimal, Scale(0)]


def test_messages_of_one_value() -> None:
    descriptor, message = messages()
    parse = protobuf(descriptor=descriptor, message="m.M").parser(Wrapped)
    assert parse(b"") == Wrapped(None, None, None, None, Decimal(0))
    sent = message(n={"value": -5}, text={}, flag={"value": True}, day={"year": 2026, "month": 11, "day": 1}, cents=2**64 - 1)
    assert parse(sent.SerializeToString()) == Wrapped(-5, "", True, date(2026, 11, 1), Decimal(2**64 - 1))
    with pytest.raises(Reject, match="not a whole date"):
        parse(message(day={"year": 2026}).SerializeToString())
