"""Times of day and durations are read as Python and the formats' own writers write them, in every format, and cut alike."""

import json as plain
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from io import BytesIO
from typing import Annotated, Any

import fastavro
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem import Epoch, Event, Format, Source, Unit, View, Zone, apache, avro, count, csv, maximum, nginx, nginx_json, total
from tandem.testing import checked_answer
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.event_meaning import event_meaning
from tandem.views.fingerprint.schema_evolution import differences
from tandem.views.source.event import event_fields
from tests.views.logged import decoded, reason

AT = "2026-11-01T08:00:00Z"
MICROSECOND = timedelta(microseconds=1)
LONGS = st.integers(-(2**63), 2**63 - 1)


class Trip(Event):
    at: datetime
    took: timedelta
    begins: time = time()
    stops: list[timedelta] = msgspec.field(default_factory=list)
    by_name: dict[str, time] = msgspec.field(default_factory=dict)


class Row(Event):
    at: datetime
    took: timedelta
    begins: time | None = None


class Counted(Event):
    at: datetime
    took: Annotated[timedelta, Unit("ms")]
    begins: Annotated[time, Unit("s")] = time()


class Afternoon(Event):
    at: datetime
    begins: Annotated[time, Format("%I:%M %p")]


TRIPS, COUNTED = (Source(topic="t", event=event, event_time="at") for event in (Trip, Counted))
ROWS = Source(topic="t", event=Row, event_time="at", decoder=csv(columns=("at", "took", "begins"), null=("",)))


def microseconds(value: time | timedelta) -> int:
    of_day = value if isinstance(value, timedelta) else datetime.combine(date.min, value) - datetime.min  # noqa: DTZ901
    return of_day // MICROSECOND


def values(source: Source, **fields: Any) -> dict[str, Any]:
    """The event of one JSON value, or the reject in its place."""
    outcome = decoded(source, plain.dumps({"at": AT, **fields}).encode())
    return next(iter([*outcome.events.to_pylist(), *outcome.rejects.to_pylist()]))


def iso_of(value: timedelta) -> str:
    return msgspec.json.encode(value).decode().strip('"')


def go_of(value: timedelta) -> str:
    size, sign = abs(value), "-" if value < timedelta() else ""
    return f"{sign}{size // timedelta(hours=1)}h{size % timedelta(hours=1) // MICROSECOND}us"


def dot_net_of(value: timedelta) -> str:
    size, sign = abs(value), "-" if value < timedelta() else ""
    clock = (datetime.min + size % timedelta(days=1)).time()  # noqa: DTZ901
    return f"{sign}{size.days}.{clock.isoformat('microseconds')}0"


def clock_of(value: timedelta) -> str:
    size, sign = abs(value), "-" if value < timedelta() else ""
    hour = size % timedelta(hours=1)
    minute, rest = divmod(hour, timedelta(minutes=1))
    return f"{sign}{size // timedelta(hours=1)}:{minute:02}:{rest.seconds:02}.{rest.microseconds:06}"


@pytest.mark.parametrize("write", [iso_of, str, go_of, dot_net_of, clock_of])
@settings(max_examples=40, deadline=None)
@given(LONGS | st.integers(-(10**13), 10**13))
def test_a_duration_is_read_as_each_writer_writes_it(write: Callable[[timedelta], str], number: int) -> None:
    text = write(timedelta(microseconds=number))
    assert values(TRIPS, took=text)["took"] == number
    assert decoded(ROWS, f'{AT},"{text}",'.encode()).events["took"].to_pylist() == [number]


