"""A record names its schema before its value or in a header; what it names is read, and what it lacks is a reject."""

import base64
import json as plain
from datetime import UTC, datetime
from io import BytesIO
from typing import Any

import fastavro
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from tandem import Event, Source, avro, json, protobuf
from tandem.views.decode import decode
from tandem.views.decode.sample_records import as_records
from tandem.views.decode.schema_ids import dump_schemas, load_schemas, missing_schemas, with_schemas
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.formats.schema_registry import FetchedSchema, Kind, SchemaFrame, SchemaKey, frame_of

HOME = "http://127.0.0.1:8081"
GUID = "7f1b9a64-0a1e-4a43-b9fb-3d4c7f0d5e11"
HEADER = b"\x01" + bytes.fromhex(GUID.replace("-", ""))


class Item(Event):
    at: datetime
    name: str


def descriptor() -> tuple[bytes, Any]:
    """Order with the nested Line, then Refund; all have the fields of Item."""
    file = FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    order = file.message_type.add(name="Order")
    for message in (order, order.nested_type.add(name="Line"), file.message_type.add(name="Refund")):
        for number, name in enumerate(("at", "name"), 1):
            message.field.add(
                name=name, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL, type=FieldDescriptorProto.TYPE_STRING
            )
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return FileDescriptorSet(file=[file]).SerializeToString(), pool


def outcomes(source: Source, values: list[bytes], headers: list[dict[str, bytes | None]] | None = None) -> list[Any]:
    at = datetime(2026, 11, 1, tzinfo=UTC)
    records = as_records(source, values, topic_id="t", offsets=range(len(values)), at=at, headers=headers)
    done = decode(source, records)
    found = dict(zip(done.events["_offset"].to_pylist(), done.events["name"].to_pylist(), strict=True))
    found |= dict(zip(done.rejects["offset"].to_pylist(), done.rejects["detail"].to_pylist(), strict=True))
    return [found[number] for number in range(len(values))]


def test_messages_are_chosen_by_their_place() -> None:
    described, pool = descriptor()
    schemas = {SchemaKey(HOME, "PROTOBUF", "7"): FetchedSchema("PROTOBUF", base64.b64encode(described).decode())}
    source = with_schemas(Source(topic="t", event=Item, event_time="at", decoder=protobuf(registry=HOME)), schemas)
    frame = b"\0\0\0\0\x07"

    def written(name: str, text: str) -> bytes:
        message = GetMessageClass(pool.FindMessageTypeByName(name))(at="2026-11-01T00:00:00Z", name=text)
        content: bytes = message.SerializeToString()
        return content

    values = [
        frame + b"\0" + written("shop.Order", "first, short"),
        frame + b"\x02\0" + written("shop.Order", "first, long"),
        frame + b"\x04\0\0" + written("shop.Order.Line", "nested"),
        frame + b"\x02\x02" + written("shop.Refund", "second"),
        frame + b"\x02\x04" + written("shop.Refund", "none"),
        frame + b"\x02",
        frame + b"\x01",
        b"\0\0\0\0\x08\0",
    ]
    assert outcomes(source, values) == [
        "first, short",
        "first, long",
        "nested",
        "second",
        "the schema has no message 2, counted from 0",
        "the place of the message in its schema is cut",
        "the place of the message has -1 numbers",
        f"schema 8 of {HOME} is not fetched yet",
    ]
    one = Source(topic="t", event=Item, event_time="at", decoder=protobuf(registry=HOME, message="shop.Refund"))
    assert outcomes(with_schemas(one, schemas), [values[0], values[3]]) == [
        "a shop.Order of schema 7; the source reads shop.Refund",
        "second",
    ]
    text = {SchemaKey(HOME, "PROTOBUF", "7"): FetchedSchema("PROTOBUF")}
    assert outcomes(with_schemas(one, text), [values[3]])[0].startswith("schema 7: the registry returns it as text only; give")
    own = Source(
        topic="t", event=Item, event_time="at", decoder=protobuf(registry=HOME, message="shop.Refund", descriptor=described)
    )
    assert outcomes(with_schemas(own, text), [values[3]]) == ["second"]
    header: dict[str, bytes | None] = {"__value_schema_id": b"\0\0\0\0\x07\x02\x02"}
    assert outcomes(source, [written("shop.Refund", "by header")], [header]) == ["by header"]


