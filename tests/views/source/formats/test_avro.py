"""Avro: records of schemas that the project holds, with and without a registry's frame."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from io import BytesIO
from typing import Annotated, Any
from uuid import UUID

import fastavro
import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tandem import Event, Scale, Source, avro
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint
from tests.views.logged import decoded, reason


class Colour(Enum):
    RED = "RED"
    BLUE = "BLUE"


class Spot(msgspec.Struct):
    x: float
    name: str | None = None


class Order(Event):
    at: datetime
    n: int
    price: Annotated[Decimal, Scale(2)]
    colour: Colour
    key: UUID
    day: date
    raw: bytes
    ok: bool
    f: float
    tags: list[str]
    spot: Spot | None
    spots: list[Spot]
    note: str | None = "none"


ORDER: dict[str, Any] = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "ignored", "type": {"type": "map", "values": "long"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "n", "type": "long"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}},
        {"name": "colour", "type": {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE", "GREEN"]}},
        {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "raw", "type": "bytes"},
        {"name": "ok", "type": "boolean"},
        {"name": "f", "type": "float"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {
            "name": "spot",
            "type": ["null", {"type": "record", "name": "Spot", "fields": [{"name": "x", "type": "double"}]}],
            "default": None,
        },
        {"name": "spots", "type": {"type": "array", "items": "Spot"}},
    ],
}
WITH_NOTE = ORDER | {"fields": [*ORDER["fields"][1:], {"name": "note", "type": ["null", "string"]}]}
GOOD: dict[str, Any] = {
    "ignored": {"a": 1},
    "at": datetime(2026, 11, 1, tzinfo=UTC),
    "n": 5,
    "price": Decimal("12.30"),
    "colour": "BLUE",
    "key": UUID(int=7),
    "day": date(2026, 11, 1),
    "raw": b"\x00\xff",
    "ok": True,
    "f": 1.5,
    "tags": ["a", ""],
    "spot": {"x": 2.0},
    "spots": [{"x": 1.0}],
}
BARE = Source(topic="t", event=Order, event_time="at", decoder=avro(schema=ORDER))
FRAMED = Source(topic="t", event=Order, event_time="at", decoder=avro(schemas={7: ORDER, 2**32 - 1: WITH_NOTE}))


def written(schema: Any = ORDER, **changes: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), GOOD | changes)
    return out.getvalue()


def framed(number: int, value: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + value


def event(source: Source, value: bytes) -> dict[str, Any]:
    found = decoded(source, value)
    (one,) = found.events.to_pylist() or found.rejects.to_pylist()
    return {name: field for name, field in one.items() if not name.startswith("_")}


def test_a_record_becomes_the_fields_that_the_event_type_names() -> None:
    expected = {name: value for name, value in GOOD.items() if name != "ignored"} | {"note": "none", "key": str(UUID(int=7))}
    expected |= {"spot": {"x": 2.0, "name": None}, "spots": [{"x": 1.0, "name": None}]}
    assert event(BARE, written()) == expected
    assert event(BARE, written(spot=None))["spot"] is None


def test_each_id_is_read_by_its_own_schema_into_one_event_type() -> None:
    """What the older schema lacks has the event type's default."""
    assert event(FRAMED, framed(7, written()))["note"] == "none"
    assert event(FRAMED, framed(2**32 - 1, written(WITH_NOTE, note="new")))["note"] == "new"
    assert event(FRAMED, framed(2**32 - 1, written(WITH_NOTE, note=None)))["note"] is None


@pytest.mark.parametrize(
    ("source", "value", "expected"),
    [
        (FRAMED, framed(8, written()), "schema"),
        (FRAMED, written(), "format"),
        (FRAMED, b"\0\0\0", "format"),
        (FRAMED, framed(7, b""), "format"),
        (BARE, written() + b"\0", "format"),
        (BARE, written()[:-1], "format"),
        (BARE, b"\xff" * 60, "out_of_range"),
        (BARE, written(tags=["é"]).replace("é".encode(), b"\xff\xff"), "utf8"),
        (BARE, written(colour="GREEN"), "invalid_value"),
        (BARE, written(at=datetime(1990, 1, 1, tzinfo=UTC)), "implausible_time"),
        (BARE, written(f=float("inf")), "out_of_range"),
        (BARE, written(price=Decimal(10**18)), "event"),
    ],
    ids=lambda given: str(given)[:40],
)
def test_what_is_not_a_record_of_its_schema_goes_to_quarantine(source: Source, value: bytes, expected: str) -> None:
    assert reason(source, value) == expected


