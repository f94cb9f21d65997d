"""Rows with declared nulls, without quotes, or with backslash escapes: what other writers write is read back."""

import csv as rows
import io
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem import Event, Source, csv, tsv
from tandem.cli.records.bundles import Bundles
from tandem.views.decode import parser
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint
from tandem.views.instant import APPEND_TIME
from tandem.views.source.decoder import Decoder
from tandem.views.source.fields.reasons import Reject
from tests.views.logged import decoded, reason


class Flight(Event):
    """As rows of New York's departures have it: `NA` where a flight was cancelled."""

    at: datetime
    carrier: str
    delay: int | None
    distance: float | None = None
    tail: str | None = None
    seats: int = 0


COLUMNS = ("at", "carrier", "delay", "distance", "tail", "seats")
AT = "2013-01-01T05:00:00Z"


def flights(decoder: Decoder, many: int | None = None) -> Source:
    return Source(topic="t", event=Flight, event_time="at", decoder=decoder, max_events_per_record=many)


def event(decoder: Decoder, value: str) -> dict[str, Any]:
    result = decoded(flights(decoder), value.encode())
    (row,) = result.events.to_pylist() or result.rejects.to_pylist()
    return {name: field for name, field in row.items() if not name.startswith("_")}


NA = csv(columns=COLUMNS, null=("NA", ""))


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (f"{AT},UA,NA,NA,NA,1", {"delay": None, "distance": None, "tail": None}),
        (f"{AT},UA,,,,1", {"delay": None, "distance": None, "tail": None}),
        (f'{AT},UA,"NA",-1.5,"",1', {"delay": None, "distance": -1.5, "tail": None}),
        (f"{AT},NA,2,3,N14228,1", {"carrier": "NA", "delay": 2, "tail": "N14228"}),
        (f"{AT},UA,2,3,na,1", {"tail": "na"}),
        (f"{AT},UA,na,3,,1", {"reason": "invalid_value"}),
        (f"{AT},UA,2,3,,NA", {"reason": "missing_field", "detail": "field seats is empty"}),
    ],
)
def test_a_declared_null_is_null_where_a_field_may_be(row: str, expected: dict[str, Any]) -> None:
    found = event(NA, row)
    assert {name: found[name] for name in expected} == expected


def test_only_declared_texts_are_null() -> None:
    assert event(csv(columns=COLUMNS, null=("NA",)), f"{AT},UA,NA,NA,,1")["tail"] == ""
    assert event(csv(columns=COLUMNS, null=("NA",)), f"{AT},UA,,NA,,1")["reason"] == "invalid_value"
    assert event(csv(columns=COLUMNS), f"{AT},UA,NA,,,1")["reason"] == "invalid_value"
    assert event(csv(columns=COLUMNS, null=()), f"{AT},UA,1,1,,1")["tail"] == ""


VALUES = st.fixed_dictionaries(
    {
        "at": st.just(AT),
        "carrier": st.text(st.sampled_from('ab,"\n N'), max_size=5),
        "delay": st.none() | st.integers(-(2**63), 2**63 - 1),
        "distance": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "tail": st.none() | st.text(st.sampled_from('xN,"\n\\\t'), min_size=1, max_size=5),
        "seats": st.integers(-(2**63), 2**63 - 1),
    }
)


@given(
    values=VALUES,
    header=st.permutations([*COLUMNS, "unread"]),
    unread=st.text(st.sampled_from('a,"\n'), max_size=4),
    null=st.sampled_from(["NA", "", "\\N", "null", "#N/A"]),
    delimiter=st.sampled_from(",;\t|"),
)
def test_pythons_writer_with_any_null_is_read_back(
    values: dict[str, Any], header: list[str], unread: str, null: str, delimiter: str
) -> None:
    """Columns in any order, with one that nobody reads."""
    out = io.StringIO(newline="")
    written = {name: null if value is None else value for name, value in values.items()} | {"unread": unread}
    rows.writer(out, delimiter=delimiter).writerows([header, [written[column] for column in header]])
    found = event(csv(header=True, null=(null,), delimiter=delimiter), out.getvalue())
    assert {**found, "at": AT} == values


TEXT = st.text(st.sampled_from("ab\\\t\n\rN\"'\b\f\v\0é,"), max_size=6)


class Texts(Event):
    a: str
    b: str | None
    c: str | None


def postgres(text: str | None) -> str:
    """A text as PostgreSQL's COPY TO writes it (documentation of COPY, Text Format)."""
    if text is None:
        return "\\N"
    for character, written in [
        ("\\", "\\\\"),
        ("\b", "\\b"),
        ("\f", "\\f"),
        ("\n", "\\n"),
        ("\r", "\\r"),
        ("\t", "\\t"),
        ("\v", "\\v"),
    ]:
        text = text.replace(character, written)
    return text


