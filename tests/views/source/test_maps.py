"""Fields that are maps: read in every format that has them, in one order of keys, and used in expressions."""

import base64
import json as plain
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from io import BytesIO
from typing import Annotated, Any

import fastavro
import msgspec
import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st

from tandem import Epoch, Event, Name, Scale, Source, View, apache, avro, count, csv, json, maximum, nginx_json, protobuf, total
from tandem.speed.dedup.within_task import keys_of
from tandem.views.decode.value_parsers import parser
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.event_meaning import event_meaning
from tandem.views.fingerprint.schema_evolution import differences
from tandem.views.kernel.deduplicate import deduplicate
from tandem.views.source.event import event_fields
from tandem.views.source.fields.columns import column
from tandem.views.source.fields.reasons import Reject
from tandem.views.testing import answer
from tandem.views.verify.random_events import events
from tandem.views.view import state_schema
from tests.views.logged import decoded, reason

AT = datetime(2026, 11, 1, tzinfo=UTC)


class Visit(Event):
    id: int
    at: datetime
    tags: dict[str, str]


VISITS = Source(topic="t", event=Visit, event_time="at", identity=("id",))


class Stop(msgspec.Struct):
    when: datetime
    gross: Annotated[float, Name("US Gross")] = 0.0


class Deep(Event):
    at: datetime
    amounts: dict[str, Annotated[Decimal, Scale(2, rounding="half_even")]]
    stops: dict[str, list[Stop]]
    times: dict[str, Annotated[datetime, Epoch("s")] | None] = msgspec.field(default_factory=dict)
    counts: dict[str, dict[str, int]] | None = None


DEEP = Source(topic="t", event=Deep, event_time="at")


def visit(tags: str, number: int = 1) -> bytes:
    return f'{{"id":{number},"at":"2026-11-01T00:00:00Z","tags":{tags}}}'.encode()


@given(st.dictionaries(st.text(), st.text(), max_size=5), st.randoms())
def test_the_order_of_keys_decides_nothing(tags: dict[str, str], dice: Any) -> None:
    """The oracle is Python's own JSON; the content of a copy is the same, so it is no conflict."""
    pairs = list(tags.items())
    dice.shuffle(pairs)
    log = decoded(VISITS, visit(plain.dumps(tags)), visit(plain.dumps(dict(pairs), ensure_ascii=False))).events
    assert log["tags"].to_pylist() == [sorted(tags.items())] * 2
    assert dict(log["tags"].to_pylist()[0]) == tags
    unique = deduplicate(VISITS, log)
    assert (unique.duplicates, unique.conflicts) == (1, 0)
    words = keys_of(VISITS, log)
    assert words[0].tolist() == words[1].tolist()


def test_other_entries_are_another_content() -> None:
    class Optional(Visit):
        tags: dict[str, str | None] | None

    source = replace(VISITS, event=Optional)
    different = ["null", "{}", '{"a":null}', '{"a":""}', '{"a":"b"}', '{"b":"a"}', '{"a":"b","c":"d"}', '{"ab":""}', '{"":"ab"}']
    log = decoded(source, *map(visit, different)).events
    assert deduplicate(source, log).conflicts == len(different) - 1
    assert len({row[2] for row in keys_of(source, log).tolist()}) == len(different)


def test_a_key_that_json_has_twice_rejects_the_record() -> None:
    for tags in ('{"a":"x","a":"x"}', '{"a":"x","\\u0061":"y"}', '{"at":"x","b":"","at":"y"}'):
        assert reason(VISITS, visit(tags)) == "repeated_key"
    unread = b'{"id":1,"at":"2026-11-01T00:00:00Z","tags":{},"more":{"x":1,"x":2}}'
    assert reason(VISITS, unread) == "event", "no field has this map"
    deep = b'{"at":"2026-11-01T00:00:00Z","amounts":{},"stops":{},"counts":{"a":{"b":1,"b":1}}}'
    (detail,) = decoded(DEEP, deep).rejects["detail"].to_pylist()
    assert detail == "key 'b' occurs 2 times in the map counts[]"
    for value in (b'{"at":"2026-11-01T00:00:00Z","amounts":{},"stops":{"a":[{"when":"2026-11-01T00:00Z","x":1,"x":2}]}}',):
        assert reason(DEEP, value) == "event"

    class Row(Event, array_like=True):
        at: datetime
        tags: dict[str, str]

    source = Source(topic="t", event=Row, event_time="at")
    assert reason(source, b'["2026-11-01T00:00:00Z",{"a":"x"},{"a":"","a":""}]') == "event"
    assert reason(source, b'["2026-11-01T00:00:00Z",{"a":"x","a":"y"}]') == "repeated_key"