def test_a_time_beyond_the_calendar_is_out_of_range() -> None:
    far = [one | {"type": "long"} if one["name"] == "at" else one for one in ORDER["fields"]]
    assert reason(BARE, written(ORDER | {"fields": far}, at=2**62)) == "out_of_range"


VALUES = st.fixed_dictionaries(
    {
        "n": st.integers(-(2**63), 2**63 - 1),
        "at": st.datetimes(datetime(2000, 1, 1), datetime(2099, 1, 1)).map(lambda at: at.replace(tzinfo=UTC)),  # noqa: DTZ001
        "price": st.decimals(-(10**17), 10**17, places=2),
        "raw": st.binary(max_size=8),
        "tags": st.lists(st.text(max_size=4), max_size=4),
        "ok": st.booleans(),
        "day": st.dates(),
        "key": st.uuids(),
    }
)


@given(VALUES)
def test_what_a_writer_writes_is_read_back(values: dict[str, Any]) -> None:
    found = event(FRAMED, framed(7, written(**values)))
    assert {name: found[name] for name in values} == values | {"key": str(values["key"])}


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": type_} for name, type_ in fields]}


TIME = {"type": "long", "logicalType": "timestamp-millis"}


class Small(Event):
    at: datetime
    n: int


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        (record(("at", TIME)), "Small.n: the schema has no field 'n'; fields: at"),
        (record(("at", TIME), ("n", "string")), "Small.n: the schema has this field as string"),
        (record(("at", TIME), ("n", ["bytes", "string"])), "this field as bytes"),
        (record(("at", TIME), ("n", "null")), "this field as null"),
        (record(("at", "long"), ("n", "int")), "Small.at: the schema has this field as long"),
        (record(("at", {"type": "long", "logicalType": "local-timestamp-millis"}), ("n", "int")), "as local-timestamp-millis"),
    ],
)
def test_a_schema_that_does_not_give_what_the_event_type_needs_is_refused(schema: Any, says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        avro(schema=schema).parser(Small)


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({}, "give either"),
        ({"schema": ORDER, "schemas": {1: ORDER}}, "give either"),
        ({"schemas": {}}, "by the registry's ids"),
        ({"schemas": {"1": ORDER}}, "by the registry's ids"),
        ({"schema": "{"}, "is not an Avro schema"),
        ({"schema": {"type": "record"}}, "is not an Avro schema"),
        ({"schema": '"string"'}, "is not a record"),
        ({"schema": record(("next", "R"))}, "every R contains itself"),
        ({"schema": record(("n", "long"), ("n", "string"))}, "record R has two fields 'n'"),
    ],
)
def test_schemas_that_mean_nothing_or_have_no_bound_are_refused(parameters: dict[str, Any], says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        avro(**parameters)


class Only(Event):
    """Its time alone."""

    at: datetime


def test_a_schema_of_many_paths_is_read_at_once() -> None:
    """Each record has the one before twice: 2**60 paths lead to the first; and a number of bytes to which no power is raised."""
    schema: dict[str, Any] = {"type": "record", "name": "R0", "fields": [{"name": "x", "type": "null"}]}
    for n in range(1, 60):
        fields = [{"name": "a", "type": schema}, {"name": "b", "type": f"R{n - 1}"}]
        schema = {"type": "record", "name": f"R{n}", "fields": fields}
    held: dict[str, Any] = {"type": "array", "items": schema}
    huge = {"type": "fixed", "name": "Huge", "size": 10**13, "logicalType": "decimal", "precision": 10**12, "scale": 0}
    decoder = avro(schema=record(("at", "string"), ("rest", held), ("other", ["null", huge])))
    source = Source(topic="t", event=Only, event_time="at", decoder=decoder)
    text = b"2026-11-01T00:00:00Z"
    (event,) = decoded(source, bytes([2 * len(text)]) + text + b"\x06\x00\x00").events.to_pylist()
    assert event["at"] == datetime(2026, 11, 1, tzinfo=UTC)


def test_the_schemas_are_part_of_the_fingerprint_and_their_documentation_is_not() -> None:
    def of(schema: Any) -> str:
        return decoder_fingerprint(Source(topic="t", event=Order, event_time="at", decoder=avro(schema=schema)))

    assert of(ORDER) == of(ORDER | {"doc": "orders"}) == decoder_fingerprint(BARE)
    assert of(ORDER) == of(msgspec.json.encode(ORDER).decode())
    assert of(WITH_NOTE) != of(ORDER)


def test_times_of_either_unit_are_exact() -> None:
    """Milliseconds and microseconds, before and after 1970."""
    source = Source(topic="t", event=Small, event_time="at", decoder=avro(schema=record(("at", TIME), ("n", "int"))))
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(record(("at", "long"), ("n", "int"))), {"at": 10**12 + 1, "n": 1})
    assert event(source, out.getvalue())["at"] == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=10**12 + 1)


