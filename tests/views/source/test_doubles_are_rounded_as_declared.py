"""Amounts with further digits are rounded half to even, the same in every format, and counted."""

import base64
import json as plain
import math
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from io import BytesIO
from typing import Annotated, Any

import fastavro
import msgspec
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import example, given
from hypothesis import strategies as st

from tandem import Event, Scale, Source, View, avro, count, csv, json, nginx_json, protobuf, total
from tandem.views.decode.value_parsers import parser
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.event_meaning import event_meaning
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint
from tandem.views.fingerprint.schema_evolution import differences
from tandem.views.instant import APPEND_TIME
from tandem.views.kernel.deduplicate import deduplicate
from tandem.views.source.event import event_fields
from tandem.views.source.fields.columns import column
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.fields.rounded import ROUNDED, roundings_by_event
from tandem.views.source.source import events_schema
from tandem.views.testing import answer
from tests.views.logged import decoded

Cents = Annotated[Decimal, Scale(2, rounding="half_even")]


class Sale(Event):
    n: Cents


class Line(Event):
    amount: Cents | None = None
    exact: Annotated[Decimal, Scale(2)] = Decimal(0)


class Order(Event):
    id: int
    at: datetime
    total: Cents
    parts: list[Cents] = msgspec.field(default_factory=list)
    lines: list[Line] = msgspec.field(default_factory=list)


ORDERS = Source(topic="t", event=Order, event_time="at", identity=("id",))
RECORD = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "double"}]}
LIMIT = Fraction(10) ** 36


def message() -> tuple[str, Any]:
    file = FileDescriptorProto(name="m.proto", package="m", syntax="proto3")
    one = file.message_type.add(name="M")
    one.field.add(name="n", number=1, type=FieldDescriptorProto.TYPE_DOUBLE, label=FieldDescriptorProto.LABEL_OPTIONAL)
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    text = base64.b64encode(FileDescriptorSet(file=[file]).SerializeToString()).decode()
    return text, GetMessageClass(pool.FindMessageTypeByName("m.M"))


DESCRIPTOR, MESSAGE = message()


def avro_double(number: float) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(RECORD), {"n": number})
    return stream.getvalue()


def returned_digits(value: bytes) -> Sale:
    """A project's own decoder."""
    return Sale(Decimal(value.decode()))


FORMATS: dict[str, tuple[Any, Any]] = {
    "json": (json(), lambda number: plain.dumps({"n": number}).encode()),
    "json text": (json(), lambda number: plain.dumps({"n": repr(number)}).encode()),
    "avro": (avro(schema=RECORD), avro_double),
    "protobuf": (protobuf(descriptor=DESCRIPTOR, message="m.M"), lambda number: MESSAGE(n=number).SerializeToString()),
    "csv": (csv(columns=("n", "m")), lambda number: f"{number!r},x".encode()),
    "nginx": (nginx_json(), lambda number: plain.dumps({"n": repr(number)}).encode()),
    "function of digits": (returned_digits, lambda number: repr(number).encode()),
}


def half_even(number: Fraction) -> Decimal:
    """The oracle: whole cents by integers alone."""
    cents, rest = divmod(number * 100, 1)
    up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and cents % 2 == 1)
    return Decimal((0 if cents + up >= 0 else 1, tuple(map(int, str(abs(cents + up)))), -2))


def read(decoder: Any, value: bytes) -> tuple[Decimal, int]:
    """The amount of one value, and how many were rounded. Raises Reject."""
    sale = parser(Sale, decoder)(value)
    (field,) = event_fields(Sale)
    return column(field, [sale.n])[0].as_py(), roundings_by_event((field,), [sale])[0].as_py()


@pytest.mark.parametrize("name", FORMATS)
@given(st.floats(allow_nan=False, allow_infinity=False, width=64))
@example(2.675)
@example(12.345)
@example(-0.005)
@example(1e-300)
@example(1e22)
@example(0.1 + 0.2)
def test_a_double_is_its_shortest_decimal_rounded_in_every_format(name: str, number: float) -> None:
    decoder, write = FORMATS[name]
    exact = Fraction(repr(number))
    if abs(half_even(exact)) >= Decimal(10) ** 36:
        with pytest.raises(Reject) as caught:
            read(decoder, write(number))
        assert caught.value.reason == "out_of_range"
        return
    amount, rounded = read(decoder, write(number))
    assert amount == half_even(exact)
    assert amount.as_tuple().exponent == -2
    assert rounded == (Fraction(amount) != exact)


@given(st.from_regex(r"-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,30})?", fullmatch=True))
@example("0.125")
@example("0.135")
@example("0.1250000000000000000001")
def test_written_digits_are_rounded_all_of_them(text: str) -> None:
    for decoder, value in ((json(), f'{{"n":{text}}}'), (json(), f'{{"n":"{text}"}}'), (csv(columns=("n", "m")), f"{text},x")):
        assert read(decoder, value.encode())[0] == half_even(Fraction(text))


