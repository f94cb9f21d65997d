"""A list or map of a record, one event for each item: the oracle is Python's own reading of the record."""

import json as plain
import tracemalloc
from dataclasses import replace
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import fastavro
import msgspec
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st

from tandem import Event, Source, Version, View, avro, count, csv, entries, json, protobuf, total
from tandem.cli.records.file_values import file_values
from tandem.views.decode.value_parsers import parser
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint
from tandem.views.kernel.deduplicate import deduplicate
from tandem.views.kernel.kernel import partial, prepare, present
from tandem.views.oracle import duplicates as plain_duplicates
from tandem.views.source.offset_ranges import EMPTY
from tests.views.logged import decoded

AT = datetime(2026, 11, 1, tzinfo=UTC)
MOST = 4


class Item(msgspec.Struct):
    sku: str
    n: int


class Line(Event):
    id: int
    at: datetime
    items: Item | None


class Tag(msgspec.Struct):
    key: str
    value: int


class Tagged(Event):
    id: int
    at: datetime
    tags: Tag


class Text(Event):
    at: datetime
    words: str


LINES = Source(topic="t", event=Line, event_time="at", identity=("id",), unnest="items", max_events_per_record=MOST)
TAGS = Source(topic="t", event=Tagged, event_time="at", identity=("id",), unnest=entries("tags"), max_events_per_record=MOST)

SCHEMA = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": "string"},
        {
            "name": "items",
            "type": {
                "type": "array",
                "items": [
                    "null",
                    {
                        "type": "record",
                        "name": "I",
                        "fields": [{"name": "sku", "type": "string"}, {"name": "n", "type": ["null", "long"]}],
                    },
                ],
            },
        },
        {"name": "tags", "type": {"type": "map", "values": "long"}},
    ],
}


def avro_value(record: dict[str, Any]) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(SCHEMA), {"items": [], "tags": {}, **record})
    return stream.getvalue()


def in_json(record: dict[str, Any]) -> bytes:
    return plain.dumps(record).encode()


FORMATS: dict[str, tuple[Any, Any]] = {"json": (json(), in_json), "avro": (avro(schema=SCHEMA), avro_value)}
ITEMS = st.lists(
    st.none() | st.fixed_dictionaries({"sku": st.text(max_size=3), "n": st.none() | st.integers(-9, 9)}), max_size=MOST + 1
)
RECORDS = st.lists(ITEMS, min_size=1, max_size=4)


def order(number: int, items: Any, name: str = "items") -> dict[str, Any]:
    return {"id": number, "at": "2026-11-01T00:00:00Z", name: items}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("rule", ["event", "record"])
@given(RECORDS)
def test_each_item_is_an_event(name: str, rule: Literal["event", "record"], logged: list[Any]) -> None:
    """An item without a number is rejected alone, or with its record; no items, and more than the most, reject the record."""
    decoder, write = FORMATS[name]
    source = replace(LINES, decoder=decoder, on_bad_event=rule)
    outcome = decoded(source, *(write(order(number, items)) for number, items in enumerate(logged)))
    events, rejects = [], []
    for number, items in enumerate(logged):
        wrong = [index for index, item in enumerate(items) if item is not None and item["n"] is None]
        if not 1 <= len(items) <= MOST:
            rejects.append((number, "length"))
        elif wrong and rule == "record":
            rejects.append((number, "wrong_type"))
        else:
            rejects += [(number, "wrong_type") for _ in wrong]
            events += [(number, index, item) for index, item in enumerate(items) if index not in wrong]
    read = outcome.events.to_pylist()
    assert [(row["_offset"], row["_index"], row["items"]) for row in read] == events
    assert [(row["id"], row["at"]) for row in read] == [(number, AT) for number, _, _ in events]
    assert [(row["offset"], row["reason"]) for row in outcome.rejects.to_pylist()] == rejects


