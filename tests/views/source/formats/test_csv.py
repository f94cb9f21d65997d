"""CSV: one value is one row of the declared columns, and its texts become values by exact rules."""

import csv as rows
import io
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import IntEnum
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem import Event, Scale, Source, csv, tsv
from tandem.views.decode import decode
from tandem.views.errors import DefinitionError
from tandem.views.source.formats.csv import rows_with_quotes
from tests.views.logged import decoded, reason, records


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Row(Event):
    """A field of every kind that a text can be."""

    at: datetime
    n: int
    f: float | None
    price: Annotated[Decimal, Scale(2)] | None
    s: str
    note: str | None
    ok: bool | None
    raw: bytes | None
    day: date | None
    key: UUID | None
    level: Level | None
    kind: Literal["a", "b"] | None
    step: Literal[1, 2] | None
    limited: Annotated[int, msgspec.Meta(ge=0)] | None
    absent: int = 7


COLUMNS = ("at", "n", "f", "price", "s", "note", "ok", "raw", "day", "key", "level", "kind", "step", "limited", "ignored")
ROWS = Source(topic="t", event=Row, event_time="at", decoder=csv(columns=COLUMNS))
GOOD = dict.fromkeys(COLUMNS, "") | {"at": "2026-11-01T00:00:00Z", "n": "1"}


def row(**changes: str) -> bytes:
    """A row with some of its texts replaced, quoted where they must be."""
    return written(list((GOOD | changes).values()))


def written(texts: list[str], **how: Any) -> bytes:
    out = io.StringIO(newline="")
    rows.writer(out, **how).writerow(texts)
    return out.getvalue().encode()


def event(value: bytes, source: Source = ROWS) -> dict[str, Any]:
    found = decoded(source, value)
    (one,) = found.events.to_pylist() or [found.rejects.to_pylist()]
    return {name: field for name, field in one.items() if not name.startswith("_")}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"n": 1, "f": None, "s": "", "note": None, "raw": None, "absent": 7}),
        ({"n": "-12"}, {"n": -12}),
        ({"n": str(-(2**63))}, {"n": -(2**63)}),
        ({"f": "1"}, {"f": 1.0}),
        ({"f": "-1.5e3"}, {"f": -1500.0}),
        ({"price": "12.340"}, {"price": Decimal("12.34")}),
        ({"s": 'a "b", c\r\nd'}, {"s": 'a "b", c\r\nd'}),
        ({"s": " null "}, {"s": " null "}),
        ({"s": "a\u2028b\x0bc"}, {"s": "a\u2028b\x0bc"}),
        ({"note": "null"}, {"note": "null"}),
        ({"ok": "TRUE"}, {"ok": True}),
        ({"ok": "0"}, {"ok": False}),
        ({"raw": "AAE="}, {"raw": b"\x00\x01"}),
        ({"day": "2026-11-01"}, {"day": date(2026, 11, 1)}),
        ({"key": "12345678-1234-5678-1234-56781234567A"}, {"key": "12345678-1234-5678-1234-56781234567a"}),
        ({"level": "2", "kind": "b", "step": "1"}, {"level": 2, "kind": "b", "step": 1}),
        ({"at": "2026-11-01T01:00:00+01:00"}, {"at": datetime(2026, 11, 1, tzinfo=UTC)}),
        ({"ignored": "anything"}, {"n": 1}),
    ],
)
def test_texts_become_the_values_of_their_fields(changes: dict[str, str], expected: dict[str, Any]) -> None:
    found = event(row(**changes))
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (row(n=""), "missing_field"),
        (row(at=""), "missing_field"),
        (row(n=" 1"), "invalid_value"),
        (row(n="1.5"), "invalid_value"),
        (row(n="1e-3"), "invalid_value"),
        (row(price=" 1"), "invalid_value"),
        (row(price="1_0"), "invalid_value"),
        (row(price="٣"), "invalid_value"),
        (row(n="1e99999999999999999999"), "out_of_range"),
        (row(ok="-0"), "wrong_type"),
        (row(n="٣"), "invalid_value"),
        (row(n=str(2**63)), "out_of_range"),
        (row(n="9" * 5000), "out_of_range"),
        (row(f="nan"), "invalid_value"),
        (row(f="1e999"), "out_of_range"),
        (row(f="null"), "invalid_value"),
        (row(price="1.234"), "out_of_range"),
        (row(price="ten"), "invalid_value"),
        (row(ok="yes"), "wrong_type"),
        (row(raw="?"), "invalid_value"),
        (row(day="2026-02-30"), "invalid_value"),
        (row(level="3"), "invalid_value"),
        (row(kind="c"), "invalid_value"),
        (row(step="3"), "invalid_value"),
        (row(limited="-1"), "invalid_value"),
        (row(at="2026-11-01T00:00:00"), "no_zone"),
        (row(at="1761955200"), "invalid_value"),
        (row(at="1990-01-01T00:00:00Z"), "implausible_time"),
        (row() + row(), "format"),
        (row() + b"\n", "format"),
        (b"\n" + row(), "format"),
        (b"\r\n", "format"),
        (row()[:-2] + b",", "format"),
        (row().replace(b",1,", b",", 1), "format"),
        (row()[:-2] + b'"half', "format"),
        (row()[:-2] + b'a "b" c', "event"),
        (row(ignored="x").replace(b"x", b'"half'), "format"),
        (row(ignored="x").replace(b"x", b'"half"x'), "format"),
        (row(ignored="x" * 131_073), "event"),
        (row(note="x").replace(b"x", b"\xff"), "utf8"),
        (b"", "empty"),
    ],
    ids=lambda given: str(given)[:60],
)
def test_what_is_not_one_row_of_the_columns_goes_to_quarantine(value: bytes, expected: str) -> None:
    assert reason(ROWS, value) == expected


