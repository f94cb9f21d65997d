"""Times as they are written in all formats, compared with Python's datetime, zoneinfo and fractions."""

# ruff: noqa: DTZ001, DTZ901 - wall clocks show times without a zone

import json as plain
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from io import BytesIO
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import fastavro
import msgspec
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tandem import Epoch, Event, Format, Source, Version, Zone, avro, csv, json, nginx_json, protobuf, syslog
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint
from tandem.views.fingerprint.schema_evolution import breaks
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.format import RecordFormat
from tests.views.logged import decoded, reason

BERLIN = ZoneInfo("Europe/Berlin")
UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


class Plain(Event):
    at: datetime


class Second(Event):
    at: Annotated[datetime, Epoch("s")]


class Milli(Event):
    at: Annotated[datetime, Epoch("ms")]


class Micro(Event):
    at: Annotated[datetime, Epoch("us")]


class Nano(Event):
    at: Annotated[datetime, Epoch("ns")]


class Logged(Event):
    at: Annotated[datetime, Format("%d/%b/%Y:%H:%M:%S %z")]


class Local(Event):
    at: Annotated[datetime, Zone("Europe/Berlin")]


class LocalSecond(Event):
    at: Annotated[datetime, Zone("Europe/Berlin", fold="second", gap="reject")]


class LocalFormat(Event):
    at: Annotated[datetime, Format("%m/%d/%y %I:%M %p"), Zone("America/New_York")]


EPOCHS: dict[str, type[Event]] = {"s": Second, "ms": Milli, "us": Micro, "ns": Nano}


def message_type() -> tuple[bytes, Any]:
    file = FileDescriptorProto(name="at.proto", package="at", syntax="proto3")
    for name, kind in (("Text", FieldDescriptorProto.TYPE_STRING), ("Long", FieldDescriptorProto.TYPE_INT64)):
        file.message_type.add(name=name).field.add(name="at", number=1, type=kind, label=FieldDescriptorProto.LABEL_OPTIONAL)
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return FileDescriptorSet(file=[file]).SerializeToString(), pool


DESCRIPTOR, POOL = message_type()


def proto(name: str, at: Any) -> bytes:
    return bytes(GetMessageClass(POOL.FindMessageTypeByName(f"at.{name}"))(at=at).SerializeToString())


def avro_schema(kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "at", "type": kind}]}


def avro_value(kind: Any, at: Any) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(avro_schema(kind)), {"at": at})
    return stream.getvalue()


TEXTS: dict[str, tuple[RecordFormat, Callable[[str], bytes]]] = {
    "json": (json(), lambda at: plain.dumps({"at": at}).encode()),
    "csv": (csv(columns=("at", "b")), lambda at: f'"{at}",x'.encode()),
    "avro": (avro(schema=avro_schema("string")), lambda at: avro_value("string", at)),
    "protobuf": (protobuf(descriptor=DESCRIPTOR, message="at.Text"), lambda at: proto("Text", at)),
}
"""Formats in which a time is a text."""


def outcome(decoder: RecordFormat, event: type[Event], value: bytes) -> datetime | str:
    """The time that a decoder reads, in UTC, or the reason of its reject."""
    try:
        at: datetime = decoder.parser(event)(value).at
    except Reject as reject:
        return reject.reason
    return at.astimezone(UTC)


def of_text(event: type[Event], text: str) -> datetime | str:
    """What all formats make of a text."""
    outcomes = {name: outcome(decoder, event, write(text)) for name, (decoder, write) in TEXTS.items()}
    assert len(set(outcomes.values())) == 1, outcomes
    return outcomes["json"]


def time_of(microseconds: Fraction) -> datetime | str:
    """The oracle: the microsecond that an instant is in."""
    try:
        return EPOCH + timedelta(microseconds=microseconds.__floor__())
    except OverflowError:
        return "out_of_range"


NUMBERS = st.decimals(allow_nan=False, allow_infinity=False, places=9) | st.integers().map(lambda number: number * 10**6)
NEAR = st.decimals(min_value=-(10**15), max_value=10**15, places=9)