@settings(max_examples=40, deadline=None)
@given(st.times(), st.text("0123456789", max_size=4))
def test_a_time_of_day_is_read_as_python_writes_it(of_day: time, further: str) -> None:
    full = of_day.isoformat("microseconds") + further
    texts = [full, "T" + full, of_day.isoformat("microseconds").replace(":", ""), full.replace(".", ",")]
    if of_day.isoformat() == of_day.isoformat("seconds"):
        texts.append(of_day.isoformat("seconds"))
    for text in texts:
        assert values(TRIPS, took="PT0S", begins=text)["begins"] == microseconds(of_day), text
        assert time.fromisoformat(text) == of_day
    assert (
        values(TRIPS, took="PT0S", begins=of_day.isoformat("minutes"))["begins"]
        == microseconds(of_day) // 60_000_000 * 60_000_000
    )


@settings(max_examples=40, deadline=None)
@given(LONGS, st.integers(0, 86_399_999_999))
def test_numbers_are_of_the_declared_unit(took: int, begins: int) -> None:
    """Toward zero, whether JSON has a number or its digits in a text."""
    number, of_day = Decimal(took).scaleb(-3), Decimal(begins).scaleb(-6)
    for further in ("", "9"):
        digits = f"{number:f}" + ("" if "." in f"{number:f}" or not further else ".000") + further
        value = f'{{"at":"{AT}","took":{digits},"begins":"{of_day:f}"}}'
        (row,) = decoded(COUNTED, value.encode()).events.to_pylist()
        assert (row["took"], row["begins"]) == (took, begins)


CASES = {
    "PT1.0000019S": 1_000_001,
    "-PT1.0000019S": -1_000_001,
    "PT0.0000009S": 0,
    "-PT0.0000009S": 0,
    "PT-1H-30M": -5_400_000_000,
    "PT36H": 129_600_000_000,
    "p1dt2h": 93_600_000_000,
    "P2W": 1_209_600_000_000,
    "PT1,5H": 5_400_000_000,
    "P0Y0M1D": 86_400_000_000,
    "24:00:00": 86_400_000_000,
    "25:10:00": 90_600_000_000,
    "-1 days +22:00:00": -7_200_000_000,
    "1 day, 2:00:00": 93_600_000_000,
    "1.02:00:00": 93_600_000_000,
    "1.5s": 1_500_000,
    "-0.25s": -250_000,
    "1h30m0s": 5_400_000_000,
    "250ms": 250_000,
    "1µs": 1,
    "1999ns": 1,
    "P1Y": "invalid_value",
    "P1M": "invalid_value",
    "P106751992D": "out_of_range",
    "9" * 60 + "s": "out_of_range",
    "9" * 200 + "s": "invalid_value",
    "90": "invalid_value",
    "1:30": "invalid_value",
    "1:60:00": "invalid_value",
    "P": "invalid_value",
    "PT": "invalid_value",
    "": "invalid_value",
    " PT1S": "invalid_value",
    "٣s": "invalid_value",
}


@pytest.mark.parametrize(("text", "expected"), CASES.items())
def test_durations(text: str, expected: int | str) -> None:
    row = values(TRIPS, took=text)
    assert row.get("took", row.get("reason")) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    {
        "23:59:59.9999999": 86_399_999_999,
        "23:59:60": 86_399_999_999,
        "24:00": "out_of_range",
        "12:00:60": "invalid_value",
        "25:00": "invalid_value",
        "13:45Z": "invalid_value",
        "13:45+01:00": "invalid_value",
        "9:05": "invalid_value",
        "13:4510": "invalid_value",
        "13": "invalid_value",
        "2026-11-01T13:45": "invalid_value",
    }.items(),
)
def test_times_of_day(text: str, expected: int | str) -> None:
    row = values(TRIPS, took="PT0S", begins=text)
    assert row.get("begins", row.get("reason")) == expected


def test_a_number_needs_a_unit() -> None:
    reject = values(TRIPS, took=90)
    assert (reject["reason"], reject["detail"][:44]) == ("wrong_type", 'field took: a number, of which Unit("s"), "m')
    assert values(COUNTED, took="PT1S")["reason"] == "invalid_value"
    assert values(COUNTED, took=1e300)["reason"] == "out_of_range"
    assert values(COUNTED, took=0, begins=86_400)["reason"] == "out_of_range"
    assert values(COUNTED, took=0, begins=-1e-9)["reason"] == "out_of_range"
    assert values(COUNTED, took=True)["reason"] == "wrong_type"