class Pair(Event):
    at: datetime
    a: str
    b: str


TEXT = st.text(st.characters(codec="utf-8") | st.sampled_from('",;\r\n\0 \u2028'), max_size=8)


@given(TEXT, TEXT, st.sampled_from(",;|\t"), st.sampled_from([rows.QUOTE_MINIMAL, rows.QUOTE_ALL]))
def test_what_pythons_writer_writes_is_read_back(a: str, b: str, delimiter: str, quoting: int) -> None:
    """Any two texts, whatever stands in them, come back from a row with any delimiter."""
    source = Source(topic="t", event=Pair, event_time="at", decoder=csv(columns=("a", "at", "b"), delimiter=delimiter))
    found = event(written([a, "2026-11-01T00:00:00Z", b], delimiter=delimiter, quoting=quoting), source)
    assert (found["a"], found["b"]) == (a, b)


class Renamed(Event, rename="camel"):
    event_at: datetime
    user_id: int


def test_a_column_has_the_key_of_its_field() -> None:
    source = Source(topic="t", event=Renamed, event_time="event_at", decoder=csv(columns=("userId", "eventAt")))
    assert event(b"5,2026-11-01T00:00:00Z", source)["user_id"] == 5


class Tagged(Event, tag=True):
    at: datetime


class Listed(Event):
    at: datetime
    tags: list[str]


@pytest.mark.parametrize(
    ("event_type", "columns", "says"),
    [
        (Pair, ("at", "a"), "Pair.b: there is no column 'b'; columns: at, a"),
        (Tagged, ("at",), "neither array_like nor tag"),
        (Listed, ("at", "tags"), "Listed.tags: a CSV row has texts"),
    ],
)
def test_an_event_type_that_no_row_can_be_is_an_error_of_the_definition(
    event_type: type[Event], columns: tuple[str, ...], says: str
) -> None:
    with pytest.raises(DefinitionError, match=says):
        csv(columns=columns).parser(event_type)


class Only(Event):
    name: str


APPENDED = Source(topic="t", event=Pair, event_time="at", decoder=csv(header=True))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"at,a,b\r\n2026-11-01T00:00:00Z,1,2", ("1", "2")),
        (b"b,x,at,a\n2,,2026-11-01T00:00:00Z,1\n", ("1", "2")),
        (b"x,b,x,at,a\n,2,,2026-11-01T00:00:00Z,1\n", ("1", "2")),
        (b'"at","a","b"\n2026-11-01T00:00:00Z,"1\n","2"', ("1\n", "2")),
        (b'\xef\xbb\xbf"at",a,b\n2026-11-01T00:00:00Z,1,2', ("1", "2")),
    ],
)
def test_a_header_names_the_columns_in_any_order(value: bytes, expected: tuple[str, str]) -> None:
    found = event(value, APPENDED)
    assert (found["a"], found["b"]) == expected