@pytest.mark.parametrize("unit", UNITS)
@given(NEAR | NUMBERS)
@example(0)
@example(-1)
@example(-62_135_596_800)
@example(253_402_300_799)
@example(253_402_300_800)
@example(-966_726_325_431_000_000)
def test_a_number_since_1970_is_the_microsecond_that_it_is_in(unit: str, number: Any) -> None:
    expected = time_of(Fraction(number) * 10**6 / UNITS[unit])
    number = Decimal(number)  # of an int, a format gives the digits of a double
    text = format(number, "f")
    assert of_text(EPOCHS[unit], text) == expected
    assert outcome(json(), EPOCHS[unit], f'{{"at":{text}}}'.encode()) == expected
    assert outcome(json(), EPOCHS[unit], f'{{"at": {number:e} }}'.encode()) == time_of(
        Fraction(f"{number:e}") * 10**6 / UNITS[unit]
    )


@pytest.mark.parametrize("unit", UNITS)
@given(st.integers(-(2**63), 2**63 - 1))
def test_an_integer_of_avro_and_protobuf_is_a_time(unit: str, number: int) -> None:
    expected = time_of(Fraction(number) * 10**6 / UNITS[unit])
    event = EPOCHS[unit]
    assert outcome(avro(schema=avro_schema("long")), event, avro_value("long", number)) == expected
    assert (
        outcome(
            avro(schema=avro_schema(["null", "string", "long"])),
            event,
            avro_value(["null", "long"], number)[:0] + b"\x04" + avro_value("long", number),
        )
        == expected
    )
    assert outcome(protobuf(descriptor=DESCRIPTOR, message="at.Long"), event, proto("Long", number)) == expected


@given(st.floats(min_value=-1e11, max_value=1e12))
def test_a_double_is_the_shortest_decimal_that_is_read_as_it(number: float) -> None:
    expected = time_of(Fraction(repr(number)) * 10**6)
    assert outcome(avro(schema=avro_schema("double")), Second, avro_value("double", number)) == expected
    assert outcome(json(), Second, f'{{"at":{number!r}}}'.encode()) == expected


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "+1", "1.", ".5", "0x10", "1e3", "١٢٣", "2026-11-01T08:00:00Z", "1_000", "NaN", "Infinity", "-"]
)
def test_a_text_of_a_number_since_1970_has_digits_alone(text: str) -> None:
    for name, (decoder, write) in TEXTS.items():
        expected = "missing_field" if name == "csv" and not text else "invalid_value"
        assert outcome(decoder, Second, write(text)) == expected


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1e99999999999", "9" * 6000])
def test_a_number_beyond_the_calendar_is_out_of_range(number: str) -> None:
    assert outcome(json(), Second, f'{{"at":{number}}}'.encode()) == "out_of_range"


@pytest.mark.parametrize("number", ["-1e-400", "-0.0000001", "-1e-99999999999"])
def test_a_little_before_1970_is_the_microsecond_before(number: str) -> None:
    assert outcome(json(), Second, f'{{"at":{number}}}'.encode()) == EPOCH - timedelta(microseconds=1)


@pytest.mark.parametrize("value", [b'{"at":true}', b'{"at":null}', b'{"at":[1]}', b'{"at":{}}'])
@pytest.mark.parametrize("event", [Second, Local, Logged, Plain])
def test_what_is_neither_number_nor_text_is_no_time(event: type[Event], value: bytes) -> None:
    assert outcome(json(), event, value) == "wrong_type"


@pytest.mark.parametrize("event", [Local, Logged, Plain])
def test_a_number_is_a_time_only_with_its_unit(event: type[Event]) -> None:
    assert outcome(json(), event, b'{"at":1793520000}') == "wrong_type"


OFFSETS = st.integers(-23 * 60 - 59, 23 * 60 + 59)