def number(bits: int, length: int) -> bytes:
    """A varint of so many bytes."""
    return bytes((bits >> 7 * place) & 0x7F | (0x80 if place < length - 1 else 0) for place in range(length))


@pytest.mark.parametrize(
    ("bits", "length", "expected"),
    [
        (2**64 - 1, 10, -(2**63)),
        (2**64 - 2, 10, 2**63 - 1),
        (2, 10, 1),
        (2**64, 10, None),
        (2**69, 10, None),
        (2, 11, None),
        (2**70, 11, None),
        (2, 5000, None),
    ],
)
def test_a_number_of_more_than_64_bits_is_refused(bits: int, length: int, expected: int | None) -> None:
    """fastavro would cut it; wherever in the value it stands, and whatever else looks like one."""
    fields = record(("at", TIME), ("text", "string"), ("more", {"type": "map", "values": ["null", "long"]}), ("n", "long"))
    source = Source(topic="t", event=Small, event_time="at", decoder=avro(schema=fields))
    text = "\uffff".encode() * 10
    head = number(2 * 1_793_491_200_000, 6) + number(2 * len(text), 1) + text
    more = number(1, 1) + number(2 * 4, 1) + number(2, 1) + b"k" + number(2, 1) + number(6, 1) + number(0, 1)
    value = head + more + number(bits, length)
    if expected is None:
        assert reason(source, value) == "out_of_range"
        assert reason(source, head + more[:-3] + number(2, 1) + number(bits, length) + number(0, 1) + b"\2") == "out_of_range"
    else:
        assert event(source, value)["n"] == expected


BEFORE: list[tuple[Any, list[Any]]] = [
    ("null", [None]),
    ("boolean", [True, False]),
    ("int", [0, -1, 2**31 - 1]),
    ("float", [1.5]),
    ("double", [-1.5, 0.1]),
    ("bytes", [b"", b"\xff" * 12]),
    ("string", ["", "\uffff" * 10]),
    ({"type": "fixed", "name": "F", "size": 3}, [b"\xff\xff\xff"]),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, ["B"]),
    ({"type": "array", "items": "boolean"}, [[], [True, False, True]]),
    ({"type": "map", "values": "double"}, [{}, {"\uffff": 1.5, "b": 2.5}]),
    (["null", "float", "string"], [None, 1.5, "\uffff"]),
    (
        {"type": "record", "name": "Q", "fields": [{"name": "x", "type": "boolean"}, {"name": "y", "type": "float"}]},
        [{"x": True, "y": 1}],
    ),
]