@pytest.mark.parametrize("name", FORMATS)
@given(st.dictionaries(st.text(max_size=3), st.integers(-9, 9), min_size=1, max_size=MOST))
def test_each_entry_of_a_map_is_an_event(name: str, tags: dict[str, int]) -> None:
    decoder, write = FORMATS[name]
    read = decoded(replace(TAGS, decoder=decoder), write(order(7, tags, "tags"))).events.to_pylist()
    assert [(row["_index"], row["tags"]) for row in read] == [
        (index, {"key": key, "value": value}) for index, (key, value) in enumerate(sorted(tags.items()))
    ]


def test_items_of_any_type_are_events() -> None:
    source = Source(topic="t", event=Text, event_time="at", unnest="words", max_events_per_record=9)
    outcome = decoded(
        source, b'{"at":"2026-11-01T00:00:00.1234567Z","words":["a","b","a"]}', b'{"at":"2026-11-01T00:00Z","words":["a",1]}'
    )
    assert [(row["_index"], row["words"]) for row in outcome.events.to_pylist()] == [(0, "a"), (1, "b"), (2, "a"), (0, "a")]
    (reject,) = outcome.rejects.to_pylist()
    assert (reject["index"], reject["reason"]) == (1, "wrong_type")
    assert reject["first_bytes"] == b'{"at":"2026-11-01T00:00Z","words":1}', "the row of this event alone"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b'{"id":1,"at":"2026-11-01T00:00:00Z"}', "missing_field"),
        (b'{"id":1,"at":"2026-11-01T00:00:00Z","items":null}', "length"),
        (b'{"id":1,"at":"2026-11-01T00:00:00Z","items":{}}', "wrong_type"),
        (b'{"id":1,"at":"2026-11-01T00:00:00Z","items":[null],"items":[]}', "repeated_key"),
        (b'{"id":1,"id":2,"at":"2026-11-01T00:00:00Z","items":[null]}', "repeated_key"),
        (b'{"id":1,"i\\u0064":2,"at":"2026-11-01T00:00:00Z","items":[null]}', "repeated_key"),
        (b'[{"id":1}]', "wrong_type"),
        (b'{"id":1', "json"),
        (b"\xff", "utf8"),
    ],
)
def test_a_record_without_a_list_is_rejected_whole(value: bytes, why: str) -> None:
    outcome = decoded(LINES, value)
    assert outcome.events.num_rows == 0
    assert outcome.rejects["reason"].to_pylist() == [why]
    assert outcome.rejects["index"].to_pylist() == [None]


@pytest.mark.parametrize(("name", "items"), [("json", 2_000), ("avro", 250_000)])
@pytest.mark.parametrize("rule", ["event", "record"])
def test_a_record_of_too_many_items_costs_little_memory(name: str, items: int, rule: Literal["event", "record"]) -> None:
    """The rest of the record is repeated for no item before they are counted, and what no field takes never."""
    decoder, write = FORMATS[name]
    source = replace(LINES, decoder=decoder, on_bad_event=rule)
    note = {} if name == "avro" else {"note": "x" * 100_000}
    value = write({**order(1, [None] * items), **note})
    few = write({**order(2, [None] * MOST), **note})
    decoded(source, few)  # what is imported and kept for the next records does not count
    tracemalloc.start()
    try:
        outcome = decoded(source, value, few)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    (reject,) = outcome.rejects.to_pylist()
    assert (reject["reason"], reject["detail"]) == ("length", f"{items} events in one value; it holds 1 to {MOST}")
    assert outcome.events["_index"].to_pylist() == list(range(MOST))
    assert peak < 20_000_000


def test_an_event_type_that_forbids_other_members_refuses_them() -> None:
    class Closed(Event, forbid_unknown_fields=True):
        at: datetime
        words: str

    source = Source(topic="t", event=Closed, event_time="at", unnest="words", max_events_per_record=9)
    outcome = decoded(
        source, b'{"at":"2026-11-01T00:00:00Z","words":["a"]}', b'{"at":"2026-11-01T00:00:00Z","words":["a"],"x":1}'
    )
    assert outcome.events["words"].to_pylist() == ["a"]
    assert ["`x`" in detail for detail in outcome.rejects["detail"].to_pylist()] == [True]