@pytest.mark.parametrize(
    ("value", "expected", "says"),
    [
        (b"at,a\n2026-11-01T00:00:00Z,1", "missing_field", "the header has no column b"),
        (b"at,A,b\n2026-11-01T00:00:00Z,1,2", "missing_field", "the header has no column a"),
        (b"at,a,b,a\n2026-11-01T00:00:00Z,1,2,3", "repeated_key", "column a occurs 2 times in the header"),
        (b"at,a,b\n2026-11-01T00:00:00Z,1", "format", "2 columns, not 3"),
        (b"at,a,b", "format", "0 rows after the header, not 1"),
        (b"at,a,b\n2026-11-01T00:00:00Z,1,2\n2026-11-01T00:00:00Z,1,2", "format", "2 rows after the header, not 1"),
        (b'at,a,b\n2026-11-01T00:00:00Z,"1', "format", "row 1 is not a CSV row: unexpected end of data"),
        (b"\xef\xbb\xbf", "format", "there is no header"),
    ],
)
def test_a_header_without_what_the_event_needs_or_with_more_is_refused(value: bytes, expected: str, says: str) -> None:
    (reject,) = decoded(APPENDED, value).rejects.to_pylist()
    assert (reject["reason"], reject["detail"]) == (expected, says)


@given(st.permutations(["at", "a", "b", "other", ""]), TEXT, TEXT)
def test_any_order_of_columns_is_read_back(columns: list[str], a: str, b: str) -> None:
    values = {"at": "2026-11-01T00:00:00Z", "a": a, "b": b, "other": "x", "": ""}
    found = event(written(columns) + written([values[column] for column in columns]), APPENDED)
    assert (found["a"], found["b"]) == (a, b)


@pytest.mark.parametrize(("value", "name"), [(b"\n", ""), (b"\r\n", ""), (b'""', ""), (b"x", "x"), (b"\xef\xbb\xbfx\n", "x")])
def test_a_single_column_may_be_empty(value: bytes, name: str) -> None:
    ever = (datetime(1970, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))
    source = Source(topic="t", event=Only, event_time="_append_time", decoder=csv(columns=("name",)), plausible=ever)
    found = decode(source, records([value]).set_column(4, "timestamp_type", pa.array([1], pa.int32())))
    assert found.events["name"].to_pylist() == [name]


def test_a_byte_order_mark_is_no_part_of_the_first_text() -> None:
    source = Source(topic="t", event=Pair, event_time="at", decoder=csv(columns=("a", "at", "b")))
    found = event(b"\xef\xbb\xbf1,2026-11-01T00:00:00Z,\xef\xbb\xbf2", source)
    assert (found["a"], found["b"]) == ("1", "\ufeff2")


def test_the_csv_modules_limit_decides_nothing_and_stays() -> None:
    """It is the process's: a project's own code may set it."""
    before = rows.field_size_limit(10)
    try:
        assert event(row(s="x" * 200_000))["s"] == "x" * 200_000
        assert reason(ROWS, row(ignored="x").replace(b"x", b'"half')) == "format"
        assert rows.field_size_limit() == 10
    finally:
        rows.field_size_limit(before)


COMMAS = replace(ROWS, decoder=csv(columns=COLUMNS, delimiter=";", decimal=","))
"""The same rows with semicolons and decimal commas."""


def semicolons(**changes: str) -> bytes:
    """A row of these."""
    return written(list((GOOD | changes).values()), delimiter=";")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"f": "-1,5e3"}, {"f": -1500.0}),
        ({"price": ",340"}, {"price": Decimal("0.34")}),
        ({"n": "5,0"}, {"n": 5}),
        ({"s": "1,5"}, {"s": "1,5"}),
        ({"at": "2026-11-01T00:00:00,25Z"}, {"at": datetime(2026, 11, 1, 0, 0, 0, 250_000, tzinfo=UTC)}),
    ],
)
def test_numbers_may_have_a_decimal_comma(changes: dict[str, str], expected: dict[str, Any]) -> None:
    found = event(semicolons(**changes), COMMAS)
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("text", ["1.5", "1.234,5", "1,234,5"])
def test_a_number_with_a_point_is_refused_beside_decimal_commas(text: str) -> None:
    assert reason(COMMAS, semicolons(price=text)) == "invalid_value"
    (reject,) = decoded(COMMAS, semicolons(price=text)).rejects.to_pylist()
    assert repr(text) in str(reject)