@st.composite
def iso(draw: Any) -> tuple[str, datetime | str]:
    """A text of ISO 8601 and its instant."""
    time = draw(st.datetimes() | st.sampled_from([datetime.min, datetime.max, datetime(2026, 12, 31, 23, 59, 59)]))
    minutes = draw(OFFSETS)
    basic, further = draw(st.booleans()), draw(st.sampled_from(["", "0", "9", "500001", "9999999"]))
    precision = draw(st.sampled_from(["minute", "second", "fraction"]))
    sign, hours, rest = "-" if minutes < 0 else "+", abs(minutes) // 60, abs(minutes) % 60
    offset = draw(st.sampled_from([f"{hours:02}:{rest:02}", f"{hours:02}{rest:02}", *([f"{hours:02}"] if not rest else [])]))
    dash, colon = ("", "") if basic else ("-", ":")
    between = draw(st.sampled_from("Tt "))
    text = f"{time.year:04}{dash}{time.month:02}{dash}{time.day:02}{between}{time.hour:02}{colon}{time.minute:02}"
    time = time.replace(
        microsecond=0 if precision != "fraction" else time.microsecond, second=0 if precision == "minute" else time.second
    )
    if precision != "minute":
        text += f"{colon}{time.second:02}"
    if precision == "fraction":
        text += f"{draw(st.sampled_from('.,'))}{time.microsecond:06}{further}"
    zone = draw(st.sampled_from("Zz")) if not minutes else f"{sign}{offset}"
    try:
        return text + zone, (time - timedelta(minutes=minutes)).replace(tzinfo=UTC)
    except OverflowError:
        return text + zone, "out_of_range"


@given(iso())
def test_iso_8601_is_read_as_it_is_written(case: tuple[str, datetime | str]) -> None:
    text, expected = case
    for event in (Plain, Local):
        assert of_text(event, text) == expected if isinstance(expected, datetime) else "out_of_range"
    source = Source("times", Plain, "at", plausible=(FIRST, LAST))
    if isinstance(expected, datetime) and expected < LAST:
        assert decoded(source, plain.dumps({"at": text}).encode()).events["at"].to_pylist() == [expected]
    elif not isinstance(expected, datetime):
        assert reason(source, plain.dumps({"at": text}).encode()) == "out_of_range"


SHAPES = {
    "2026-11-01T08:00Z": datetime(2026, 11, 1, 8, tzinfo=UTC),
    "2026-11-01 08:00:00,25+00": datetime(2026, 11, 1, 8, 0, 0, 250_000, UTC),
    "20261101T080000.9999999+0530": datetime(2026, 11, 1, 2, 30, 0, 999_999, UTC),
    "2026-10-31T24:00Z": datetime(2026, 11, 1, tzinfo=UTC),
    "2026-10-31T24:00:00.000+01:00": datetime(2026, 10, 31, 23, tzinfo=UTC),
    "9999-12-31T24:00:00+01:00": datetime(9999, 12, 31, 23, tzinfo=UTC),
    "9999-12-31T24:00:00Z": "out_of_range",
    "2026-10-31T24:00:01Z": "invalid_value",
    "2026-10-31T24:01Z": "invalid_value",
    "2016-12-31T23:59:60Z": datetime(2016, 12, 31, 23, 59, 59, 999_999, UTC),
    "2016-12-31T23:59:60.5Z": datetime(2016, 12, 31, 23, 59, 59, 999_999, UTC),
    "2017-01-01T05:29:60+05:30": datetime(2016, 12, 31, 23, 59, 59, 999_999, UTC),
    "9999-12-31T23:59:60Z": LAST,
    "2016-12-30T23:59:60Z": "invalid_value",
    "2016-12-31T22:59:60Z": "invalid_value",
    "2016-12-31T23:59:61Z": "invalid_value",
    "2026-02-29T08:00Z": "invalid_value",
    "2026-11-01T25:00Z": "invalid_value",
    "0000-01-01T00:00Z": "invalid_value",
    "2026-11-01T08:00+24": "invalid_value",
    "2026-11-01T08:00+05:60": "invalid_value",
    "2026-11-01 08:00:00 UTC": datetime(2026, 11, 1, 8, tzinfo=UTC),
    "2026-11-01 08:00:00.5 utc": datetime(2026, 11, 1, 8, 0, 0, 500_000, UTC),
    "2026-11-01 08:00:00.000 +0100": datetime(2026, 11, 1, 7, tzinfo=UTC),
    "2026-11-01 08:00 -05:30": datetime(2026, 11, 1, 13, 30, tzinfo=UTC),
    "2026-11-01T08:00": "no_zone",
    "20261101T0800": "no_zone",
    "2026-11-01T08:00:00": "no_zone",
    **dict.fromkeys(
        (
            "2026-11-01",
            "20261101",
            "2026-W44-7T08:00:00Z",
            "2026-305T08:00:00Z",
            "2026-11-01T08Z",
            "2026-11-01T08:00.5Z",
            "2026-11-01T080000Z",
            "20261101T08:00:00Z",
            "2026-1101T08:00:00Z",
            "2026-11-01T08:0000Z",
            "2026-11-01T08:00:00.Z",
            " 2026-11-01T08:00:00Z",
            "2026-11-01  08:00:00Z",
            "2026-11-01 08:00:00  Z",
            "2026-11-01 08:00:00UTC",
            "2026-11-01 08:00:00 CET",
            "2026-11-01 08:00:00 +0000 UTC",
            "٢٠٢٦-11-01T08:00:00Z",
            "+2026-11-01T08:00:00Z",
            "1793520000",
            "now",
        ),
        "invalid_value",
    ),
}