@given(
    st.lists(st.sampled_from(BEFORE), max_size=4, unique_by=lambda one: str(one[0])),
    st.sampled_from([(2**64 - 1, 10), (2, 1), (2**64, 10), (2, 11)]),
    st.data(),
)
@example(BEFORE[:4], (2**64, 10), None)
@example(BEFORE[4:9], (2**64, 10), None)
@example(BEFORE[9:], (2**64, 10), None)
@example(BEFORE[:4], (2**64 - 1, 10), None)
@example(BEFORE[4:9], (2**64 - 1, 10), None)
@example(BEFORE[9:], (2**64 - 1, 10), None)
def test_it_is_refused_behind_values_of_every_type(
    before: list[tuple[Any, list[Any]]], last: tuple[int, int], data: st.DataObject | None
) -> None:
    """And a number that fits is not, though bytes before it look like one that does not."""
    fields = [(f"f{place}", type_) for place, (type_, _) in enumerate(before)]
    values = [choices[-1] if data is None else data.draw(st.sampled_from(choices)) for _, choices in before]
    schema = record(("at", TIME), ("text", "bytes"), *fields, ("n", "long"))
    out = BytesIO()
    head = {
        "at": datetime(2026, 11, 1, tzinfo=UTC),
        "text": b"\xff" * 12,
        **{name: one for (name, _), one in zip(fields, values, strict=True)},
    }
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), head | {"n": 0})
    value = out.getvalue()[:-1] + number(*last)
    source = Source(topic="t", event=Small, event_time="at", decoder=avro(schema=schema))
    if last in ((2**64, 10), (2, 11)):
        assert reason(source, value) == "out_of_range"
    else:
        assert event(source, value)["n"] == (-(2**63) if last[1] == 10 else 1)


class Paid(msgspec.Struct):
    amount: Annotated[Decimal, Scale(2)]


class Payment(Event):
    at: datetime
    amount: Annotated[Decimal, Scale(2)]
    fee: Annotated[Decimal, Scale(2)] | None
    parts: list[Annotated[Decimal, Scale(2)]]
    paid: Paid


SHORT = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
FIXED = {"type": "fixed", "name": "Fee", "size": 12, "logicalType": "decimal", "precision": 4, "scale": 2}
PAYMENT = record(
    ("at", TIME),
    ("amount", SHORT),
    ("fee", ["null", FIXED]),
    ("parts", {"type": "array", "items": SHORT}),
    ("paid", {**record(("amount", SHORT)), "name": "Paid"}),
)


def bare(schema: Any) -> Any:
    """The schema without logical types: what a writer writes that checks no precision."""
    if isinstance(schema, list):
        return [bare(one) for one in schema]
    if isinstance(schema, dict):
        return {name: bare(value) for name, value in schema.items() if name != "logicalType"}
    return schema


@given(st.lists(st.integers(-(10**24), 10**24), min_size=4, max_size=6))
@example([123456, -123456, 99995, -5])
def test_decimals_have_all_their_digits(unscaled: list[int]) -> None:
    """More digits than the schema's precision are not rounded: Java's reader returns them, too."""
    written_as = [one.to_bytes(12, "big", signed=True) for one in unscaled]
    stream = BytesIO()
    amount, fee, paid, *parts = written_as
    values = {"at": 0, "amount": amount, "fee": fee, "parts": parts, "paid": {"amount": paid}}
    fastavro.schemaless_writer(stream, fastavro.parse_schema(bare(PAYMENT)), values)
    found = avro(schema=PAYMENT).parser(Payment)(stream.getvalue())
    read = [found.amount, found.fee, found.paid.amount, *found.parts]
    assert [(one * 100).as_integer_ratio() for one in map(Fraction, read)] == [(one, 1) for one in unscaled]


def test_a_decimal_of_thousands_of_digits_is_out_of_range() -> None:
    schema = record(("at", TIME), ("amount", SHORT))
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(bare(schema)), {"at": 0, "amount": b"\x01" * 3000})

    class Amount(Event):
        at: datetime
        amount: Annotated[Decimal, Scale(2)]

    assert (
        reason(Source(topic="t", event=Amount, event_time="at", decoder=avro(schema=schema)), stream.getvalue()) == "out_of_range"
    )