SIGNS = [(".", ","), (",", "."), (",", " "), (".", "'"), (",", "\u00a0"), (".", "\u202f"), (",", "\u2019")]


@given(st.decimals(-(10**12), 10**12, places=2), st.integers(-(2**63), 2**63 - 1), st.sampled_from(SIGNS))
def test_groups_of_three_digits_are_the_number_without_signs(price: Decimal, n: int, signs: tuple[str, str]) -> None:
    """Python writes the groups: `f"{n:,}"`."""
    decimal, thousands = signs
    source = replace(ROWS, decoder=csv(columns=COLUMNS, delimiter=";", decimal=decimal, thousands=thousands))
    whole, money = (f"{value:,}".translate({ord(","): thousands, ord("."): decimal}) for value in (n, price))
    value = written(list((GOOD | {"n": whole, "price": money, "s": money}).values()), delimiter=";")
    (event,) = decoded(source, value).events.to_pylist()
    assert (event["n"], event["price"], event["s"]) == (n, price, money)


@pytest.mark.parametrize(
    "text", ["1.23", "12.3456", "1234.567", ".123", "1..234", "1.234.", "1,234.567", "1.234e3", "1,2,3", "0.123", "-012.345"]
)
def test_a_sign_that_is_not_between_groups_of_three_digits_is_refused(text: str) -> None:
    source = replace(ROWS, decoder=csv(columns=COLUMNS, delimiter=";", decimal=",", thousands="."))
    assert reason(source, written(list((GOOD | {"price": text}).values()), delimiter=";")) == "invalid_value"


def test_a_decoder_of_decimal_commas_is_written_as_it_was_called() -> None:
    assert str(COMMAS.decoder) == f"csv(columns={COLUMNS!r}, delimiter=';', decimal=',')".replace("'", '"')
    assert str(tsv(header=True, decimal=",")) == 'tsv(header=True, decimal=",")'


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({}, "give either columns"),
        ({"columns": ("a",), "header": True}, "give either columns=.*, or header=True"),
        ({"header": "a"}, "give either columns=.*, or header=True"),
        ({"header": 1, "columns": ["a"]}, "give either columns=.*, or header=True"),
        ({"columns": ()}, "give either columns"),
        ({"columns": "at"}, "not a tuple of names"),
        ({"columns": ("a", "a")}, "each once"),
        ({"columns": ("a", "")}, "not a tuple of names"),
        ({"columns": ("a", 1)}, "not a tuple of names"),
        ({"columns": ("a",), "delimiter": ",,"}, "is not one character"),
        ({"columns": ("a",), "delimiter": '"'}, "is not one character"),
        ({"columns": ("a",), "delimiter": "\n"}, "is not one character"),
        ({"columns": ("a",), "delimiter": "a"}, "is not one character"),
        ({"columns": ("a",), "decimal": ""}, "is neither '.' nor ','"),
        ({"columns": ("a",), "thousands": "x"}, "thousands 'x' is not one of"),
        ({"columns": ("a",), "thousands": "."}, "thousands '.' is not one of"),
    ],
)
def test_parameters_that_mean_nothing_are_refused(parameters: dict[str, Any], says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        csv(**parameters)


@given(
    st.lists(st.sampled_from(["a", "b c", "é", ",", ";", "\n", "\r", "\x00", "\x0b", "\u2028", "\x85", '"'])).map("".join),
    st.sampled_from(",;"),
)
def test_rows_are_those_of_pythons_csv_module(text: str, delimiter: str) -> None:
    """A value without quotes is read without it."""
    try:
        expected = list(rows.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except rows.Error:
        return
    assert rows_with_quotes(text, delimiter) == expected
