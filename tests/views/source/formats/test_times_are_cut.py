"""Digits of a time beyond the microsecond are cut in every format: the copy that a relay has cut is the same event."""

import json as plain
from collections.abc import Callable
from datetime import UTC, datetime
from io import BytesIO
from typing import Any

import fastavro
import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tandem import Event, Source, avro, csv, json
from tandem.views.source.formats.json import Json
from tests.views.logged import decoded

LATEST = datetime.max.replace(tzinfo=UTC)


class Stop(msgspec.Struct):
    at: datetime
    note: str


class Trip(Event):
    at: datetime
    note: str
    stops: list[Stop]
    ends: list[datetime]


class Line(Event):
    at: datetime
    note: str


AVRO = {"type": "record", "name": "Line", "fields": [{"name": "at", "type": "string"}, {"name": "note", "type": "string"}]}


def avro_line(at: str, note: str) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(AVRO), {"at": at, "note": note})
    return stream.getvalue()


def read(decoder: Any, value: bytes) -> list[dict[str, Any]]:
    source = Source(topic="lines", event=Line, event_time="at", decoder=decoder)
    return decoded(source, value).events.select(["at", "note"]).to_pylist()


FORMATS: dict[str, tuple[Any, Callable[[str, str], bytes]]] = {
    "json": (json(), lambda at, note: plain.dumps({"at": at, "note": note, "unread": at}).encode()),
    "csv": (csv(columns=("at", "note")), lambda at, note: f"{at},{note}".encode()),
    "avro": (avro(schema=AVRO), avro_line),
}


@pytest.mark.parametrize("name", FORMATS)
@given(st.integers(0, 10**6 - 1), st.integers(1, 10**6 - 1), st.sampled_from(["Z", "+05:30", "-11:00"]))
@example(999_999, 600_000, "Z")
@example(0, 1, "Z")
def test_a_time_is_that_of_its_first_six_digits(name: str, microsecond: int, further: int, zone: str) -> None:
    decoder, written = FORMATS[name]
    kept = f"2026-10-31T23:59:59.{microsecond:06}"
    (cut,) = read(decoder, written(kept + zone, "x"))
    (full,) = read(decoder, written(f"{kept}{further:06}{zone}", "x"))
    assert full == cut
    assert full["at"].microsecond == microsecond


@pytest.mark.parametrize("name", FORMATS)
def test_the_last_time_of_the_calendar_is_read(name: str) -> None:
    decoder, written = FORMATS[name]
    parsed = decoder.parser(Line)(written("9999-12-31T23:59:59.9999999Z", "x"))
    assert parsed.at == LATEST


@pytest.mark.parametrize("name", FORMATS)
def test_a_text_that_looks_like_a_time_stays_as_it_is(name: str) -> None:
    decoder, written = FORMATS[name]
    text = "2026-10-31T23:59:59.9999996Z"
    assert decoder.parser(Line)(written(text, text)) == Line(datetime(2026, 10, 31, 23, 59, 59, 999_999, UTC), text)


NANOS = st.integers(0, 10**9 - 1)


@given(st.lists(NANOS, max_size=3), st.lists(NANOS, max_size=3), NANOS)
def test_times_in_lists_and_structs_are_cut_and_texts_beside_them_are_not(stops: list[int], ends: list[int], at: int) -> None:
    def text(nanos: int) -> str:
        return f"2026-10-31T23:59:59.{nanos:09}Z"

    def time(nanos: int) -> datetime:
        return datetime(2026, 10, 31, 23, 59, 59, nanos // 1000, UTC)

    value = {
        "at": text(at),
        "note": text(at),
        "stops": [{"at": text(one), "note": text(one)} for one in stops],
        "ends": [text(one) for one in ends],
    }
    expected = Trip(time(at), text(at), [Stop(time(one), text(one)) for one in stops], [time(one) for one in ends])
    assert Json().parser(Trip)(plain.dumps(value).encode()) == expected


class Row(Event, array_like=True, tag="row"):
    at: datetime
    note: str
    stops: list[Stop] | None = None


@pytest.mark.parametrize(
    ("event", "written", "cut"),
    [
        (Line, r'{"\u0061t":"2026-10-31T23:59:59\u002e9999996Z","note":"\ud83d\ude00"}', "2026-10-31T23:59:59.999999Z"),
        (Line, r'{"at":"2026-10-31T23:59:59.\u0039999996Z","note":"59.9999996"}', "2026-10-31T23:59:59.999999Z"),
        (Row, '["row","2026-10-31T23:59:59.9999996Z","59.9999996"]', "2026-10-31T23:59:59.999999Z"),
        (Row, '["row","2026-10-31T23:59:59.9999996Z","x",null,9e999]', "2026-10-31T23:59:59.999999Z"),
        (Row, '["row","2026-10-31T23:59:59.9999996Z","x",[{"at":"2026-10-31T23:59:59.9999996Z","note":"x"}]]', ""),
    ],
)
def test_every_way_to_write_a_time_is_cut(event: Any, written: str, cut: str) -> None:
    """Escapes in texts, structs that are arrays."""
    parsed = Json().parser(event)(written.encode())
    assert parsed.at == datetime(2026, 10, 31, 23, 59, 59, 999_999, UTC)
    if not cut:
        assert [stop.at for stop in parsed.stops] == [parsed.at]


@given(
    st.lists(st.sampled_from(["59", "59.9999996", r"59\u002e9999996", "59.9999996 not a time"]), max_size=6), st.integers(0, 3)
)
def test_a_batch_is_read_as_its_values_are_alone(seconds: list[str], first: int) -> None:
    """A search of the whole batch decides how its values are read."""
    source = Source(topic="lines", event=Line, event_time="at", max_events_per_record=2)
    values = [f'[{{"at":"2026-10-31T23:59:{one}Z","note":"{one}"}}]'.encode() for one in seconds][first:]
    together = decoded(source, *values).events.column("at").to_pylist()
    assert together == [one for value in values for one in decoded(source, value).events.column("at").to_pylist()]
    assert all(time.microsecond in (0, 999_999) for time in together)