def read_back(file: str, most: int | None, decoder: Decoder | None = None) -> list[tuple[str | None, ...]]:
    """A file's rows, cut into records as `feed` does."""
    decoder = decoder or tsv(columns=("a", "b", "c"))
    source = Source(topic="t", event=Texts, event_time=APPEND_TIME, decoder=decoder, max_events_per_record=most)
    parse = parser(Texts, decoder, most)
    events: list[Any] = []
    for value in Bundles.of(source).values(io.BytesIO(file.encode())):
        parsed = parse(value.value)
        events += parsed if most else [parsed]
    return [(each.a, each.b, each.c) for each in events]


@given(st.lists(st.tuples(TEXT, st.none() | TEXT, st.none() | TEXT), max_size=6), st.sampled_from((None, 1, 3)))
def test_what_postgresql_writes_is_read_back(written: list[tuple[str | None, ...]], most: int | None) -> None:
    file = "".join("\t".join(map(postgres, row)) + "\n" for row in written)
    assert read_back(file, most) == written


@given(st.lists(st.tuples(TEXT, TEXT, TEXT), max_size=6), st.sampled_from((None, 1, 3)))
def test_line_ends_after_a_backslash_are_read_back(written: list[tuple[str, ...]], most: int | None) -> None:
    """As MySQL and Python's writer have them: a row goes on in the next line of the file.

    A carriage return before a line feed is a part of the line's end.
    """
    written = [(*row[:-1], row[-1].rstrip("\r")) for row in written]
    file = io.StringIO(newline="")
    rows.writer(file, delimiter="\t", quoting=rows.QUOTE_NONE, escapechar="\\", lineterminator="\n").writerows(written)
    assert read_back(file.getvalue(), most) == written


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("a\tb\\x41\tc", "format"),
        ("a\tb\\\xe9\tc", "format"),
        ("a\tb\tc\\", "format"),
        ("\\N\tb\tc", "missing_field"),
        ("a\tb", "format"),
        ('"a\tb\tc', "event"),
        ("a\\\\N\tb\\N\tc", "format"),
        ("a\\\\\tb\tc", "event"),
    ],
)
def test_what_no_writer_writes_is_rejected(row: str, expected: str) -> None:
    parse = parser(Texts, tsv(columns=("a", "b", "c")))
    if expected == "event":
        assert parse(row.encode())
        return
    with pytest.raises(Reject) as reject:
        parse(row.encode())
    assert reject.value.reason == expected


def test_an_escape_that_nobody_reads_decides_nothing() -> None:
    found = event(tsv(columns=("x", *COLUMNS)), f"\\x41\t{AT}\tUA\t\\N\t1\t\\N\t1")
    assert (found["delay"], found["distance"], found["tail"]) == (None, 1.0, None)
    assert reason(flights(tsv(columns=(*COLUMNS, "x"))), f"{AT}\tUA\t\\N\t1\t\\N\t1\tx\\".encode()) == "format"


def test_without_quotes_a_quote_is_a_character() -> None:
    decoder = csv(columns=("a", "b", "c"), delimiter="|", quote=None)
    assert read_back('"x|y"|\\N\r\nit\'s|"|\n', None, decoder) == [('"x', 'y"', "\\N"), ("it's", '"', None)]


def test_options_at_their_defaults_are_not_in_a_fingerprint() -> None:
    """Sources of before keep their tables, and each option is a part of the meaning."""
    before = csv(columns=COLUMNS)
    assert repr(before) == f"Csv(columns={COLUMNS!r}, delimiter=',', header=False)"
    assert decoder_fingerprint(flights(before)) == decoder_fingerprint(flights(csv(columns=COLUMNS, null=("",), quote='"')))
    others = [NA, csv(columns=COLUMNS, quote=None), csv(columns=COLUMNS, delimiter="\t"), tsv(columns=COLUMNS)]
    assert len({decoder_fingerprint(flights(decoder)) for decoder in (before, *others)}) == 5


@pytest.mark.parametrize(
    "text",
    [
        'csv(columns=("a", "b"), delimiter=";", null=("NA", ""))',
        'csv(header=True, null=("NA",), quote=None)',
        "csv(header=True)",
        "tsv(header=True)",
        'tsv(columns=("a", "b"), null=("",))',
    ],
)
def test_a_decoder_is_printed_as_it_is_declared(text: str) -> None:
    assert str(eval(text)) == text


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"null": "NA"}, "null 'NA' is not a tuple of texts"),
        ({"null": ("NA", 1)}, "is not a tuple of texts"),
        ({"quote": "'"}, 'quote "\'" is neither'),
    ],
)
def test_parameters_that_mean_nothing_are_refused(parameters: dict[str, Any], says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        csv(header=True, **parameters)
