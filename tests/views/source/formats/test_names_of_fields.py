"""A field may have any key in its format, in every format; views use its own name."""

import json as plain
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from io import BytesIO
from typing import Annotated, Any, Literal

import fastavro
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem import Epoch, Event, Name, Scale, Source, View, avro, count, csv, json, nginx_json, protobuf, total
from tandem.testing import answer
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint
from tandem.views.fingerprint.schema_evolution import breaks
from tandem.views.source.fields.reasons import Reject
from tests.views.logged import decoded, reason
from tests.views.source.formats.test_protobuf import DESCRIPTOR, sent


class Genre(Enum):
    DRAMA = "Drama"


class Rating(msgspec.Struct, frozen=True):
    score: Annotated[float, Name("IMDB Rating")]
    votes: int = 0


class Film(Event):
    title: Annotated[str, Name("Title / 题名")]
    gross: Annotated[Decimal, Scale(2), Name("US Gross")]
    at: Annotated[datetime, Epoch("s"), Name("Release-Date")]
    genre: Annotated[Genre | None, Name("Major Genre")] = None
    kind: Annotated[Literal["a", "b"] | None, Name("kind of")] = None
    rating: Annotated[Rating | None, Name("the rating")] = None
    ratings: Annotated[list[Rating], Name("all ratings")] = msgspec.field(default_factory=list)

    def __post_init__(self) -> None:
        if self.title == "bad":
            raise ValueError("a bad title")


VALUE: dict[str, Any] = {
    "Title / 题名": "x",
    "US Gross": "1.50",
    "Release-Date": 2,
    "Major Genre": "Drama",
    "kind of": "b",
    "the rating": {"IMDB Rating": 7.5, "votes": 3},
    "all ratings": [{"IMDB Rating": 1.0}],
    "title": 7,
    "gross": [],
}
EXPECTED = Film("x", Decimal("1.50"), datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC), Genre.DRAMA, "b", Rating(7.5, 3), [Rating(1.0)])


def bytes_of(**changes: Any) -> bytes:
    return plain.dumps({**VALUE, **changes}).encode()


def test_json_reads_keys_of_any_text() -> None:
    parse = json().parser(Film)
    assert parse(bytes_of()) == EXPECTED
    assert parse(plain.dumps(VALUE, ensure_ascii=False).encode()) == EXPECTED
    assert type(parse(bytes_of()).rating) is Rating
    listed = json().listed(Film)
    assert [listed.parse(part) for part in listed.split(b"[" + bytes_of() + b"]")] == [EXPECTED]


SOURCE = Source("films", Film, "at", plausible=(datetime(1970, 1, 1, tzinfo=UTC), datetime(1971, 1, 1, tzinfo=UTC)), name="films")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (bytes_of(), "event"),
        (bytes_of(**{"Title / 题名": "bad"}), "refused"),
        (bytes_of(**{"Title / 题名": 1}), "wrong_type"),
        (bytes_of(**{"the rating": {"score": 1}}), "missing_field"),
        (bytes_of().replace(b'"US Gross": "1.50"', b'"US Gross": 1, "US Gross": 2'), "repeated_key"),
        (bytes_of().replace(b'"US Gross": "1.50"', b'"US Gross": 1, "US\\u0020Gross": 2'), "repeated_key"),
        (b'{"title":"x","gross":1,"at":2}', "missing_field"),
    ],
)
def test_values_under_other_keys_have_the_outcomes_of_any_field(value: bytes, expected: str) -> None:
    assert reason(SOURCE, value) == expected


def test_a_slash_may_be_escaped() -> None:
    twice = bytes_of().replace(b'"US Gross"', b'"Title \\/ \\u9898\\u540d": "y", "US Gross"')
    assert reason(SOURCE, twice) == "repeated_key"


def test_columns_have_the_fields_own_names() -> None:
    found = decoded(SOURCE, bytes_of()).events
    assert found["gross"].to_pylist() == [Decimal("1.50")]
    assert found["rating"].to_pylist() == [{"score": 7.5, "votes": 3}]
    view = View(SOURCE, {"genre": "genre"}, measures={"n": count(), "gross": total("gross")})
    assert answer(view, [EXPECTED])[0]["gross"] == "1.50"