def test_values_of_maps_are_read_as_those_of_fields() -> None:
    value = {
        "at": "2026-11-01T00:00:00.1234567Z",
        "amounts": {"b": 2.675, "a": "1.5"},
        "stops": {"x": [{"when": "2026-11-01T08:00Z", "US Gross": 1}], "at": [{"when": "2026-11-01T00:00:00.9999999Z"}]},
        "times": {"y": "60", "x": None},
        "counts": {"b": {"n": 1}, "a": {}},
    }
    outcome = decoded(DEEP, plain.dumps(value).replace('"n": 1', '"n": 1.0').encode())
    assert outcome.rejects.to_pylist() == []
    (row,) = outcome.events.to_pylist()
    assert row["amounts"] == [("a", Decimal("1.50")), ("b", Decimal("2.68"))]
    assert row["stops"] == [
        ("at", [{"when": AT.replace(microsecond=999_999), "gross": 0.0}]),
        ("x", [{"when": AT.replace(hour=8), "gross": 1.0}]),
    ]
    assert row["times"] == [("x", None), ("y", datetime(1970, 1, 1, 0, 1, tzinfo=UTC))]
    assert row["counts"] == [("a", []), ("b", [("n", 1)])]
    assert row["_rounded"] == 1
    assert row["at"] == AT.replace(microsecond=123_456)


def test_a_text_in_a_map_that_looks_like_a_field_s_time_is_not_cut() -> None:
    class Noted(Event):
        at: datetime
        notes: dict[str, str]

    source = Source(topic="t", event=Noted, event_time="at")
    text = "2026-11-01T00:00:00.1234567Z"
    (row,) = decoded(source, plain.dumps({"at": text, "notes": {"at": text}}).encode()).events.to_pylist()
    assert row["notes"] == [("at", text)]
    assert row["at"] == AT.replace(microsecond=123_456)


SCHEMA = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "at", "type": "string"},
        {"name": "amounts", "type": {"type": "map", "values": "double"}},
        {"name": "unread", "type": {"type": "map", "values": "bytes"}},
        {
            "name": "stops",
            "type": {
                "type": "map",
                "values": {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "Stop",
                        "fields": [
                            {"name": "when", "type": {"type": "long", "logicalType": "timestamp-millis"}},
                            {"name": "hole", "type": ["null", "Stop"]},
                        ],
                    },
                },
            },
        },
        {"name": "counts", "type": ["null", {"type": "map", "values": {"type": "map", "values": "long"}}]},
    ],
}


def avro_value(value: dict[str, Any]) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(SCHEMA), value)
    return stream.getvalue()


@given(
    st.dictionaries(st.text(max_size=3), st.integers(-999, 999).map(lambda n: n / 4), max_size=4),
    st.none()
    | st.dictionaries(st.text(max_size=2), st.dictionaries(st.text(max_size=2), st.integers(-5, 5), max_size=2), max_size=2),
)
def test_an_avro_map_is_what_fastavro_wrote(amounts: dict[str, float], counts: dict[str, dict[str, int]] | None) -> None:
    source = replace(DEEP, decoder=avro(schema=SCHEMA))
    stop = {"when": AT, "hole": {"when": AT, "hole": None}}
    value = {
        "at": "2026-11-01T00:00:00Z",
        "amounts": amounts,
        "unread": {"\ud7ff": b"\xff"},
        "stops": {"s": [stop]},
        "counts": counts,
    }
    (row,) = decoded(source, avro_value(value)).events.to_pylist()
    exact = {key: Decimal(number).quantize(Decimal("0.01")) for key, number in amounts.items()}
    assert row["amounts"] == sorted(exact.items())
    assert row["counts"] == (None if counts is None else sorted((key, sorted(inner.items())) for key, inner in counts.items()))
    assert row["stops"] == [("s", [{"when": AT, "gross": 0.0}])]


class Counted(Event):
    at: datetime
    n: dict[str, int]


FIELDS = [{"name": "at", "type": "string"}, {"name": "n", "type": {"type": "map", "values": "long"}}]
COUNTED = Source(
    topic="t", event=Counted, event_time="at", decoder=avro(schema={"type": "record", "name": "R", "fields": FIELDS})
)


def test_a_key_that_avro_has_twice_rejects_the_record() -> None:
    at = b"\x28" + b"2026-11-01T00:00:00Z"
    assert reason(COUNTED, at + b"\x04" + b"\x02a\x02" + b"\x02b\x04" + b"\x00") == "event"
    assert reason(COUNTED, at + b"\x04" + b"\x02a\x02" + b"\x02a\x02" + b"\x00") == "repeated_key"
    assert reason(COUNTED, at + b"\x02" + b"\x02a\x02" + b"\x02" + b"\x02a\x02" + b"\x00") == "repeated_key", "of two blocks"


