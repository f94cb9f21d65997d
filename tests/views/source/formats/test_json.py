"""Strict JSON: what is an event, what is not and why, and that nothing stops the stream."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, cast
from uuid import UUID

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.views.decode import decode
from tandem.views.errors import DefinitionError
from tandem.views.source.event import Event, Scale
from tandem.views.source.source import REJECTS_SCHEMA, Source, events_schema
from tests.views.logged import decoded, reason, records


class Plain(Event):
    """Only fields that must be there."""

    id: str
    at: datetime
    size: int
    ms: float


class Colour(Enum):
    """Choices that are strings."""

    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    """Choices that are integers."""

    LOW = 1
    HIGH = 2


class Spot(msgspec.Struct):
    """A struct in an event."""

    x: float
    seen: datetime | None = None


class Rich(Event):
    """Every type that a field may have."""

    at: datetime
    ok: bool = True
    price: Annotated[Decimal, Scale(2)] = Decimal(0)
    raw: bytes = b""
    day: date = date(2026, 1, 1)
    key: UUID = UUID(int=0)
    colour: Colour = Colour.RED
    level: Level = Level.LOW
    kind: Literal["a", "b"] = "a"
    step: Literal[1, 2] | None = None
    name: str | None = None
    when: datetime | None = None
    count: int = 0
    tags: list[str] = msgspec.field(default_factory=list)
    prices: list[Annotated[Decimal, Scale(2)]] = msgspec.field(default_factory=list)
    floats: list[float | None] = msgspec.field(default_factory=list)
    spot: Spot | None = None
    spots: list[Spot] = msgspec.field(default_factory=list)
    limited: Annotated[int, msgspec.Meta(ge=0)] = 0


class Picky(Event):
    """An event type with an opinion of its own."""

    at: datetime
    size: int

    def __post_init__(self) -> None:
        """Refuse in several ways."""
        if self.size == 1:
            raise ValueError("size 1 is not sold")
        if self.size == 2:
            raise KeyError("two")
        if self.size == 3:
            msgspec.structs.force_setattr(self, "size", "three")
        if self.size == 4:
            msgspec.structs.force_setattr(self, "at", None)


PLAIN = Source(topic="t", event=Plain, event_time="at")
RICH = Source(topic="t", event=Rich, event_time="at")
PICKY = Source(topic="t", event=Picky, event_time="at")
NO_ZONE = datetime(2026, 1, 1)  # noqa: DTZ001  a fault to be found
GOOD = {"id": "a", "at": "2026-11-01T00:00:00Z", "size": 1, "ms": 0.5}


def plain(**changes: Any) -> bytes:
    """A good plain value with some of its fields changed."""
    return json.dumps(GOOD | changes).encode()


def raw(**changes: str) -> bytes:
    """A good plain value with fields replaced by JSON text as it stands."""
    fields = {key: json.dumps(value) for key, value in GOOD.items()} | changes
    return ("{" + ", ".join(f'"{key}": {text}' for key, text in fields.items()) + "}").encode()


def rich(**fields: Any) -> bytes:
    """A good rich value with these fields."""
    return json.dumps({"at": "2026-11-01T00:00:00Z", **fields}).encode()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (plain(), "event"),
        (b" \n" + plain() + b"\r\n ", "event"),
        (plain(other={"deep": [1]}), "event"),
        (raw(other="1e999"), "event"),
        (raw(other="9" * 10_000, more='"\\u00e9"'), "event"),
        (plain(ms=3), "event"),
        (plain(id="\u0000 é \U0001f600"), "event"),
        (plain(at="2026-11-01T01:00:00+01:00"), "event"),
        (plain(size=2**63 - 1), "event"),
        (plain(size=-(2**63)), "event"),
        (None, "empty"),
        (b"", "empty"),
        (b" ", "json"),
        (b"{", "json"),
        (plain() + b"x", "json"),
        (plain() + plain(), "json"),
        (plain() + b"\n" + plain(), "json"),
        (b"\xef\xbb\xbf" + plain(), "event"),
        (raw(ms="NaN"), "json"),
        (raw(ms="Infinity"), "json"),
        (raw(size="01"), "json"),
        (raw(id='"\\ud800"'), "json"),
        (raw(id='"\\udc00\\ud800"'), "json"),
        (raw(other='"\\ud800"'), "event"),
        (raw(id='"a\x00b"'), "json"),
        (raw(other="[" * 129 + "]" * 129), "json"),
        (raw(other="[" * 100_000 + "]" * 100_000), "json"),
        (b"[" * 100_000, "json"),
        (raw(other=json.dumps("[" * 1000)), "event"),
        (raw(other="[" * 100 + "]" * 100), "event"),
        (plain().replace(b'"a"', b'"\xff"'), "utf8"),
        (raw(other='"x"').replace(b"x", b"\xff"), "event"),
        (raw(other='"x"').replace(b"x", b"\xed\xa0\x80"), "event"),
        (b"[]", "wrong_type"),
        (b"null", "wrong_type"),
        (b"1", "wrong_type"),
        (b'"text"', "wrong_type"),
        (plain(size="1"), "wrong_type"),
        (plain(size=1.0), "event"),
        (plain(size=1.5), "wrong_type"),
        (plain(size=1e30), "out_of_range"),
        (plain(size=True), "wrong_type"),
        (plain(size=None), "wrong_type"),
        (plain(ms="0.5"), "wrong_type"),
        (plain(id=7), "wrong_type"),
        (plain(at=1_761_955_200_000), "wrong_type"),
        (b"{}", "missing_field"),
        (json.dumps({k: v for k, v in GOOD.items() if k != "ms"}).encode(), "missing_field"),
        (plain(size=2**63), "out_of_range"),
        (plain(size=-(2**63) - 1), "out_of_range"),
        (plain(size=2**70), "out_of_range"),
        (raw(size="9" * 5000), "out_of_range"),
        (raw(ms="1e400"), "out_of_range"),
        (raw(ms="-1e400"), "out_of_range"),
        (raw(ms="9" * 400), "out_of_range"),
        (plain(at="2026-11-01T00:00:00"), "no_zone"),
        (plain(at="2026-11-01"), "invalid_value"),
        (plain(at="2026-02-30T00:00:00Z"), "invalid_value"),
        (plain(at="yesterday"), "invalid_value"),
        (plain(at="1999-12-31T23:59:59.999999Z"), "implausible_time"),
        (plain(at="2000-01-01T00:00:00Z"), "event"),
        (plain(at="2099-12-31T23:59:59.999999Z"), "event"),
        (plain(at="2100-01-01T00:00:00Z"), "implausible_time"),
        (plain(at="2099-12-31T23:59:59-01:00"), "implausible_time"),
        (plain(at="0001-01-01T00:00:00+14:00"), "out_of_range"),
        (plain(at="9999-12-31T23:59:59-14:00"), "out_of_range"),
        (plain()[:-1] + b', "id": "b"}', "repeated_key"),
        (plain()[:-1] + b',"id" :"a"}', "repeated_key"),
        (plain()[:-1] + b', "\\u0069d": "b"}', "repeated_key"),
        (plain()[:-1] + b', "x": 1, "x": 2}', "event"),
        (plain(id='"id": "id":'), "event"),
        (plain(id='"id"\\'), "event"),
        (raw(id='"\\u0069d: \\u0069d:"'), "event"),
    ],
    ids=lambda given: str(given)[:60],
)
def test_each_value_has_the_outcome_that_strictness_demands(value: bytes | None, expected: str) -> None:
    """A value is an event only if nothing about it had to be guessed, and else has the code of its fault."""
    assert reason(PLAIN, value) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "event"),
        ({"price": "12.34"}, "event"),
        ({"price": 12.3}, "event"),
        ({"price": "12.340"}, "event"),
        ({"price": "9" * 36 + ".99"}, "event"),
        ({"price": "12.345"}, "out_of_range"),
        ({"price": "9" * 37}, "out_of_range"),
        ({"price": "1e400"}, "out_of_range"),
        ({"price": "1e999999"}, "out_of_range"),
        ({"price": "1e-77"}, "out_of_range"),
        ({"price": "1e-999999"}, "out_of_range"),
        ({"price": "1e-99999999"}, "out_of_range"),
        ({"price": "0e-99999999"}, "event"),
        ({"prices": ["1.20", "1e-99999999"]}, "out_of_range"),
        ({"price": "NaN"}, "out_of_range"),
        ({"price": "sNaN"}, "out_of_range"),
        ({"price": "-Infinity"}, "out_of_range"),
        ({"price": "ten"}, "invalid_value"),
        ({"raw": "AAE="}, "event"),
        ({"raw": "?"}, "invalid_value"),
        ({"day": "2026-02-30"}, "invalid_value"),
        ({"key": "12345678-1234-5678-1234-56781234567A"}, "event"),
        ({"key": "no"}, "invalid_value"),
        ({"colour": "blue"}, "event"),
        ({"colour": "green"}, "invalid_value"),
        ({"level": 2}, "event"),
        ({"level": 3}, "invalid_value"),
        ({"kind": "c"}, "invalid_value"),
        ({"step": 2}, "event"),
        ({"step": 3}, "invalid_value"),
        ({"name": None, "when": None, "spot": None}, "event"),
        ({"when": "2026-11-01T00:00:00"}, "no_zone"),
        ({"when": "1500-01-01T00:00:00Z"}, "event"),
        ({"when": "0001-01-01T00:00:00+14:00"}, "out_of_range"),
        ({"count": 2**64}, "out_of_range"),
        ({"tags": ["a", "\u0000"]}, "event"),
        ({"tags": ["a", None]}, "wrong_type"),
        ({"floats": [1, None, -0.0]}, "event"),
        ({"spot": {"x": 1, "seen": "2026-11-01T00:00:00"}}, "no_zone"),
        ({"spots": [{"x": 1}, {"x": 2}]}, "event"),
        ({"spots": [{"x": 1}, {"y": 2}]}, "missing_field"),
        ({"limited": -1}, "invalid_value"),
    ],
)
def test_every_field_type_has_its_bounds(fields: dict[str, Any], expected: str) -> None:
    """A field takes what its column can hold exactly, and the record goes to quarantine whole for anything else."""
    assert reason(RICH, rich(**fields)) == expected


def test_values_arrive_in_their_columns() -> None:
    """Every type of field reads back from its column as the value that was sent."""
    sent = {
        "price": "12.3",
        "raw": "AAE=",
        "day": "2026-11-01",
        "key": "12345678-1234-5678-1234-56781234567A",
        "colour": "blue",
        "level": 2,
        "step": 2,
        "name": "\u0000é",
        "when": "2026-11-01T01:00:00.000001+01:00",
        "tags": ["a", ""],
        "prices": ["1.2", 3],
        "floats": [1.5, None],
        "spot": {"x": 2},
        "spots": [{"x": 1, "seen": "2026-11-01T00:00:00Z"}],
    }
    events = decoded(RICH, rich(**sent)).events
    assert events.schema == events_schema(RICH)
    midnight = datetime(2026, 11, 1, tzinfo=UTC)
    assert events.select(events.column_names[5:]).to_pylist() == [
        {
            "ok": True,
            "price": Decimal("12.30"),
            "raw": b"\x00\x01",
            "day": date(2026, 11, 1),
            "key": "12345678-1234-5678-1234-56781234567a",
            "colour": "blue",
            "level": 2,
            "kind": "a",
            "step": 2,
            "name": "\u0000é",
            "when": midnight.replace(microsecond=1),
            "count": 0,
            "tags": ["a", ""],
            "prices": [Decimal("1.20"), Decimal("3.00")],
            "floats": [1.5, None],
            "spot": {"x": 2.0, "seen": None},
            "spots": [{"x": 1.0, "seen": midnight}],
            "limited": 0,
        }
    ]


def test_negative_zero_becomes_zero() -> None:
    """-0.0 and 0.0 are one key of a view, so decode leaves only one of them, at any depth."""
    value = b'{"at": "2026-11-01T00:00:00Z", "floats": [-0.0], "spot": {"x": -0.0}, "spots": [{"x": -0.0}]}'
    row = decoded(RICH, value).events.to_pylist()[0]
    top = decoded(PLAIN, raw(ms="-0.0")).events.to_pylist()[0]
    assert [str(x) for x in (*row["floats"], row["spot"]["x"], row["spots"][0]["x"], top["ms"])] == ["0.0"] * 4


@pytest.mark.parametrize(
    ("size", "expected"), [(0, "event"), (1, "refused"), (2, "refused"), (3, "invalid_value"), (4, "invalid_value")]
)
def test_an_event_types_own_check_rejects_and_never_raises(size: int, expected: str) -> None:
    """Whatever __post_init__ raises or does to the event, the record is a reject and its neighbours are events."""
    good = b'{"at": "2026-11-01T00:00:00Z", "size": 9}'
    bad = good.replace(b"9", str(size).encode())
    result = decoded(PICKY, good, bad, good)
    assert [*result.events["_offset"].to_pylist(), *result.rejects["offset"].to_pylist()] == (
        [0, 1, 2] if expected == "event" else [0, 2, 1]
    )
    assert reason(PICKY, bad) == expected


def test_a_reject_says_where_it_was_and_how_it_began() -> None:
    """A reject has its position, a code, a sentence that names the field, and at most 256 bytes of the value."""
    value = plain(size="x" * 500)
    row = decode(PLAIN, records([plain(), value], topic_id="t9", partition=3, first=70)).rejects.to_pylist()[0]
    assert row == {
        "topic_id": "t9",
        "partition": 3,
        "offset": 71,
        "timestamp": datetime(1970, 1, 1, 0, 1, 11, tzinfo=UTC),
        "reason": "wrong_type",
        "detail": "Expected `int`, got `str` - at `$.size`",
        "first_bytes": value[:256],
    }


@pytest.mark.parametrize(
    ("annotation", "default"),
    [(int, "1"), (int, 2**63), (float, float("nan")), (datetime, NO_ZONE)],
)
def test_a_default_that_no_column_holds_is_an_error_of_the_definition(annotation: Any, default: Any) -> None:
    """A default is checked once, before it would send every record without the field to quarantine."""
    odd = cast("type[Event]", msgspec.defstruct("Odd", [("at", datetime), ("size", annotation, default)], bases=(Event,)))
    with pytest.raises(DefinitionError, match=r"Odd.size: default"):
        decoded(Source(topic="t", event=odd, event_time="at"), b"{}")


def test_no_records_give_empty_tables_of_the_right_types() -> None:
    """Nothing in, nothing out, in tables that still concatenate with others."""
    result = decoded(RICH)
    assert result.events.equals(events_schema(RICH).empty_table())
    assert result.rejects.equals(REJECTS_SCHEMA.empty_table())


class Nested(Event):
    """Declared keys at two depths, one of them optional."""

    at: datetime
    spot: Spot
    name: str = ""


def json_object(pairs: list[tuple[str, str]]) -> str:
    """JSON text of an object, repeats and all."""
    return "{" + ", ".join(f'"{key}" : {text}' for key, text in pairs) + "}"


NESTED = Source(topic="t", event=Nested, event_time="at")
KEYS = st.sampled_from(["at", "spot", "name", "x", "seen", "other"])
VALUES = st.recursive(
    st.sampled_from(['"2026-11-01T00:00:00Z"', "1.5", '"name"', '"\\"name\\":"', '"\\u0061"']),
    lambda inner: st.lists(st.tuples(KEYS, inner), max_size=3).map(json_object),
    max_leaves=6,
)


@given(st.lists(st.tuples(KEYS, VALUES), max_size=4), st.integers(0, 1))
def test_a_declared_key_stands_once_in_an_object(extra: list[tuple[str, str]], escaped: int) -> None:
    """The cheap looks at colons and key texts let no repeat through that a full reading of the value finds."""
    value = json_object([("at", '"2026-11-01T00:00:00Z"'), ("spot", '{"x": 1}'), *extra])
    if escaped:
        value = value.replace('"name" :', '"n\\u0061me" :').replace('"x" :', '"\\u0078" :')
    repeated = False

    def look(pairs: list[tuple[str, Any]]) -> None:
        nonlocal repeated
        names = [name for name, _ in pairs if name != "other"]
        repeated = repeated or len(names) > len(set(names))

    json.loads(value, object_pairs_hook=look)
    assert (reason(NESTED, value.encode()) == "event") <= (not repeated)
    assert (reason(NESTED, value.encode()) == "repeated_key") <= repeated


def test_records_may_come_in_the_types_that_table_readers_use() -> None:
    """Wider text, binary and time types of the same values decode to the same tables."""
    table = records([plain(), b"{"])
    wide = table.cast(
        pa.schema(
            [
                field.with_type(
                    {"topic_id": pa.large_string(), "value": pa.large_binary(), "timestamp": pa.timestamp("us", "Etc/UTC")}.get(
                        field.name, field.type
                    )
                )
                for field in table.schema
            ]
        )
    )
    assert decode(PLAIN, wide) == decode(PLAIN, table)


def test_a_large_batch_keeps_the_order_of_its_records() -> None:
    """Records beyond one internal batch come out in order, from tables made of several chunks too."""
    values = [plain(size=row) if row % 7 else None for row in range(20_000)]
    table = pa.concat_tables([records(values[:17_000]), records(values[17_000:], first=17_000)])
    result = decode(PLAIN, table)
    assert result.events["size"].to_pylist() == [row for row in range(20_000) if row % 7]
    assert result.events["_offset"].to_pylist() == result.events["size"].to_pylist()
    assert result.rejects["offset"].to_pylist() == list(range(0, 20_000, 7))


def test_a_record_without_a_value_is_told_from_one_without_bytes() -> None:
    found = decoded(PLAIN, None, b"").rejects
    assert found["detail"].to_pylist() == ["the record has no value", "the value has no bytes"]