def test_a_message_type_that_cannot_be_read_rejects_no_other_of_its_schema() -> None:
    """Whichever the first record is of."""
    file = FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    for message, names in (("Note", ("at",)), ("Order", ("at", "name"))):
        described = file.message_type.add(name=message)
        for number, name in enumerate(names, 1):
            described.field.add(
                name=name, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL, type=FieldDescriptorProto.TYPE_STRING
            )
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    content = base64.b64encode(FileDescriptorSet(file=[file]).SerializeToString()).decode()
    source = Source(topic="t", event=Item, event_time="at", decoder=protobuf(registry=HOME))
    source = with_schemas(source, {SchemaKey(HOME, "PROTOBUF", "7"): FetchedSchema("PROTOBUF", content)})
    order = GetMessageClass(pool.FindMessageTypeByName("shop.Order"))(at="2026-11-01T00:00:00Z", name="an order")
    note, order = b"\0\0\0\0\x07\0", b"\0\0\0\0\x07\x02\x02" + order.SerializeToString()
    bad, *good = outcomes(source, [note, order, order])
    assert (bad.startswith("schema 7: "), good) == (True, ["an order"] * 2)
    good, bad = outcomes(source, [order, note])
    assert (bad.startswith("schema 7: "), good) == (True, "an order")


@pytest.mark.parametrize("kind", ["JSON", "AVRO", "PROTOBUF"])
def test_a_list_in_a_value_of_a_registry_is_unnested(kind: Kind) -> None:
    described = nested_descriptor()
    pool = DescriptorPool()
    pool.Add(described)
    lines = {"at": "2026-11-01T00:00:00Z", "name": ["a", "b"]}
    avro_schema = {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "at", "type": "string"}, {"name": "name", "type": {"type": "array", "items": "string"}}],
    }
    stream = BytesIO()
    fastavro.schemaless_writer(stream, avro_schema, lines)
    message = GetMessageClass(pool.FindMessageTypeByName("shop.Order"))(**lines)
    content = FileDescriptorSet(file=[described]).SerializeToString()
    decoder, text, value = {
        "JSON": (json(registry=HOME), "{}", plain.dumps(lines).encode()),
        "AVRO": (avro(registry=HOME), plain.dumps(avro_schema), stream.getvalue()),
        "PROTOBUF": (protobuf(registry=HOME), base64.b64encode(content).decode(), b"\0" + message.SerializeToString()),
    }[kind]
    source = Source(topic="t", event=Item, event_time="at", decoder=decoder, unnest="name", max_events_per_record=3)
    source = with_schemas(source, {SchemaKey(HOME, kind, "7"): FetchedSchema(kind, text)})
    records = as_records(source, [b"\0\0\0\0\x07" + value], topic_id="t", offsets=range(1), at=datetime(2026, 11, 1, tzinfo=UTC))
    done = decode(source, records)
    assert (done.events["name"].to_pylist(), done.rejects.num_rows) == (["a", "b"], 0)


def nested_descriptor() -> FileDescriptorProto:
    """Order has a list of names."""
    file = FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    order = file.message_type.add(name="Order")
    labels = (FieldDescriptorProto.LABEL_OPTIONAL, FieldDescriptorProto.LABEL_REPEATED)
    for number, (name, label) in enumerate(zip(("at", "name"), labels, strict=True), 1):
        order.field.add(name=name, number=number, label=label, type=FieldDescriptorProto.TYPE_STRING)
    return file