def test_of_many_keys_the_first_that_occurs_twice_is_named() -> None:
    """Keys are counted in one pass: a pass for each key of this record would take an hour."""
    names = [f"k{number:06}" for number in range(200_000)]
    twice = [*names, names[-1], names[-2]]
    in_json = "{" + ",".join(f'"{name}":""' for name in twice) + "}"
    places = {
        "unread": b'{"id":1,"at":"2026-11-01T00:00:00Z","tags":{},"more":' + in_json.encode() + b"}",
        "in a map": visit(in_json),
        "declared": visit("{}")[:-1] + b"," + in_json.encode()[1:-1] + b',"id":2}',
    }
    details = {place: decoded(VISITS, value).rejects["detail"].to_pylist() for place, value in places.items()}
    assert details == {
        "unread": [],
        "in a map": [f"key '{names[-2]}' occurs 2 times in the map tags"],
        "declared": ["key 'id' occurs 2 times in one object"],
    }
    entries = b"".join(b"\x0e" + name.encode() + b"\0" for name in twice)
    value = b"\x28" + b"2026-11-01T00:00:00Z" + varint(2 * len(twice)) + entries + b"\0"
    assert decoded(COUNTED, value).rejects["detail"].to_pylist() == [f"field n: key '{names[-2]}' occurs 2 times"]


def varint(number: int) -> bytes:
    return b"" if number == 0 else bytes((number & 0x7F | (0x80 if number >= 0x80 else 0),)) + varint(number >> 7)


def messages() -> tuple[str, Any]:
    file = FileDescriptorProto(name="m.proto", package="m", syntax="proto3")
    spot = file.message_type.add(name="Spot")
    spot.field.add(name="x", number=1, type=FieldDescriptorProto.TYPE_DOUBLE, label=FieldDescriptorProto.LABEL_OPTIONAL)
    message = file.message_type.add(name="M")
    message.field.add(name="at", number=1, type=FieldDescriptorProto.TYPE_STRING, label=FieldDescriptorProto.LABEL_OPTIONAL)
    kinds = {"Tags": FieldDescriptorProto.TYPE_STRING, "Numbers": FieldDescriptorProto.TYPE_STRING, "Spots": None}
    for number, (name, value) in enumerate(kinds.items(), 2):
        entry = message.nested_type.add(name=f"{name}Entry")
        entry.options.map_entry = True
        key = FieldDescriptorProto.TYPE_INT64 if name == "Numbers" else FieldDescriptorProto.TYPE_STRING
        entry.field.add(name="key", number=1, type=key, label=FieldDescriptorProto.LABEL_OPTIONAL)
        if value is None:
            entry.field.add(
                name="value",
                number=2,
                type=FieldDescriptorProto.TYPE_MESSAGE,
                type_name=".m.Spot",
                label=FieldDescriptorProto.LABEL_OPTIONAL,
            )
        else:
            entry.field.add(name="value", number=2, type=value, label=FieldDescriptorProto.LABEL_OPTIONAL)
        message.field.add(
            name=name.lower(),
            number=number,
            type=FieldDescriptorProto.TYPE_MESSAGE,
            type_name=f".m.M.{name}Entry",
            label=FieldDescriptorProto.LABEL_REPEATED,
        )
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    text = base64.b64encode(FileDescriptorSet(file=[file]).SerializeToString()).decode()
    return text, GetMessageClass(pool.FindMessageTypeByName("m.M"))


DESCRIPTOR, MESSAGE = messages()


class Spot(msgspec.Struct):
    x: float


class Sent(Event):
    at: datetime
    tags: dict[str, str]
    spots: dict[str, Spot]


def test_a_map_of_protocol_buffers_is_a_map() -> None:
    source = Source(topic="t", event=Sent, event_time="at", decoder=protobuf(descriptor=DESCRIPTOR, message="m.M"))
    message = MESSAGE(at="2026-11-01T00:00:00Z", tags={"b": "x", "a": ""}, spots={"s": {"x": 1.5}})
    (row,) = decoded(source, message.SerializeToString()).events.to_pylist()
    assert (row["tags"], row["spots"]) == ([("a", ""), ("b", "x")], [("s", {"x": 1.5})])
    (row,) = decoded(source, MESSAGE(at="2026-11-01T00:00:00Z").SerializeToString()).events.to_pylist()
    assert (row["tags"], row["spots"]) == ([], [])

    class Wrong(Event):
        at: datetime
        numbers: dict[str, str]

    class Listed(Event):
        at: datetime
        tags: list[str]

    for event, match in ((Wrong, "keys that are integer; a map's keys are texts"), (Listed, "repeated m.M.TagsEntry")):
        with pytest.raises(DefinitionError, match=match):
            parser(event, protobuf(descriptor=DESCRIPTOR, message="m.M"))