def test_what_is_no_amount_is_rejected() -> None:
    for name in ("avro", "protobuf"):
        decoder, write = FORMATS[name]
        for number in (math.nan, math.inf, -math.inf, 1e36, 1e300):
            with pytest.raises(Reject) as caught:
                read(decoder, write(number))
            assert caught.value.reason == "out_of_range", number
    assert read(json(), b'{"n":1e-99999999}') == (Decimal("0.00"), 1)
    with pytest.raises(Reject):
        read(json(), b'{"n":true}')


def order(number: int, amount: str, **more: Any) -> bytes:
    return plain.dumps({"id": number, "at": "2026-11-01T00:00:00Z", **more}).replace("{", f'{{"total":{amount},', 1).encode()


def test_each_event_counts_its_rounded_values_at_any_depth() -> None:
    outcome = decoded(
        ORDERS,
        order(1, "1.005"),
        order(2, "1.00", parts=[1.1, 1.111, 2.999], lines=[{"amount": 0.001}, {"amount": None}, {}]),
        order(3, "1.5"),
        order(4, "1.5", lines=[{"amount": 0.001, "exact": 0.001}]),
    )
    assert outcome.events.schema == events_schema(ORDERS)
    assert outcome.events[ROUNDED].to_pylist() == [1, 3, 0]
    assert outcome.events["total"].to_pylist() == [Decimal("1.00"), Decimal("1.00"), Decimal("1.50")]
    assert outcome.events["parts"].to_pylist()[1] == [Decimal("1.10"), Decimal("1.11"), Decimal("3.00")]
    assert outcome.rejects["reason"].to_pylist() == ["out_of_range"]


@pytest.mark.parametrize("rule", ["event", "record"])
def test_events_of_lists_count_theirs(rule: Any) -> None:
    source = replace(ORDERS, max_events_per_record=3, on_bad_event=rule)
    outcome = decoded(source, b"[" + b",".join([order(1, "0.111"), order(2, "0.11"), order(3, "0.999")]) + b"]")
    assert outcome.events[ROUNDED].to_pylist() == [1, 0, 1]


def test_a_copy_with_other_digits_that_round_alike_is_no_conflict() -> None:
    events = decoded(ORDERS, order(1, "1.005"), order(1, "1.00"), order(1, "1.01")).events
    unique = deduplicate(ORDERS, events)
    assert (unique.duplicates, unique.conflicts) == (2, 1)


def test_views_count_what_was_rounded() -> None:
    view = View(source=ORDERS, measures={"n": count(), "rounded": total("_rounded"), "exact": count(filter="_rounded = 0")})
    at = datetime(2026, 11, 1, tzinfo=UTC)
    events = [Order(1, at, Decimal("1.005")), Order(2, at, Decimal(1), [Decimal("0.001")]), Order(3, at, Decimal(3))]
    (row,) = answer(view, events)
    assert (row["n"], row["rounded"], row["exact"]) == (3, 2, 1)


def test_without_rounding_nothing_changes() -> None:
    class Exact(Event):
        n: Annotated[Decimal, Scale(2)]

    class Rounding(Event):
        n: Annotated[Decimal, Scale(2, rounding="half_even")]

    class Default(Event):
        n: Annotated[Decimal, Scale(2, rounding=None)]

    meanings = [event_meaning(event).parts["fields"].parts["n"].value for event in (Exact, Default, Rounding)]
    assert meanings[0] == meanings[1] != meanings[2]
    sources = [Source(topic="t", event=event, event_time=APPEND_TIME) for event in (Exact, Default, Rounding)]
    assert [ROUNDED in events_schema(source).names for source in sources] == [False, False, True]
    assert len({decoder_fingerprint(source) for source in sources}) == 2
    assert [*differences(Exact, Rounding)] == []
    (gone,) = differences(Rounding, Exact)
    assert "Scale(2, rounding='half_even')" in gone
    with pytest.raises(Reject):
        column(event_fields(Exact)[0], [Decimal("0.001")])


def test_a_double_needs_a_declared_rounding() -> None:
    class Exact(Event):
        n: Annotated[Decimal, Scale(2)]

    for decoder in (FORMATS["avro"][0], FORMATS["protobuf"][0]):
        with pytest.raises(DefinitionError, match="decimal128"):
            parser(Exact, decoder)
    with pytest.raises(DefinitionError, match='is rounded by "half_even" or not'):
        Scale(2, rounding="up")  # type: ignore[arg-type]


def test_avros_other_numbers_are_rounded_too() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": ["null", "float", "long"]}]}
    decoder = avro(schema=schema)

    def value(number: Any) -> bytes:
        stream = BytesIO()
        fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), {"n": number})
        return stream.getvalue()

    assert read(decoder, value(("float", 2.675))) == (Decimal("2.67"), 1)
    assert read(decoder, value(("long", 7))) == (Decimal("7.00"), 0)