def test_frames() -> None:
    headers = [
        {"key": "__value_schema_id", "value": b""},
        {"key": "__value_schema_id", "value": HEADER},
        {"key": "x", "value": b""},
    ]
    assert frame_of(b"any", headers, message=True) == SchemaFrame(GUID, 0)
    assert frame_of(b"\0\xff\xff\xff\xff{}", None, message=False) == SchemaFrame("4294967295", 5)
    for value, header in ((b"\0\0\0\0", None), (b"\x01" + bytes(16), None), (b"\x03" + bytes(20), None), (b"a", HEADER[:16])):
        with pytest.raises(Reject) as refused:
            frame_of(value, None if header is None else [{"key": "__value_schema_id", "value": header}], message=False)
        assert refused.value.reason == "format"


def test_missing_schemas_are_listed_once_and_known_ones_are_not() -> None:
    source = Source(topic="t", event=Item, event_time="at", decoder=json(registry=HOME))
    values = [b"\0\0\0\0\x01{}", b"\0\0\0\0\x01[]", b"\0\0\0\0\x02", b"\0\0\0\x09", b"{}", b"\0\0\0\0\x03 by header"]
    records = as_records(
        source,
        values,
        topic_id="t",
        offsets=range(6),
        at=datetime(2026, 11, 1, tzinfo=UTC),
        headers=[{}, {"other": b"x"}, {}, {}, {}, {"__value_schema_id": HEADER}],
    )
    keys = [SchemaKey(HOME, "JSON", each) for each in ("1", "2", GUID)]
    assert missing_schemas(source, records) == keys
    assert missing_schemas(source, records.slice(2)) == keys[1:]
    schemas = {
        keys[1]: FetchedSchema("JSON", "{}"),
        keys[0]: FetchedSchema(),
        SchemaKey("http://b", "JSON", GUID): FetchedSchema(),
    }
    assert load_schemas(dump_schemas(schemas)) == schemas
    assert missing_schemas(with_schemas(source, schemas), records) == keys[2:]


def test_fetched_schemas_are_no_part_of_a_fingerprint_and_the_registry_is() -> None:
    def source(decoder: Any) -> Source:
        return Source(topic="t", event=Item, event_time="at", decoder=decoder)

    plain = source(avro(registry=HOME))
    known = with_schemas(plain, {SchemaKey(HOME, "AVRO", "1"): FetchedSchema("AVRO", "{}")})
    assert known.decoder != plain.decoder
    assert decoder_fingerprint(known) == decoder_fingerprint(plain) != decoder_fingerprint(source(avro(registry=f"{HOME}/2")))
    assert decoder_fingerprint(source(json())) != decoder_fingerprint(source(json(registry=HOME)))


@pytest.mark.parametrize(
    ("registry", "said"),
    [
        ("127.0.0.1:8081", "is not an address, such as 'http://127.0.0.1:8081'"),
        ("file:///etc", "is not an address"),
        (8081, "is not an address"),
        ("http://[", "is not an address"),
        ("https://ann:secret@there", "has a login in its address; give it as settings `registry.username`"),
        ("https://ann:se#secret@there", "has a login in its address"),
        ("https://ann:80#secret@there", "has a login in its address"),
        ("ftp://ann:secret@there", "has a login in its address"),
        ("https://secret@[", "has a login in its address"),
    ],
)
def test_a_registry_is_an_address_without_a_login(registry: Any, said: str) -> None:
    for make in (avro, json, protobuf):
        with pytest.raises(DefinitionError) as refused:
            make(registry=registry)
        assert said in str(refused.value)
        assert "secret" not in str(refused.value)


def test_the_ways_to_name_a_schema_exclude_each_other() -> None:
    with pytest.raises(DefinitionError, match="either schema="):
        avro(registry=HOME, schemas={1: "{}"})
    with pytest.raises(DefinitionError, match="message None is not the full name"):
        protobuf(registry=HOME, descriptor=b"")