class Row(Event):
    gross: Annotated[float, Name("US Gross")]
    title: Annotated[str | None, Name("Title: the first")] = None


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_csv_reads_columns_of_any_name(gross: float) -> None:
    expected = Row(gross, "x")
    assert csv(header=True).parser(Row)(f"Title: the first,US Gross\nx,{gross!r}".encode()) == expected
    assert csv(columns=("US Gross", "Title: the first")).parser(Row)(f"{gross!r},x".encode()) == expected
    assert nginx_json().parser(Row)(plain.dumps({"US Gross": gross, "Title: the first": "x"}).encode()) == expected
    assert json().parser(Row)(plain.dumps({"US Gross": gross, "Title: the first": "x"}).encode()) == expected


class Order(Event):
    number: Annotated[int, Name("n")]
    price: Annotated[Decimal, Scale(2), Name("key")]
    spots: Annotated[list["Spot"], Name("spots")]


class Spot(msgspec.Struct, frozen=True):
    place: Annotated[float, Name("x")]


def test_avro_and_protobuf_read_the_fields_that_are_named() -> None:
    fields = [
        {"name": "n", "type": "long"},
        {"name": "key", "type": "string"},
        {
            "name": "spots",
            "type": {"type": "array", "items": {"type": "record", "name": "S", "fields": [{"name": "x", "type": "double"}]}},
        },
    ]
    schema = {"type": "record", "name": "R", "fields": fields}
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), {"n": 1, "key": "2.50", "spots": [{"x": 0.5}]})
    expected = Order(1, Decimal("2.50"), [Spot(0.5)])
    assert avro(schema=schema).parser(Order)(stream.getvalue()) == expected
    value = sent(n=1, key="2.50", spots=[{"x": 0.5}])
    assert protobuf(descriptor=DESCRIPTOR, message="shop.Order").parser(Order)(value) == expected


def with_field(*annotation: Any, name: str = "a", **config: Any) -> type[Event]:
    event = msgspec.defstruct("Names", [(name, *annotation)], bases=(Event,), frozen=True, **config)
    assert issubclass(event, Event)
    return event


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        (lambda: with_field(Annotated[list[Annotated[int, Name("x")]], "y"]), "what a list holds"),
        (lambda: with_field(Annotated[int, Name("x")], rename={"a": "y"}), "contradict"),
        (lambda: with_field(Annotated[int, Name("x")], array_like=True), "array_like"),
        (
            lambda: msgspec.defstruct("N", [("a", Annotated[int, Name("x")]), ("x", int)], bases=(Event,), frozen=True),
            "two fields",
        ),
        (lambda: Name('a"b'), "without quotes"),
        (lambda: Name("a\\b"), "without quotes"),
        (lambda: Name(""), "without quotes"),
        (lambda: Name("a\nb"), "one line"),
    ],
)
def test_names_that_mean_nothing_are_refused(event: Any, sentence: str) -> None:
    with pytest.raises(DefinitionError, match=sentence):
        json().parser(event())


def test_unknown_keys_stay_forbidden() -> None:
    event = with_field(Annotated[int, Name("x y")], forbid_unknown_fields=True, tag="t")
    assert json().parser(event)(b'{"type":"t","x y":1}').a == 1
    for wrong in (b'{"type":"t","a":1}', b'{"type":"t","x y":1,"a":1}', b'{"type":"u","x y":1}'):
        with pytest.raises(Reject):
            json().parser(event)(wrong)


def test_a_key_is_a_part_of_the_fingerprint() -> None:
    class Other(Event):
        gross: Annotated[float, Name("US gross")]
        title: Annotated[str | None, Name("Title: the first")] = None
        at: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    class Same(Event):
        gross: float = msgspec.field(name="US Gross")
        title: str | None = msgspec.field(name="Title: the first", default=None)
        at: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    class Timed(Row):
        at: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    timed, same, other = (Source("rows", event, "at", name="rows") for event in (Timed, Same, Other))
    assert decoder_fingerprint(timed) == decoder_fingerprint(same) != decoder_fingerprint(other)
    assert breaks(timed, other)
    assert not breaks(timed, same)