class Tags(Event):
    tags: dict[str, str]


@pytest.mark.parametrize("decoder", [csv(columns=("tags",)), nginx_json(), apache(format="%h"), apache(format="%{tags}n")])
def test_formats_of_texts_refuse_maps(decoder: Any) -> None:
    class Client(Event):
        host: dict[str, str]

    event = Client if "%h" in str(decoder) else Tags
    with pytest.raises(DefinitionError):
        parser(event, decoder)


def function(value: bytes) -> Visit:
    return Visit(1, AT, plain.loads(value))


def test_a_decoder_function_returns_a_dict() -> None:
    source = replace(VISITS, decoder=function)
    outcome = decoded(source, b'{"b":"x","a":"y"}', b'{"a":1}', b"[]")
    assert outcome.events["tags"].to_pylist() == [[("a", "y"), ("b", "x")]]
    assert outcome.rejects["reason"].to_pylist() == ["wrong_type", "wrong_type"]


def test_what_is_no_map_of_texts_is_refused() -> None:
    class Numbered(Event):
        m: dict[int, str]

    class Bare(Event):
        m: dict

    class Odd(Event):
        m: dict[str, object]

    for event, match in ((Numbered, "keys of a map are texts"), (Bare, "declares what it holds"), (Odd, "is not supported")):
        with pytest.raises(DefinitionError, match=match):
            event_fields(event)
    with pytest.raises(DefinitionError, match="cannot identify events"):
        Source(topic="t", event=Visit, event_time="at", identity=("tags",))


@pytest.mark.parametrize("text", ["tags", "map_from_entries(map_entries(tags))"])
def test_a_map_is_no_key_of_a_view(text: str) -> None:
    with pytest.raises(DefinitionError, match=r"take the value of a key, m\['key'\]"):
        state_schema(View(VISITS, keys={"tags": text}, measures={"n": count()}))


@given(st.lists(st.dictionaries(st.sampled_from(["city", "b", ""]), st.text(max_size=2), max_size=3), min_size=1, max_size=5))
def test_expressions_read_maps_as_python_does(logged: list[dict[str, str]]) -> None:
    view = View(
        VISITS,
        keys={"city": "tags['city']"},
        measures={
            "n": count(),
            "entries": total("cardinality(tags)"),
            "keys": maximum("array_to_string(map_keys(tags), ',')"),
            "with_b": count(filter="map_contains(tags, 'b')"),
        },
    )
    expected: dict[str | None, list[dict[str, str]]] = {}
    for tags in logged:
        expected.setdefault(tags.get("city"), []).append(tags)
    rows = {row["city"]: row for row in answer(view, [Visit(number, AT, tags) for number, tags in enumerate(logged)])}
    assert {city: (row["n"], row["entries"], row["keys"], row["with_b"]) for city, row in rows.items()} == {
        city: (len(some), sum(map(len, some)), max(",".join(sorted(one)) for one in some), sum("b" in one for one in some))
        for city, some in expected.items()
    }


def test_the_meaning_of_a_map_is_that_of_its_values() -> None:
    def meaning(annotation: Any, key: str = "m") -> Any:
        return event_meaning(msgspec.defstruct("E", [(key, annotation)], bases=(Event,))).parts["fields"].parts[key]

    texts = [meaning(kind).text for kind in (dict[str, int], list[int], dict[str, int | None])]
    assert texts == ["dict[str, int]", "list[int]", "dict[str, int | None]"]
    kinds = [dict[str, int], list[int], dict[str, str], dict[str, int | None], dict[str, int] | None]
    assert len({repr((meaning(kind).value, meaning(kind).parts)) for kind in kinds}) == len(kinds)


def test_a_map_may_widen_and_not_narrow() -> None:
    def typed(annotation: Any) -> Any:
        return msgspec.defstruct("E", [("m", annotation)], bases=(Event,))

    assert [*differences(typed(dict[str, int]), typed(dict[str, float | None] | None))] == []
    for before, after in ((dict[str, int | None], dict[str, int]), (dict[str, int], list[int]), (list[int], dict[str, int])):
        assert [*differences(typed(before), typed(after))] != []


@given(events(DEEP))
def test_random_events_have_maps(event: Any) -> None:
    for field in event_fields(Deep):
        read = column(field, [getattr(event, field.name)])
        assert read.type == field.arrow
    assert pa.types.is_map(event_fields(Deep)[1].arrow)


def test_a_value_that_no_column_holds_rejects_the_record() -> None:
    def value(n: str) -> bytes:
        return f'{{"at":"2026-11-01T00:00:00Z","amounts":{{"a":{n}}},"stops":{{}}}}'.encode()

    assert reason(DEEP, value("1e40")) == "out_of_range"
    with pytest.raises(Reject):
        parser(Deep, json())(value('"x"'))
