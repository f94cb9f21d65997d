"""An event's time may be in a struct, or be a date that begins somewhere; every reader finds it there."""

import json as plain
from datetime import UTC, date, datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem import Epoch, Event, Format, Source, View, Zone, calendar, count, csv, last, session, tumbling
from tandem.testing import answer, checked_answer
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint
from tandem.views.project.column_lineage import lineage
from tandem.views.source.source import PLAUSIBLE, events_schema
from tandem.views.verify.random_events import events
from tests.views.logged import decoded, reason


class Properties(msgspec.Struct):
    time: Annotated[datetime, Epoch("ms")]
    place: str = ""


class Inner(msgspec.Struct):
    properties: Properties


class Quake(Event):
    id: str
    properties: Properties


class Deep(Event):
    feature: Inner


class Film(Event):
    title: str
    released: Annotated[date, Format("%b %d %Y"), Zone("Europe/Berlin")]


NESTED = Source("quakes", Quake, "properties.time", identity=("id",), name="quakes")
FILMS = Source("films", Film, "released", decoder=csv(columns=("title", "released")), name="films")
BERLIN = ZoneInfo("Europe/Berlin")


def quake(identity: str, milliseconds: int) -> bytes:
    return plain.dumps({"id": identity, "properties": {"time": milliseconds, "place": "x"}}).encode()


def test_the_time_of_a_struct_is_the_event_time() -> None:
    found = decoded(NESTED, quake("a", 1_793_520_000_123), quake("b", 1))
    assert found.events["_event_time"].to_pylist() == [datetime(2026, 11, 1, 8, 0, 0, 123_000, UTC)]
    assert found.rejects["reason"].to_pylist() == ["implausible_time"]
    assert found.events.schema == events_schema(NESTED)
    deep = Source("deep", Deep, "feature.properties.time")
    assert decoded(deep, b'{"feature":{"properties":{"time":1793520000123}}}').events["_event_time"].to_pylist() == [
        datetime(2026, 11, 1, 8, 0, 0, 123_000, UTC)
    ]


def test_a_date_is_the_first_instant_of_its_day_in_its_zone() -> None:
    found = decoded(FILMS, b"a,Jul 1 2026", b"b,Nov 1 2026", b"c,Jun 12 1998")
    assert found.events["_event_time"].to_pylist() == [
        datetime(2026, 6, 30, 22, tzinfo=UTC),
        datetime(2026, 10, 31, 23, tzinfo=UTC),
    ]
    (early,) = found.rejects["detail"].to_pylist()
    assert early == (
        "released 1998-06-11 22:00:00+00:00 is before the first of plausible, 2000-01-01T00:00:00+00:00 by default; "
        "Source(plausible=(first, end)) widens it"
    )


def test_dates_whose_day_has_no_beginning_are_rejects() -> None:
    class Local(Event):
        day: Annotated[date, Zone("America/Sao_Paulo", gap="reject")]

    wide = (datetime(1, 1, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
    source = Source("days", Local, "day", plausible=wide, max_events_per_record=3, on_bad_event="record")
    values = [b'[{"day":"2018-11-05"},{"day":"2018-11-04"}]', b'[{"day":"2018-11-03"}]', b'[{"day":"0001-01-01"}]']
    found = decoded(source, *values)
    assert (
        found.events["_event_time"].to_pylist()
        == [datetime(1, 1, 1, 3, 6, 28, tzinfo=UTC), datetime(2018, 11, 3, 3, tzinfo=UTC)][::-1]
    )
    assert found.rejects["detail"][0].as_py().startswith("event 1: America/Sao_Paulo has no time 2018-11-04 00:00:00")


VIEWS = {
    "hours": View(NESTED, {"place": "properties.place"}, tumbling(days=1), {"n": count(), "last": last("id")}),
    "days": View(NESTED, {}, calendar("day", zone="Europe/Berlin"), {"n": count()}),
    "sessions": View(NESTED, {}, session(hours=1), {"n": count()}),
    "films": View(FILMS, {}, calendar("month", zone="Europe/Berlin"), {"n": count(), "last": last("title")}),
}


@pytest.mark.each_run("hours", "films")
@pytest.mark.parametrize("name", VIEWS)
@given(data=st.data())
def test_views_agree_with_plain_python_at_every_cut(name: str, data: Any) -> None:
    view = VIEWS[name]
    drawn = data.draw(st.lists(events(view.source), max_size=6))
    checked_answer(view, drawn)


@given(events(NESTED), events(FILMS))
def test_random_events_are_plausible(quake: Any, film: Any) -> None:
    assert PLAUSIBLE[0] <= quake.properties.time < PLAUSIBLE[1]
    begins = datetime.combine(film.released, datetime.min.time(), BERLIN)
    assert PLAUSIBLE[0] <= begins < PLAUSIBLE[1]


def test_films_of_one_local_month_are_in_one_window() -> None:
    rows = answer(VIEWS["films"], [Film("a", date(2026, 11, 1)), Film("b", date(2026, 11, 30)), Film("c", date(2026, 12, 1))])
    assert [row["n"] for row in rows] == [2, 1]


def test_lineage_names_the_field_that_holds_the_time() -> None:
    found = lineage(VIEWS["days"])
    assert "properties" in found.grouped_by
    assert "_event_time" not in str(found)


def test_the_bound_and_its_option_are_in_the_message() -> None:
    declared = Source("quakes", Quake, "properties.time", plausible=(PLAUSIBLE[0], datetime(2020, 1, 1, tzinfo=UTC)))
    (late,) = decoded(declared, quake("a", 1_793_520_000_000)).rejects["detail"].to_pylist()
    assert late == (
        "properties.time 2026-11-01 08:00:00+00:00 is not before the end of plausible, 2020-01-01T00:00:00+00:00 as declared; "
        "Source(plausible=(first, end)) widens it"
    )
    wide = Source("quakes", Quake, "properties.time", plausible=(datetime(1960, 1, 1, tzinfo=UTC), PLAUSIBLE[1]))
    assert reason(wide, quake("a", -1)) == "event"


class Listed(Event):
    at: list[Properties]
    maybe: Properties | None
    day: date
    properties: Properties


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("at.time", "no field 'time' in Listed.at"),
        ("maybe.time", "no field 'time' in Listed.maybe"),
        ("properties", "such fields: properties.time"),
        ("properties.place", "such fields: properties.time"),
        ("properties.tim", "no field 'tim' in Listed.properties; fields: time"),
        ("day", "declare Annotated"),
        ("", "no field ''"),
    ],
)
def test_a_place_without_a_time_is_refused(name: str, sentence: str) -> None:
    with pytest.raises(DefinitionError, match=sentence):
        Source("listed", Listed, name)


def test_the_place_is_a_part_of_the_fingerprint() -> None:
    class Two(Event):
        a: Properties
        b: Properties

    assert decoder_fingerprint(Source("two", Two, "a.time", name="t")) != decoder_fingerprint(
        Source("two", Two, "b.time", name="t")
    )