CHAIN = {
    "type": "record",
    "name": "Chain",
    "fields": [{"name": "n", "type": "long"}, {"name": "next", "type": ["null", "Chain"]}],
}
FOREST = {
    "type": "record",
    "name": "Tree",
    "fields": [
        {"name": "of", "type": {"type": "array", "items": "Tree"}},
        {"name": "by", "type": {"type": "map", "values": "Tree"}},
    ],
}
UNREAD: list[tuple[Any, list[bytes]]] = [
    ({"type": "int", "logicalType": "date"}, [number(2 * (2**31 - 1), 5), number(2**32 - 1, 5)]),
    ({"type": "int", "logicalType": "time-millis"}, [number(2 * 86_400_000, 4), number(1, 1)]),
    ({"type": "long", "logicalType": "timestamp-millis"}, [number(2**64 - 1, 10), number(2**63 + 1, 10)]),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, [number(2**64 - 2, 10)]),
    ({"type": "string", "logicalType": "uuid"}, [b"\0", b"\2x"]),
    ("string", [b"\2\xff", b"\x06\xed\xa0\x80"]),
    ({"type": "bytes", "logicalType": "decimal"}, [b"\2x", b"\0"]),
    ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 5}, [b"\2x"]),
    ({"type": "bytes", "logicalType": "decimal", "precision": -1}, [b"\2x"]),
    ({"type": "fixed", "name": "Fee", "size": 2, "logicalType": "decimal", "precision": 99}, [b"ab"]),
    ({"type": "string", "logicalType": "unheard-of"}, [b"\2x"]),
    ({"type": "enum", "name": "Suit", "symbols": ["A"], "default": "A"}, [b"\0", b"\x12", b"\1"]),
    (["null", "string", "bytes", {"type": "long", "logicalType": "timestamp-micros"}], [b"\0", b"\2\2\xff", b"\6\1"]),
    ({"type": "map", "values": "string"}, [b"\2\2\xff\2\xff\0", b"\0", b"\1\x08\2a\2b\0"]),
    ({"type": "array", "items": {"type": "string", "logicalType": "uuid"}}, [b"\2\2x\0"]),
    ({"type": "array", "items": "null"}, [b"\0", number(2**63, 10) + b"\0", b"\1\0\0"]),
    ({"type": "array", "items": {"type": "record", "name": "Nothing", "fields": []}}, [number(2**63, 10) + b"\0"]),
    (CHAIN, [b"\4\0", b"\4\2" * 3 + b"\4\0", b"\4\2" * 6_000 + b"\4\0"]),
    (["null", CHAIN], [b"\0", b"\2" + b"\4\2" * 3 + b"\4\0"]),
    (FOREST, [b"\0\0", b"\4" + b"\0\0" * 2 + b"\0" + b"\2\2k" + b"\0\0" + b"\0", b"\1\4\0\0\0\0"]),
    ({"type": "array", "items": FOREST}, [b"\2\0\0\0"]),
]


class Inner(msgspec.Struct):
    x: str
    days: list[date] | None = None


class Outer(Event):
    at: datetime
    n: int
    inner: Inner | None = None
    inners: list[Inner] = msgspec.field(default_factory=list)


DAYS = ["null", {"type": "array", "items": {"type": "int", "logicalType": "date"}}]


def renamed(schema: Any, suffix: str) -> Any:
    """A schema may define a name once."""
    if isinstance(schema, list):
        return [renamed(one, suffix) for one in schema]
    if isinstance(schema, dict):
        if "type" not in schema:
            return schema
        named = schema["type"] in ("record", "enum", "fixed")
        inner = {key: renamed(value, suffix) for key, value in schema.items() if key in ("type", "items", "values")}
        fields = (
            {"fields": [one | {"type": renamed(one["type"], suffix)} for one in schema["fields"]]} if "fields" in schema else {}
        )
        return schema | inner | fields | ({"name": schema["name"] + suffix} if named else {})
    return schema + suffix if schema in ("Chain", "Tree") else schema