def test_lists_and_maps_hold_them() -> None:
    row = values(TRIPS, took="PT0S", stops=["PT1S", "1m"], by_name={"b": "13:45", "a": "00:00:01.0000019"})
    assert (row["stops"], row["by_name"]) == ([1_000_000, 60_000_000], [("a", 1_000_001), ("b", 49_500_000_000)])


def test_a_time_of_day_has_a_format() -> None:
    source = Source(topic="t", event=Afternoon, event_time="at")
    assert values(source, begins="1:05 pm")["begins"] == microseconds(time(13, 5))
    assert values(source, begins="13:05 PM")["reason"] == "invalid_value"


def test_logs_of_servers_have_them() -> None:
    class Apache(Event):
        duration_us: Annotated[timedelta, Unit("us")]
        time: datetime

    class Nginx(Event):
        request_time: Annotated[timedelta, Unit("s")]
        time_iso8601: datetime
        upstream_response_time: list[Annotated[timedelta, Unit("s")] | None]

    source = Source(topic="t", event=Apache, event_time="time", decoder=apache(format="%t %D"))
    assert decoded(source, b"[01/Nov/2026:08:00:00 +0000] 1500").events["duration_us"].to_pylist() == [1500]
    lines = nginx(format="$time_iso8601 $request_time $upstream_response_time")
    source = Source(topic="t", event=Nginx, event_time="time_iso8601", decoder=lines)
    (row,) = decoded(source, b"2026-11-01T08:00:00+00:00 0.005 0.001, -, 1.250").events.to_pylist()
    assert (row["request_time"], row["upstream_response_time"]) == (5_000, [1_000, None, 1_250_000])

    class Object(Event):
        request_time: Annotated[timedelta, Unit("s")]
        time_iso8601: datetime

    source = Source(topic="t", event=Object, event_time="time_iso8601", decoder=nginx_json())
    for written in (b"0.005", b'"0.005"'):
        value = b'{"time_iso8601":"2026-11-01T08:00:00+00:00","request_time":%s}' % written
        assert decoded(source, value).events["request_time"].to_pylist() == [5_000]


AVRO = {"type": "record", "name": "R", "fields": [{"name": "at", "type": "string"}]}


def avro_value(type_: Any, value: Any) -> tuple[dict[str, Any], bytes]:
    """A schema with the field `took`, and fastavro's bytes of a value."""
    schema = {**AVRO, "fields": [*AVRO["fields"], {"name": "took", "type": type_}]}
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), {"at": AT, "took": value})
    return schema, stream.getvalue()


@settings(max_examples=40, deadline=None)
@given(st.times())
def test_avro_times_of_day_are_what_fastavro_wrote(of_day: time) -> None:
    class Opens(Event):
        at: datetime
        took: time

    schema, value = avro_value({"type": "long", "logicalType": "time-micros"}, of_day)
    source = Source(topic="t", event=Opens, event_time="at", decoder=avro(schema=schema))
    assert decoded(source, value).events["took"].to_pylist() == [microseconds(of_day)]


