"""The search in a whole batch of JSON decides only who reads a value, never what is read."""

import json as text
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem import Event, Scale
from tandem.views.source.fields.reasons import Reject, refusal
from tandem.views.source.format import Parse, Searched
from tandem.views.source.formats.json import JSON
from tandem.views.source.formats.json_checks.batch_search import MAX_DEPTH


class SearchedSale(Event):
    """A sale with all that is searched for: a time, a decimal, and more keys than one search takes."""

    at: datetime
    price: Annotated[Decimal, Scale(2)]
    city: str
    pieces: int = 0
    note: str | None = None


def outcome(parse: Parse, value: bytes) -> Any:
    try:
        return parse(value)
    except Reject as reject:
        return (reject.reason, reject.detail)
    except BaseException as error:  # noqa: BLE001  as the kernel does
        return (refusal(error).reason, refusal(error).detail)


PARSER = JSON.parser(SearchedSale)
TIMES = st.one_of(
    st.datetimes(timezones=st.just(UTC)).map(datetime.isoformat),
    st.sampled_from(["2026-11-01T08:00:00.1234567Z", "2026-11-01T08:00:00.9999999+01:00", "2026-11-01 08:00Z", "08:00"]),
)
PRICES = st.one_of(
    st.decimals(-(10**9), 10**9, places=2).map(str), st.sampled_from(["1_000", " 1", "1 ", "NaN", "٣", "-", "1e2", 5, 1.25])
)
NOTES = st.one_of(
    st.none(), st.text(max_size=8), st.sampled_from(['"at":', "\\u0041", ".1234567", "mark", "mark", '"1_0"', "\ud800", "é"])
)
MEMBERS = st.lists(
    st.one_of(
        st.tuples(st.just("at"), TIMES),
        st.tuples(st.just("price"), PRICES),
        st.tuples(st.just("city"), NOTES),
        st.tuples(st.just("pieces"), st.one_of(st.integers(), st.sampled_from([1.0, "1", 2.5]))),
        st.tuples(st.just("note"), NOTES),
        st.tuples(st.text(max_size=4), st.recursive(NOTES, lambda inner: st.lists(inner, max_size=2), max_leaves=4)),
        st.tuples(st.just("deep"), st.just("[" * (MAX_DEPTH + 1))),
    ),
    max_size=4,
)


@st.composite
def values(draw: st.DrawFn) -> bytes:
    """A value with the required members, further ones, some twice, in any order; perhaps with bytes that are damaged."""
    required = [("at", draw(TIMES)), ("price", draw(PRICES)), ("city", draw(NOTES))]
    members = draw(st.permutations([*required, *draw(MEMBERS)]))
    as_ascii = draw(st.booleans())
    pairs = (
        f"{text.dumps(key)}:{'[' * 65 + ']' * 65 if key == 'deep' else text.dumps(value, ensure_ascii=as_ascii)}"
        for key, value in members
    )
    value = ("{" + ",".join(pairs) + "}").encode(errors="surrogatepass")
    return value.replace(
        *draw(
            st.sampled_from(
                [
                    (b"", b""),
                    (b"city", b"ci\\u0074y"),
                    (b"mark", b"\xe9"),
                    (b"mark", b"\xed\xa0\x80"),
                    (b"mark", b"\xc0\x80"),
                    (b"}", b""),
                ]
            )
        )
    )


@given(st.lists(st.one_of(values(), st.binary(max_size=8)), min_size=1, max_size=8))
def test_each_value_is_read_as_if_it_were_alone(batch: list[bytes]) -> None:
    assert isinstance(PARSER, Searched)
    array = pa.array([b"a value before the slice", *batch], pa.binary())[1:]
    for value, parse in zip(batch, PARSER.for_values(array), strict=False):
        assert outcome(parse, value) == outcome(PARSER.parse, value), value


@pytest.mark.parametrize("key", ["at", "price", "city", "pieces", "note"])
def test_a_repeated_key_is_marked_wherever_it_stands(key: str) -> None:
    value = b'{"at":"2026-11-01T08:00:00Z","price":"1.00","city":"Rome","pieces":1,"note":"n","o":{"' + key.encode() + b'":1}}'
    plain = b'{"at":"2026-11-01T08:00:00Z","price":"1.00","city":"Rome","pieces":1,"note":"n","o":{"at ":1}}'
    assert isinstance(PARSER, Searched)
    assert PARSER.search(pa.array([value, plain, None], pa.binary())).to_pylist() == [True, False, None]


def test_a_repeated_key_is_marked_where_no_further_member_is() -> None:
    value = b'{"at":"2026-11-01T08:00:00Z","price":"1.00","city":"Rome","city":"Oslo"}'
    plain = b'{"at":"2026-11-01T08:00:00Z","price":"1.00","city":"Rome"}'
    further = b'{"at":"2026-11-01T08:00:00+01:00","price":"1.00","city":"Rome"}'
    assert isinstance(PARSER, Searched)
    assert PARSER.search(pa.array([plain, value, further], pa.binary())).to_pylist() == [False, True, False]
    assert PARSER.search(pa.array([plain] * 100 + [value], pa.binary())).to_pylist() == [False] * 100 + [True]


def test_depth_is_counted_to_the_bound() -> None:
    assert isinstance(PARSER, Searched)
    array = pa.array([b"[" * depth for depth in (MAX_DEPTH, MAX_DEPTH + 1)], pa.binary())
    assert PARSER.search(array).to_pylist() == [False, True]


@pytest.mark.parametrize("damage", [b"\xe9", b"\xed\xa0\x80", b"\xc0\x80", b"\xf5\x80\x80\x80", b"\xe2\x82"])
@pytest.mark.parametrize("place", [b'"Rome"', b'"unread"', b'"key":1', b'"deep":[{"a":"b"}]'])
def test_damaged_texts_are_read_alike(damage: bytes, place: bytes) -> None:
    value = b'{"at":"2026-11-01T08:00:00Z","price":"1.00","city":"Rome","other":"unread","key":1,"deep":[{"a":"b"}]}'
    value = value.replace(place, place[:-1].rstrip(b'"}]1:') + damage + place[len(place[:-1].rstrip(b'"}]1:')) :])
    assert isinstance(PARSER, Searched)
    parse = next(iter(PARSER.for_values(pa.array([value], pa.binary()))))
    assert outcome(parse, value) == outcome(PARSER.parse, value)