@given(st.data())
def test_a_field_that_the_event_type_does_not_take_decides_nothing(data: st.DataObject) -> None:
    """Of any type, with any value and default, before and behind what is read, and in records that are read."""
    drawn = [data.draw(st.sampled_from(UNREAD)) for _ in range(4)]
    (a, b, c, d) = (renamed(schema, str(place)) for place, (schema, _) in enumerate(drawn))
    (v, w, x, y) = (data.draw(st.sampled_from(values)) for _, values in drawn)
    inner = {**record(("u", c), ("x", "string"), ("days", DAYS), ("v", d)), "name": "Inner"}
    fields = record(("u", a), ("at", TIME), ("inner", ["null", inner]), ("v", b), ("inners", {"type": "array", "items": "Inner"}))
    fields["fields"] = [one | {"default": {"not": "valid"}} for one in (*fields["fields"], {"name": "n", "type": "int"})]
    day = number(2 * 20_000, 3)
    of = x + b"\2x" + b"\2\2" + day + b"\0" + y
    value = v + number(2 * 1_793_491_200_000, 6) + b"\2" + of + w + b"\4" + of + x + b"\2z" + b"\0" + y + b"\0" + b"\x0a"
    expected = Inner("x", [date(1970, 1, 1) + timedelta(20_000)])
    at = datetime(2026, 11, 1, tzinfo=UTC)
    read = avro(schema=fields).parser(Outer)
    assert read(value) == Outer(at, 5, expected, [expected, Inner("z")])
    source = Source(topic="t", event=Outer, event_time="at", decoder=avro(schema=fields))
    assert reason(source, value[:-1]) == "format"
    assert reason(source, value + b"\0") == "format"
    listed = avro(schema={"type": "array", "items": fields}).listed(Outer)
    assert [listed.parse(part) for part in listed.split(b"\4" + value * 2 + b"\0")] == [
        Outer(at, 5, expected, [expected, Inner("z")])
    ] * 2


def test_of_a_recursive_record_its_own_fields_are_read() -> None:
    schema = record(("next", ["null", "R"]), ("at", TIME), ("n", "int"))
    value = b"\2" * 20_000 + b"\0" + (number(2 * 1_793_491_200_000, 6) + b"\x0a") * 20_001
    assert avro(schema=schema).parser(Small)(value) == Small(datetime(2026, 11, 1, tzinfo=UTC), 5)


@pytest.mark.parametrize(
    "broken", [b"\x04\x02", b"\x04\x04", b"\x04\x01", number(2**64, 10), b"\x80", b"\x04\x02" + b"\xff" * 11]
)
def test_what_is_skipped_is_still_a_value_of_its_schema(broken: bytes) -> None:
    schema = record(("chain", CHAIN), ("at", TIME), ("n", "int"))
    source = Source(topic="t", event=Small, event_time="at", decoder=avro(schema=schema))
    assert reason(source, broken) in ("format", "out_of_range")


def test_a_text_of_negative_length_is_refused_where_it_is_skipped() -> None:
    """Skipping it would go back, and never end."""
    node = {
        "type": "record",
        "name": "Node",
        "fields": [{"name": "next", "type": ["null", "Node"]}, {"name": "x", "type": "string"}],
    }
    source = Source(topic="t", event=Small, event_time="at", decoder=avro(schema=record(("u", node), ("at", TIME), ("n", "int"))))
    assert reason(source, b"\0\1\2") == "format"


@pytest.mark.parametrize("items", ["null", {"type": "record", "name": "E", "fields": []}])
def test_items_of_zero_bytes_cannot_be_read(items: Any) -> None:
    """A short value may hold any number of them."""

    class Listing(Event):
        at: datetime
        spots: list[Spot]

    schema = record(("at", TIME), ("spots", {"type": "array", "items": items}))
    with pytest.raises(DefinitionError, match="items of zero bytes"):
        avro(schema=schema).parser(Listing)
    with pytest.raises(DefinitionError, match="items of zero bytes"):
        avro(schema={"type": "array", "items": {"type": "record", "name": "E", "fields": []}}).listed(Defaults)


class Defaults(Event):
    n: int = 0