def test_a_rejected_item_is_shown_with_what_fields_take() -> None:
    source = Source(topic="t", event=Text, event_time="at", unnest="words", max_events_per_record=9)
    outcome = decoded(source, b'{"note":"long","at":"2026-11-01T00:00Z","words":["a",1]}')
    assert outcome.rejects["first_bytes"].to_pylist() == [b'{"at":"2026-11-01T00:00Z","words":1}']


def test_a_key_that_a_map_has_twice_rejects_the_record() -> None:
    value = b'{"id":1,"at":"2026-11-01T00:00:00Z","tags":{"a":1,"b":2,"a":3}}'
    assert decoded(TAGS, value).rejects["reason"].to_pylist() == ["repeated_key"]


def test_the_items_of_a_record_are_no_duplicates_and_a_copy_of_it_is() -> None:
    items = [{"sku": "a", "n": 1}, {"sku": "a", "n": 1}, None]
    log = decoded(LINES, in_json(order(1, items)), in_json(order(2, items)), in_json(order(1, items))).events
    unique = deduplicate(LINES, log)
    assert (unique.events.num_rows, unique.duplicates, unique.conflicts) == (6, 3, 0)
    firsts = plain_duplicates.first_places(LINES, [log], ())
    assert plain_duplicates.counted(LINES, log, firsts, ()).num_rows == 6


@given(RECORDS)
def test_views_count_items(logged: list[Any]) -> None:
    view = View(LINES, keys={"sku": "items.sku"}, measures={"events": count(), "n": total("items.n")})
    log = decoded(LINES, *(in_json(order(number, items)) for number, items in enumerate(logged))).events
    prepared = prepare(LINES, log)
    rows = present(view, partial(view, prepared.events, EMPTY)).to_pylist()
    expected: dict[Any, list[int | None]] = {}
    for items in logged:
        for item in items if 1 <= len(items) <= MOST else []:
            if item is None or item["n"] is not None:
                expected.setdefault(item and item["sku"], []).append(item and item["n"])
    found = {row["sku"]: (row["events"], row["n"]) for row in rows}
    assert found == {
        sku: (len(numbers), sum(n for n in numbers if n is not None) if any(n is not None for n in numbers) else None)
        for sku, numbers in expected.items()
    }


class OldItem(msgspec.Struct):
    sku: str
    number: int


class OldLine(Event):
    id: int
    at: datetime
    items: OldItem


def upgrade(old: OldLine) -> Line:
    return Line(old.id, old.at, Item(old.items.sku, old.items.number))


def test_items_of_earlier_versions_are_upgraded_alone() -> None:
    source = replace(LINES, versions=(Version(OldLine, upgrade),))
    items = [{"sku": "a", "n": 1}, {"sku": "b", "number": 2}, {"sku": "c"}]
    outcome = decoded(source, in_json(order(1, items)))
    assert outcome.events["items"].to_pylist() == [{"sku": "a", "n": 1}, {"sku": "b", "n": 2}]
    assert outcome.rejects["index"].to_pylist() == [2]


