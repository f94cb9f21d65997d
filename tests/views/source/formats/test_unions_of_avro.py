"""Of a union of Avro the branches that the event type takes are read; a value of another one is a reject with the reason."""

from datetime import UTC, datetime
from decimal import Decimal
from io import BytesIO
from typing import Annotated, Any

import fastavro
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem import Epoch, Event, Scale, Source, avro
from tandem.views.errors import DefinitionError
from tests.views.logged import decoded, reason

AT = datetime(2026, 11, 1, tzinfo=UTC)
MICROS = {"type": "long", "logicalType": "timestamp-micros"}


def record(name: str, /, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": type_} for key, type_ in fields.items()]}


def write(schema: Any, value: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


class Spot(msgspec.Struct):
    x: float


class Reading(Event):
    at: Annotated[datetime, Epoch("us")]
    n: int | None
    amount: Annotated[Decimal, Scale(2)]
    text: str
    spot: Spot | None
    many: list[int]


PLACE = record("Place", name="string")
SPOT = record("Spot", x="double", name="string")
READING = record(
    "Reading",
    at=["string", "long"],
    n=["null", "string", "int", "long"],
    amount=["string", "int", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, "double"],
    text=["int", {"type": "enum", "name": "Word", "symbols": ["a", "b"]}, "string"],
    spot=["null", PLACE, SPOT],
    many={"type": "array", "items": ["string", "int"]},
)
GOOD: dict[str, Any] = {"at": 1_793_491_200_000_000, "n": 7, "amount": 3, "text": "a", "spot": None, "many": [1]}
READINGS = Source(topic="t", event=Reading, event_time="at", decoder=avro(schema=READING))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"n": 7, "amount": Decimal("3.00"), "text": "a", "spot": None, "many": [1], "at": AT}),
        ({"at": "1793491200000000"}, {"at": AT}),
        ({"n": None}, {"n": None}),
        ({"n": 2**40}, {"n": 2**40}),
        ({"amount": "12.5"}, {"amount": Decimal("12.50")}),
        ({"amount": Decimal("-0.01")}, {"amount": Decimal("-0.01")}),
        ({"text": "neither a nor b"}, {"text": "neither a nor b"}),
        ({"spot": ("Spot", {"x": 1.5, "name": "s"})}, {"spot": {"x": 1.5}}),
        ({"many": [1, 2]}, {"many": [1, 2]}),
    ],
)
def test_each_branch_that_the_field_takes_gives_a_value(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    (row,) = decoded(READINGS, write(READING, GOOD | changes)).events.to_pylist()
    assert {name: row[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ({"n": "seven"}, "field n is a value of string, which is not what int64 is read from"),
        ({"amount": 0.5}, "field amount is a value of double, which is not what decimal128(38, 2) is read from"),
        ({"text": 5}, "field text is a value of int, which is not what string is read from"),
        ({"spot": ("Place", {"name": "p"})}, "field spot is a value of record, which is not what struct<x: double"),
        ({"many": [1, "2"]}, "field many[] is a value of string, which is not what int64 is read from"),
    ],
)
def test_a_value_of_another_branch_is_a_reject_with_the_reason(changes: dict[str, Any], detail: str) -> None:
    (row,) = decoded(READINGS, write(READING, GOOD | changes)).rejects.to_pylist()
    assert (row["reason"], row["detail"][: len(detail)]) == ("wrong_type", detail)


@pytest.mark.parametrize("n", [["null", "string"], ["string", "bytes"]])
def test_a_union_without_such_a_branch_gives_an_error(n: Any) -> None:
    class Small(Event):
        at: datetime
        n: int | None

    with pytest.raises(DefinitionError, match=r"Small\.n: the schema has this field as string"):
        avro(schema=record("R", at=MICROS, n=n)).parser(Small)


class Sale(Event):
    at: datetime
    cents: int


class Text(Event):
    at: datetime
    text: str


SALE, NOTE = record("Sale", at=MICROS, cents="long"), record("Note", at=MICROS, text="string")
EITHER = ["null", SALE, NOTE]


@given(st.lists(st.integers(0, 9) | st.text(max_size=3) | st.none(), min_size=1, max_size=5))
def test_a_value_may_be_of_a_union_with_records(drawn: list[int | str | None]) -> None:
    """As topics with several types of events have it: each source reads the records that give its fields."""
    values = [
        None if one is None else ("Sale", {"at": AT, "cents": one}) if isinstance(one, int) else ("Note", {"at": AT, "text": one})
        for one in drawn
    ]
    sent = [write(EITHER, value) for value in values]
    sales = decoded(Source(topic="t", event=Sale, event_time="at", decoder=avro(schema=EITHER)), *sent)
    notes = decoded(Source(topic="t", event=Text, event_time="at", decoder=avro(schema=EITHER)), *sent)
    assert sales.events["cents"].to_pylist() == [one for one in drawn if isinstance(one, int)]
    assert notes.events["text"].to_pylist() == [one for one in drawn if isinstance(one, str)]
    details = ["the value is a null" if one is None else "the value is a Note" for one in drawn if not isinstance(one, int)]
    assert sales.rejects["detail"].to_pylist() == [f"{detail}, which does not give Sale" for detail in details]
    assert set(sales.rejects["reason"].to_pylist()) <= {"wrong_type"}


def test_an_array_may_hold_a_union() -> None:
    schema = {"type": "array", "items": EITHER}
    source = Source(topic="t", event=Sale, event_time="at", decoder=avro(schema=schema), max_events_per_record=5)
    result = decoded(source, write(schema, [("Sale", {"at": AT, "cents": 1}), None, ("Sale", {"at": AT, "cents": 2})]))
    assert result.events["cents"].to_pylist() == [1, 2]
    assert result.rejects["detail"].to_pylist() == ["the value is a null, which does not give Sale"]


@pytest.mark.parametrize("schema", [["null", "string"], [NOTE, "null"]])
def test_a_union_that_gives_no_event_is_an_error(schema: Any) -> None:
    with pytest.raises(DefinitionError, match=r"is not a record|Sale\.cents: the schema has no field 'cents'"):
        avro(schema=schema).parser(Sale)


@pytest.mark.parametrize("value", [b"\x06", b"\x01", b"\x80", b"\x02"])
def test_a_branch_that_the_union_does_not_have_is_a_reject(value: bytes) -> None:
    assert reason(Source(topic="t", event=Sale, event_time="at", decoder=avro(schema=EITHER)), value) == "format"