@pytest.mark.parametrize("text", SHAPES)
def test_every_shape_has_one_meaning_in_all_formats(text: str) -> None:
    found = of_text(Plain, text) if not text.isascii() or "T08:00:00" not in text or not text.endswith(":00") else "no_zone"
    assert found == SHAPES[text]


def test_a_time_without_zone_is_a_reject_in_json_too() -> None:
    assert reason(Source("times", Plain, "at"), b'{"at":"2026-11-01T08:00:00"}') == "no_zone"


WALL = (
    st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31))
    | st.datetimes(datetime(2026, 3, 29), datetime(2026, 3, 29, 6))
    | st.datetimes(datetime(2026, 10, 25), datetime(2026, 10, 25, 6))
)


def on_clocks(wall: datetime, zone: ZoneInfo) -> list[datetime]:
    """The instants at which clocks show a time: none, one or two. By the offsets of a day before and after, not by fold."""
    near = {(wall + timedelta(days=days)).replace(tzinfo=UTC).astimezone(zone).utcoffset() for days in (-1, 0, 1)}
    instants = {(wall - offset).replace(tzinfo=UTC) for offset in near if offset is not None}
    return sorted(one for one in instants if one.astimezone(zone).replace(tzinfo=None) == wall)


@given(WALL)
@example(datetime(2026, 10, 25, 2, 30))
@example(datetime(2026, 10, 25, 2, 0))
@example(datetime(2026, 10, 25, 2, 59, 59, 999_999))
@example(datetime(2026, 10, 25, 3, 0))
@example(datetime(2026, 3, 29, 2, 0))
@example(datetime(2026, 3, 29, 2, 30))
@example(datetime(2026, 3, 29, 3, 0))
@example(datetime(2, 1, 1))
def test_a_time_without_zone_is_on_the_clocks_of_its_zone(wall: datetime) -> None:
    instants = on_clocks(wall, BERLIN)
    shifted = (wall - timedelta(hours=1)).replace(tzinfo=UTC)
    assert len(instants) < 3
    for text in (wall.isoformat(), wall.isoformat(" ")):
        assert of_text(Local, text) == (instants[0] if instants else shifted)
        assert of_text(LocalSecond, text) == (instants[-1] if instants else "invalid_value")


def test_both_ends_of_the_calendar_are_rejects_where_utc_has_none() -> None:
    assert of_text(Local, "0001-01-01T00:00:00") == "out_of_range"
    assert of_text(Local, "9999-12-31T23:59:59.999999") == datetime(9999, 12, 31, 22, 59, 59, 999_999, UTC)
    assert of_text(Local, "0001-01-01T00:53:28") == FIRST


def test_a_zone_in_the_text_decides() -> None:
    assert of_text(Local, "2026-07-01T08:00:00Z") == datetime(2026, 7, 1, 8, tzinfo=UTC)
    assert of_text(Local, "2026-07-01T08:00+09") == datetime(2026, 6, 30, 23, tzinfo=UTC)
    assert of_text(Local, "2026-07-01T24:00") == datetime(2026, 7, 1, 22, tzinfo=UTC)


@given(st.datetimes(datetime(1000, 1, 1)), OFFSETS)
def test_a_pattern_reads_what_strftime_writes(time: datetime, minutes: int) -> None:
    there = time.replace(tzinfo=timezone(timedelta(minutes=minutes)), microsecond=0)
    try:
        expected: datetime | str = there.astimezone(UTC)
    except OverflowError:
        expected = "out_of_range"
    assert of_text(Logged, there.strftime("%d/%b/%Y:%H:%M:%S %z")) == expected


