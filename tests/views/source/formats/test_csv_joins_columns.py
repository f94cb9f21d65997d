"""`csv(join=...)`: a field takes the texts of several columns as one text, as if a column held it."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem import Event, Format, Source, View, Zone, count, csv, tsv
from tandem.views.decode import decode
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import fingerprint
from tests.views.logged import decoded, reason, records


class Load(Event):
    """A row of a meter, whose day and time of day are two columns."""

    at: Annotated[datetime, Format("%d/%m/%Y %H:%M:%S"), Zone("Europe/Paris")]
    n: int
    note: str | None


JOIN = {"at": ("Date", "Time")}
COLUMNS = ("n", "Time", "note", "Date")
LOADS = Source(topic="t", event=Load, event_time="at", decoder=csv(columns=COLUMNS, delimiter=";", join=JOIN))
HEADED = replace(LOADS, decoder=csv(header=True, delimiter=";", null=("?",), join=JOIN))


def test_a_day_and_a_time_of_day_are_one_time() -> None:
    headed = b'note;Date;rest;Time;n\nx;"16/12/2006";?;"17:24:00";1'
    for source, value in ((LOADS, b"1;17:24:00;x;16/12/2006"), (HEADED, headed)):
        (event,) = decoded(source, value).events.to_pylist()
        assert (event["at"], event["n"], event["note"]) == (datetime(2006, 12, 16, 16, 24, tzinfo=UTC), 1, "x")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"note;Date;Time;n\nx;?;17:24:00;1", "missing_field"),
        (b"note;Date;Time;n\nx;16/12/2006;?;1", "missing_field"),
        (b"note;Date;Time;n\nx;16/12/2006;17:24;1", "invalid_value"),
        (b"note;Date;n\nx;16/12/2006;1", "missing_field"),
        (b"note;Date;Time;Time;n\nx;16/12/2006;17:24:00;17:24:00;1", "repeated_key"),
        (b"note;Date;Time;n\nx;16/12/2006;17:2\xff:00;1", "utf8"),
    ],
)
def test_a_row_without_one_of_them_is_a_reject(value: bytes, expected: str) -> None:
    assert reason(HEADED, value) == expected


TEXTS = st.just("NA") | st.text(st.characters(codec="utf-8", exclude_characters='"\ufeff\r\n;'), max_size=4)


class Words(Event):
    """A text from three columns, and one of them."""

    at: datetime
    all: str | None
    b: str


@given(st.lists(st.tuples(TEXTS, TEXTS, TEXTS), min_size=1, max_size=5), st.sampled_from("\t;"))
def test_joined_texts_are_the_text_that_a_column_holds(rows: list[tuple[str, str, str]], sign: str) -> None:
    """The law: with `join`, and with one column that holds the texts and spaces, events are the same."""
    rows = [tuple(text.replace("\t", " ").replace("\\", "/") for text in row) for row in rows]
    options: dict[str, Any] = {"null": ("NA",)} | ({"delimiter": ";"} if sign == ";" else {})
    form = csv if sign == ";" else tsv
    apart = Source(
        topic="t",
        event=Words,
        event_time="at",
        decoder=form(columns=("at", "a", "b", "c"), join={"all": ("a", "b", "c")}, **options),
    )
    whole = replace(apart, decoder=form(columns=("at", "all", "b"), **options))
    day = "2026-11-01T00:00:00Z"
    first = decode(apart, records([sign.join((day, *row)).encode() for row in rows]))
    joined = [(day, "NA" if "NA" in row else " ".join(row), row[1]) for row in rows]
    second = decode(whole, records([sign.join(row).encode() for row in joined]))
    assert first.events.equals(second.events)
    assert first.rejects.num_rows == second.rejects.num_rows


@pytest.mark.parametrize(
    ("join", "says"),
    [
        ({"at": ("Date",)}, "at least two columns"),
        ({"at": ("Date", "Date")}, "at least two columns"),
        ({"at": ("Date", "")}, "at least two columns"),
        ({"at": "Date"}, "not a dict of names and columns"),
        ({"at": (["Date"], "Time")}, "at least two columns"),
        ({5: ("Date", "Time")}, "not a dict of names and columns"),
        ({5: ("Date", "Time"), "at": ("Date", "Time")}, "not a dict of names and columns"),
        (("at", "Date", "Time"), "not a dict of names and columns"),
        ({"when": ("Date", "Time")}, "join makes a column 'when', which no field of Load takes; fields: "),
        ({"at": ("Date", "Clock")}, "there is no column 'Clock'; columns: "),
    ],
)
def test_a_join_that_means_nothing_is_refused(join: Any, says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        csv(columns=COLUMNS, delimiter=";", join=join).parser(Load)


def test_the_order_of_joins_means_nothing_and_their_columns_do() -> None:
    def view(**join: tuple[str, ...]) -> View:
        return View(source=replace(LOADS, decoder=csv(columns=COLUMNS, join=join)), measures={"n": count()})

    both = view(at=("Date", "Time"), note=("n", "Time"))
    assert fingerprint(both) == fingerprint(view(note=("n", "Time"), at=("Date", "Time")))
    assert fingerprint(both) != fingerprint(view(note=("n", "Time"), at=("Time", "Date")))
    assert str(HEADED.decoder) == 'csv(delimiter=";", header=True, null=("?",), join={"at": ("Date", "Time")})'