def test_avro_values_beyond_a_day_or_without_a_length_are_rejects() -> None:
    class Opens(Event):
        at: datetime
        took: time | None

    class Lasts(Event):
        at: datetime
        took: timedelta | None

    class Raw(Event):
        at: datetime
        took: bytes

    millis, duration = {"type": "int", "logicalType": "time-millis"}, {"type": "fixed", "name": "D", "size": 12}
    for number, expected in ((-1, "out_of_range"), (86_400_000, "out_of_range"), (86_399_999, "event")):
        _, value = avro_value("int", number)
        schema, _ = avro_value(millis, time())
        assert reason(Source(topic="t", event=Opens, event_time="at", decoder=avro(schema=schema)), value) == expected
    schema = {**AVRO, "fields": [*AVRO["fields"], {"name": "took", "type": {**duration, "logicalType": "duration"}}]}
    for parts, expected in (((1, 0, 0), "invalid_value"), ((0, 2**32 - 1, 2**32 - 1), "out_of_range"), ((0, 3, 4), "event")):
        written = b"".join(part.to_bytes(4, "little") for part in parts)
        _, value = avro_value(duration, written)
        lasts = Source(topic="t", event=Lasts, event_time="at", decoder=avro(schema=schema))
        assert reason(lasts, value) == expected
        raw = Source(topic="t", event=Raw, event_time="at", decoder=avro(schema=schema))
        assert decoded(raw, value).events["took"].to_pylist() == [written]


def function(value: bytes) -> Trip:
    return Trip(datetime(2026, 11, 1, tzinfo=UTC), timedelta(seconds=1), time(1, tzinfo=UTC if value else None))


def test_a_function_gives_no_zone_to_a_time_of_day() -> None:
    source = Source(topic="t", event=Trip, event_time="at", decoder=function)
    assert reason(source, b"x") == "invalid_value"


@settings(max_examples=6, deadline=None)
@given(st.lists(st.tuples(st.times(), LONGS.map(lambda number: timedelta(microseconds=number))), min_size=1, max_size=6))
def test_views_count_microseconds(drawn: list[tuple[time, timedelta]]) -> None:
    view = View(
        TRIPS,
        keys={"begins": "begins", "hour": "begins // 3600000000"},
        measures={"n": count(), "took": total("took"), "longest": maximum("took")},
    )
    at = datetime(2026, 11, 1, tzinfo=UTC)
    rows = checked_answer(view, [Trip(at, took, begins) for begins, took in drawn])
    expected: dict[time, list[int]] = {}
    for begins, took in drawn:
        expected.setdefault(begins, []).append(microseconds(took))
    assert {row["begins"]: (row["hour"], row["n"], int(row["took"]), row["longest"]) for row in rows} == {
        microseconds(begins): (begins.hour, len(some), sum(some), max(some)) for begins, some in expected.items()
    }


def test_annotations_that_contradict_are_refused() -> None:
    cases = [
        (Annotated[timedelta, Epoch("ms")], 'the numbers of a timedelta have Unit("ms")'),
        (Annotated[timedelta, Unit("min")], "are of the unit s, ms, us, ns, not 'min'"),
        (Annotated[timedelta, Format("%H:%M")], "belongs to a datetime or date"),
        (Annotated[time, Zone("Europe/Berlin")], "belongs to a datetime or date"),
        (Annotated[time, Format("%Y-%m-%d %H:%M")], "has a date or a zone"),
        (Annotated[time, Format("%H:%M %z")], "has a date or a zone"),
        (Annotated[time, Format("%H:%M"), Unit("s")], "contradict each other"),
        (Annotated[datetime, Format("%H:%M"), Zone("UTC")], "the year is missing"),
        (Annotated[date, Format("%H:%M")], "the year is missing"),
    ]
    for annotation, match in cases:
        with pytest.raises(DefinitionError) as error:
            event_fields(msgspec.defstruct("E", [("x", annotation)], bases=(Event,)))
        assert match in str(error.value)


def test_another_unit_or_type_is_another_meaning() -> None:
    kinds = [int, timedelta, time, Annotated[timedelta, Unit("s")], Annotated[timedelta, Unit("ms")]]
    events = [msgspec.defstruct("E", [("x", kind)], bases=(Event,)) for kind in kinds]
    assert len({repr(event_meaning(event)) for event in events}) == len(kinds)
    assert all([*differences(old, new)] for old in events for new in events if old is not new)
    assert {field.unit for event in events[1:] for field in event_fields(event)} == {"us"}