PATTERNS = [
    "%Y-%m-%dT%H:%M:%S.%f%z",
    "%A, %d. %B %Y %I:%M:%S,%f %p %z",
    "%Y%m%d%H%M%S %f %z",
    "%j/%Y %T.%f %z",
    "%a %F at %H.%M.%S.%f UTC%z",
    "%z%%%d%b%Y%H%M%S,%f",
]


@pytest.mark.parametrize("pattern", PATTERNS)
@given(st.datetimes(datetime(1000, 1, 1)), OFFSETS)
def test_each_directive_reads_what_strftime_writes(pattern: str, time: datetime, minutes: int) -> None:
    class Patterned(Event):
        at: Annotated[datetime, Format(pattern)]

    there = time.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    try:
        expected: datetime | str = there.astimezone(UTC)
    except OverflowError:
        expected = "out_of_range"
    assert of_text(Patterned, there.strftime(pattern)) == expected


CASES: list[tuple[str, str, datetime | str]] = [
    ("%m/%d/%Y %z", "6/1/2026 Z", datetime(2026, 6, 1, tzinfo=UTC)),
    ("%m/%d/%Y %z", "6/1/26 Z", "invalid_value"),
    ("%m%d%Y%z", "6012026Z", "invalid_value"),
    ("%b %e %Y %Z", "nov  1 2026 gmt", datetime(2026, 11, 1, tzinfo=UTC)),
    ("%d-%b-%y %Z", "01-JAN-69 UTC", datetime(1969, 1, 1, tzinfo=UTC)),
    ("%d-%b-%y %Z", "01-JAN-68 UTC", datetime(2068, 1, 1, tzinfo=UTC)),
    ("%Y-%m-%d %I:%M %p %z", "2026-11-01 12:30 am Z", datetime(2026, 11, 1, 0, 30, tzinfo=UTC)),
    ("%Y-%m-%d %I:%M %p %z", "2026-11-01 12:30 PM Z", datetime(2026, 11, 1, 12, 30, tzinfo=UTC)),
    ("%Y-%m-%d %I:%M %p %z", "2026-11-01 13:30 PM Z", "invalid_value"),
    ("%a %d %b %Y %z", "Mon 01 Nov 2026 Z", "invalid_value"),
    ("%a %d %b %Y %z", "Sun 01 Nov 2026 Z", datetime(2026, 11, 1, tzinfo=UTC)),
    ("%j %Y %z", "366 2026 Z", "invalid_value"),
    ("%j %Y %z", "000 2026 Z", "invalid_value"),
    ("%j %Y %z", "366 2024 Z", datetime(2024, 12, 31, tzinfo=UTC)),
    ("%F %T%z", "2016-12-31 23:59:60Z", datetime(2016, 12, 31, 23, 59, 59, 999_999, UTC)),
    ("%F %T%z", "2026-10-31 24:00:00Z", datetime(2026, 11, 1, tzinfo=UTC)),
    ("%F %T%z", "2026-10-31  08:00:00Z", "invalid_value"),
    ("%F %T%z", "2026-10-31 08:00:00", "invalid_value"),
    ("%F %T.%f%z", "2026-10-31 08:00:00.9999999Z", datetime(2026, 10, 31, 8, 0, 0, 999_999, UTC)),
    ("%F (%z)", "2026-10-31 (+01)", datetime(2026, 10, 30, 23, tzinfo=UTC)),
]


@pytest.mark.parametrize(("pattern", "text", "expected"), CASES)
def test_a_pattern_guesses_nothing(pattern: str, text: str, expected: datetime | str) -> None:
    class Patterned(Event):
        at: Annotated[datetime, Format(pattern)]

    assert of_text(Patterned, text) == expected


def test_a_pattern_without_zone_is_on_the_clocks_of_its_zone() -> None:
    assert of_text(LocalFormat, "11/01/26 01:30 AM") == datetime(2026, 11, 1, 5, 30, tzinfo=UTC)
    assert of_text(LocalFormat, "03/08/26 02:30 AM") == datetime(2026, 3, 8, 7, 30, tzinfo=UTC)


class Day(Event):
    at: Annotated[date, Format("%b %d %Y")]
    seen: Annotated[date, Format("%m/%d/%Y")] | None = None