def messages() -> tuple[bytes, Any]:
    file = FileDescriptorProto(name="u.proto", package="u", syntax="proto3")
    item = file.message_type.add(name="Item")
    one, many = FieldDescriptorProto.LABEL_OPTIONAL, FieldDescriptorProto.LABEL_REPEATED
    item.field.add(name="sku", number=1, type=FieldDescriptorProto.TYPE_STRING, label=one)
    item.field.add(name="n", number=2, type=FieldDescriptorProto.TYPE_INT64, label=one)
    record = file.message_type.add(name="R")
    record.field.add(name="id", number=1, type=FieldDescriptorProto.TYPE_INT64, label=one)
    record.field.add(name="at", number=2, type=FieldDescriptorProto.TYPE_STRING, label=one)
    record.field.add(name="items", number=3, type=FieldDescriptorProto.TYPE_MESSAGE, type_name=".u.Item", label=many)
    entry = record.nested_type.add(name="TagsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=FieldDescriptorProto.TYPE_STRING, label=one)
    entry.field.add(name="value", number=2, type=FieldDescriptorProto.TYPE_INT64, label=one)
    record.field.add(name="tags", number=4, type=FieldDescriptorProto.TYPE_MESSAGE, type_name=".u.R.TagsEntry", label=many)
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return FileDescriptorSet(file=[file]).SerializeToString(), GetMessageClass(pool.FindMessageTypeByName("u.R"))


def test_repeated_messages_and_maps_of_protocol_buffers_are_events() -> None:
    descriptor, record = messages()
    decoder = protobuf(descriptor=descriptor, message="u.R")
    value = record(id=1, at="2026-11-01T00:00:00Z", items=[{"sku": "a", "n": 1}, {"sku": "b"}], tags={"x": 5}).SerializeToString()
    lines = decoded(replace(LINES, decoder=decoder), value).events
    assert lines["items"].to_pylist() == [{"sku": "a", "n": 1}, {"sku": "b", "n": 0}]
    assert decoded(replace(TAGS, decoder=decoder), value).events["tags"].to_pylist() == [{"key": "x", "value": 5}]
    empty = record(id=1, at="2026-11-01T00:00:00Z").SerializeToString()
    assert decoded(replace(LINES, decoder=decoder), empty).rejects["reason"].to_pylist() == ["length"]


def listing(value: bytes) -> list[Line]:
    return [Line(1, AT, None)]


def test_what_does_not_fit_is_refused_with_a_sentence() -> None:
    for changes, match in (
        ({"unnest": "item"}, "no field 'item' in Line; fields: "),
        ({"max_events_per_record": None}, "say how many at most"),
        ({"unnest": entries("items")}, "an entry of a map is a struct"),
        ({"unnest": 1}, "neither the name of a field"),
    ):
        with pytest.raises(DefinitionError, match=match):
            replace(LINES, **changes)
    refused: list[tuple[Any, str]] = [(csv(columns=("id",)), "cannot unnest"), (listing, "returns the list of events itself")]
    for decoder, match in refused:
        with pytest.raises(DefinitionError, match=match):
            parser(Line, decoder, MOST, unnest="items")
    with pytest.raises(DefinitionError, match="has this field as map"):
        parser(
            Line,
            avro(
                schema={**SCHEMA, "fields": [*SCHEMA["fields"][:2], {"name": "items", "type": {"type": "map", "values": "long"}}]}
            ),
            MOST,
            unnest="items",
        )


def test_the_field_is_a_part_of_the_fingerprint() -> None:
    plain_lists = Source(topic="t", event=Line, event_time="at", max_events_per_record=MOST)
    prints = {decoder_fingerprint(source) for source in (plain_lists, replace(plain_lists, unnest="items"), LINES)}
    assert len(prints) == 2


@given(
    st.binary(max_size=40)
    | st.sampled_from([b'{"items":[', b'{"items":[1]}', b'{"items":[{}]', b"[]", b"null", b'{"items":{"a":1}}'])
)
def test_any_bytes_have_exactly_one_outcome(value: bytes) -> None:
    for name in FORMATS:
        for source in (LINES, TAGS):
            outcome = decoded(replace(source, decoder=FORMATS[name][0]), value)
            assert outcome.events.num_rows + outcome.rejects.num_rows >= 1
            assert "refused" not in outcome.rejects["reason"].to_pylist()


def test_feed_sends_a_line_as_one_record(tmp_path: Path) -> None:
    """Values are not put together in an array, as those of a source whose values hold lists are."""
    lines = [in_json(order(1, [None])), in_json(order(2, [None]))]
    for text in (b"\n".join(lines), b"[" + b",".join(lines) + b"]"):
        file = tmp_path / "orders.json"
        file.write_bytes(text)
        with file_values(LINES, file) as values:
            assert [value.value for value in values] == lines