def test_a_date_is_read_by_its_pattern() -> None:
    assert json().parser(Day)(b'{"at":"Jun 12 1998","seen":null}') == Day(date(1998, 6, 12))
    assert csv(columns=("at", "seen")).parser(Day)(b"Feb 2 0001,6/1/2026") == Day(date(1, 2, 2), date(2026, 6, 1))
    assert outcome(json(), Day, b'{"at":"1998-06-12"}') == "invalid_value"


class Leg(msgspec.Struct):
    began: Annotated[datetime, Epoch("ms")]
    ended: Annotated[datetime, Zone("Europe/Berlin")] | None
    note: str


class Trip(Event):
    at: datetime
    legs: list[Leg]
    days: list[Annotated[datetime, Format("%F %z")]]
    maybe: list[Annotated[datetime | None, Epoch("s")]] | None = None


def test_times_in_structs_and_lists_are_read_as_their_own_annotations_say() -> None:
    leg = {"began": 1.5, "ended": "2026-07-01 08:00", "note": "2026-07-01 08:00"}
    value = {
        "at": "2026-11-01 08:00Z",
        "legs": [leg, {**leg, "ended": None}],
        "days": ["2026-11-01 Z"],
        "maybe": [None, 1, "2.5"],
    }
    began, ended = datetime(1970, 1, 1, 0, 0, 0, 1500, UTC), datetime(2026, 7, 1, 6, tzinfo=UTC)
    expected = Trip(
        datetime(2026, 11, 1, 8, tzinfo=UTC),
        [Leg(began, ended, "2026-07-01 08:00"), Leg(began, None, "2026-07-01 08:00")],
        [datetime(2026, 11, 1, tzinfo=UTC)],
        [None, EPOCH + timedelta(seconds=1), EPOCH + timedelta(seconds=2.5)],
    )
    assert json().parser(Trip)(plain.dumps(value).encode()) == expected
    listed = json().listed(Trip)
    assert [listed.parse(part) for part in listed.split(plain.dumps([value, value]).encode())] == [expected, expected]


@pytest.mark.parametrize(
    ("event", "value"),
    [
        (Second, b'{"at":1,"at":2}'),
        (Second, b'{"at":1,"\\u0061t":2}'),
        (Plain, b'{"at":"20261101T0800Z","at":"20261101T0900Z"}'),
        (Plain, b'{"at":"2026-11-01T08:00:00Z","at":"20261101T0900Z"}'),
    ],
)
def test_a_key_occurs_once_also_where_times_are_short(event: type[Event], value: bytes) -> None:
    assert outcome(json(), event, value) == "repeated_key"


def test_a_text_that_nobody_reads_decides_nothing_beside_such_times() -> None:
    assert outcome(json(), Second, b'{"at":1,"x":"\xff"}') == EPOCH + timedelta(seconds=1)
    assert outcome(json(), Plain, b'{"at":"20261101T0800Z","x":"\\ud83d"}') == datetime(2026, 11, 1, 8, tzinfo=UTC)


class Variable(Event):
    msec: Annotated[datetime, Epoch("s")]
    stamp: Annotated[datetime, Zone("UTC")] | None = None


def test_a_variable_of_nginx_is_read_as_its_annotation_says() -> None:
    parse = nginx_json().parser(Variable)
    half = EPOCH + timedelta(seconds=1.5)
    assert parse(b'{"msec":"1.5000009","stamp":"-"}') == parse(b'{"msec":1.5000009}') == Variable(half)
    assert parse(b'{"msec":15e-1,"stamp":"1970-01-01T00:00"}') == Variable(half, EPOCH)


def test_a_zone_reads_avros_times_without_zone() -> None:
    kind = {"type": "long", "logicalType": "local-timestamp-micros"}
    decoder = avro(schema=avro_schema(kind))
    assert outcome(decoder, Local, avro_value("long", 1_782_892_800_000_000)) == datetime(2026, 7, 1, 6, tzinfo=UTC)
    with pytest.raises(DefinitionError, match="local-timestamp-micros"):
        decoder.parser(Plain)


def test_a_time_of_avro_needs_no_annotation_and_bears_one() -> None:
    kind = {"type": "long", "logicalType": "timestamp-millis"}
    for event in (Plain, Second, Local, Logged):
        assert outcome(avro(schema=avro_schema(kind)), event, avro_value("long", 1)) == EPOCH + timedelta(milliseconds=1)


def later(old: Any) -> Any:
    return Second(old.at)


def test_an_earlier_version_has_its_own_notation() -> None:
    source = Source("times", Second, "at", versions=(Version(Local, later),), plausible=(FIRST, LAST))
    found = decoded(source, b'{"at":1}', b'{"at":"1970-01-01 01:00:02"}', b'{"at":"soon"}')
    assert found.events["at"].to_pylist() == [EPOCH + timedelta(seconds=1), EPOCH + timedelta(seconds=2)]
    assert found.rejects["detail"].to_pylist() == ["field at: not the digits of a number of seconds since 1970: 'soon'"]


def annotated(*marks: Any, kind: Any = datetime) -> type[Event]:
    return with_field("at", Annotated[(kind, *marks)])


def with_field(name: str, annotation: Any) -> type[Event]:
    event = msgspec.defstruct("Annotations", [(name, annotation)], bases=(Event,), frozen=True)
    assert issubclass(event, Event)
    return event


@pytest.mark.parametrize(
    ("marks", "sentence"),
    [
        ((lambda: Epoch("m"),), "is of"),  # type: ignore[arg-type]
        ((lambda: Zone("Europe/Berln"),), "Europe/Berlin"),
        ((lambda: Zone("UTC", fold="both"),), "neither"),  # type: ignore[arg-type]
        ((lambda: Zone("UTC", gap="skip"),), "neither"),  # type: ignore[arg-type]
        ((lambda: Format("%d.%m %z"),), "the year is missing"),
        ((lambda: Format("%Y-%m-%d"),), "gives no zone"),
        ((lambda: Format("%Y-%m-%d %q %z"),), "unknown directive %q"),
        ((lambda: Format("%Y-%m-%d %"),), "unknown directive %"),
        ((lambda: Format("%Y-%m-%d %d %z"),), "occurs 2 times"),
        ((lambda: Format("%Y-%m-%d %H %I %p %z"),), "both give the hour"),
        ((lambda: Format("%Y-%m-%d %I %z"),), "goes with %p"),
        ((lambda: Format("%f%Y-%m-%d %z"),), "any number of digits"),
        ((lambda: Epoch("s"), lambda: Zone("UTC")), "contradict"),
        ((lambda: Epoch("s"), lambda: Epoch("ms")), "contradict"),
        ((lambda: Format("%F %z"), lambda: Zone("UTC")), "decides nothing"),
    ],
)
def test_annotations_that_mean_nothing_are_refused(marks: Any, sentence: str) -> None:
    with pytest.raises(DefinitionError, match=sentence):
        Source("times", annotated(*(mark() for mark in marks)), "at")


@pytest.mark.parametrize(
    ("kind", "mark"),
    [(int, Epoch("s")), (str, Format("%F")), (date, Epoch("s")), (date, Format("%F %H")), (list[datetime], Epoch("s"))],
)
def test_annotations_of_times_belong_to_times(kind: Any, mark: Any) -> None:
    with pytest.raises(DefinitionError, match=r"belongs to|has a time of day"):
        json().parser(annotated(mark, kind=kind))


def test_a_format_that_defines_its_times_takes_no_annotation() -> None:
    event = with_field("time", Annotated[datetime, Epoch("s")])
    with pytest.raises(DefinitionError, match="defines how its times are written"):
        syslog().parser(event)


def test_each_annotation_changes_the_fingerprint_and_breaks_what_is_published() -> None:
    events = [Plain, Second, Milli, Logged, Local, LocalSecond]
    sources = [Source("times", event, "at", name="times") for event in events]
    assert len({decoder_fingerprint(source) for source in sources}) == len(sources)
    for published in sources:
        for source in sources:
            reads = published is source or (published.event is Plain and source.event in (Local, LocalSecond))
            assert bool(breaks(published, source)) != reads


@given(st.binary(max_size=30), st.sampled_from([Plain, Second, Local, Logged]))
def test_no_text_makes_a_reader_fail(junk: bytes, event: type[Event]) -> None:
    text = junk.decode(errors="ignore").replace('"', "")
    assume(text)
    for decoder, write in TEXTS.values():
        found = outcome(decoder, event, write(text))
        assert isinstance(found, datetime) or found in ("invalid_value", "no_zone", "out_of_range", "utf8", "format", "json")
