"""Times of Apache's `%{...}t`: what strftime and httpd's numbers write is read back, by the clock of the test."""

from datetime import UTC, datetime, time, timedelta, timezone
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem import Event, Format, Zone, apache, apache_combined, nginx, nginx_json
from tandem.views.errors import DefinitionError
from tandem.views.source.fields.reasons import Reject

AT = datetime(2015, 5, 17, 10, 5, 3, 250_000, tzinfo=UTC)


class Hit(Event):
    time: datetime
    status: int


class Local(Event):
    time: Annotated[datetime, Zone("Europe/Berlin")]
    status: int


class Both(Event):
    time: datetime
    end_time: datetime


def read(format_: str, kind: type[Event], line: str) -> Any:
    return apache(format=format_).parser(kind)(line.encode())


@pytest.mark.parametrize(
    ("format_", "line", "time"),
    [
        ("%{%Y-%m-%dT%H:%M:%S%z}t %>s", "2015-05-17T12:05:03+0200 200", AT.replace(microsecond=0)),
        ("[%{%d/%b/%Y:%T %z}t] %>s", "[17/May/2015:10:05:03 +0000] 200", AT.replace(microsecond=0)),
        ("[%{%d/%b/%Y %T}t.%{msec_frac}t %{%z}t] %>s", "[17/May/2015 12:05:03.250 +0200] 200", AT),
        ('"%{begin:%F %T}t.%{begin:usec_frac}t %{begin:%Z}t" %>s', '"2015-05-17 10:05:03.250000 UTC" 200', AT),
        ("%{sec}t %>s", "1431857103 200", AT.replace(microsecond=0)),
        ("%{msec}t %>s", "1431857103250 200", AT),
        ("%{usec}t|%>s", "1431857103250000|200", AT),
        ("%{sec}t.%{msec_frac}t %>s", "1431857103.250 200", AT),
        ('{"at":"%{%s}t"} %>s %{usec}t', "", None),
        ("%>s %{%a %b %e %T %Y %Z}t", "200 Sun May 17 10:05:03 2015 GMT", AT.replace(microsecond=0)),
    ],
)
def test_times_of_formats_that_servers_have(format_: str, line: str, time: datetime | None) -> None:
    if time is None:
        with pytest.raises(DefinitionError, match="is not a whole time"):
            apache(format=format_)
        return
    event = read(format_, Hit, line)
    assert (event.time, event.status) == (time, 200)


def test_a_format_without_a_zone_takes_that_of_the_field() -> None:
    assert read("[%{%F %T}t] %>s", Local, "[2015-05-17 12:05:03] 200").time == AT.replace(microsecond=0)
    with pytest.raises(DefinitionError, match="have no zone: annotate the field with Zone"):
        read("[%{%F %T}t] %>s", Hit, "")


def test_a_field_may_have_a_format_of_its_own() -> None:
    class Own(Event):
        time: Annotated[datetime, Format("%d.%m.%Y %H:%M %z")]

    assert read("%{%d.%m.%Y}t %{%H:%M}t %{%z}t", Own, "17.05.2015 10:05 +0000").time == AT.replace(second=0, microsecond=0)


def test_begin_and_end_are_two_times() -> None:
    event = read("%{begin:msec}t %{end:msec}t", Both, "1431857103250 1431857103900")
    assert (event.time, event.end_time - event.time) == (AT, timedelta(milliseconds=650))


@pytest.mark.parametrize(
    ("format_", "says"),
    [
        ("%{%T}t %>s", "the year is missing"),
        ("%{sec}t %{%F}t %>s", "a fraction goes with"),
        ("%{usec}t.%{usec_frac}t", "a fraction goes with"),
        ("%{%F %T}t%{%Y}t", "%Y occurs 2 times"),
        ("%{%F %Q}t", "unknown directive %Q"),
    ],
)
def test_what_is_no_time_is_refused(format_: str, says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        apache(format=format_).parser(Hit)


class AtNoon(Event):
    time: time
    status: int


def test_a_time_of_day_is_read_by_the_servers_pattern() -> None:
    assert read("%{%I:%M:%S %p}t %>s", AtNoon, "01:05:03 pm 200").time == time(13, 5, 3)
    for whole in ("%{%F %T}t", "%{%T %z}t"):
        with pytest.raises(DefinitionError, match="have a date or a zone: declare it as datetime"):
            apache(format=f"{whole} %>s").parser(AtNoon)


@pytest.mark.parametrize("line", ["2015-05-17T10:05:03 200", "2015-13-17T10:05:03+0000 200", "x 200", "2015-05-17T10:05:03+0000"])
def test_broken_times_are_rejects(line: str) -> None:
    with pytest.raises(Reject):
        read("%{%Y-%m-%dT%H:%M:%S%z}t %>s", Hit, line)


@given(
    st.datetimes(datetime(1970, 1, 1), datetime(2068, 1, 1), timezones=st.sampled_from([UTC, timezone(timedelta(hours=-5))])),  # noqa: DTZ001  hypothesis adds it
    st.sampled_from(["%Y-%m-%dT%H:%M:%S%z", "%d/%b/%Y:%H:%M:%S %z", "%a %d %B %Y %I:%M:%S %p %z", "%y%m%d %H%M%S%z"]),
)
def test_what_strftime_writes_is_read_back(time: datetime, pattern: str) -> None:
    whole = time.replace(microsecond=0)
    assert read(f"[%{{{pattern}}}t] %>s", Hit, f"[{whole.strftime(pattern)}] 200").time == whole
    split = f"[%{{{pattern.replace('%z', '')}}}t.%{{usec_frac}}t %{{%z}}t] %>s"
    line = f"[{time.strftime(pattern.replace('%z', ''))}.{time.microsecond:06d} {time.strftime('%z')}] 200"
    assert read(split, Hit, line).time == time


class Whenever(Event):
    time: datetime


class Locally(Event):
    time_local: datetime


SERVERS = {
    "common": (apache(format="common"), Whenever, 'h - - [{}] "GET / HTTP/1.0" 200 1'),
    "combined": (apache_combined(), Whenever, 'h - - [{}] "GET / HTTP/1.0" 200 1 "-" "-"'),
    "nginx": (nginx(format="[$time_local] $status"), Locally, "[{}] 200"),
    "nginx_json": (nginx_json(), Locally, '{{"time_local": "{}"}}'),
}


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30/Jun/2015:19:59:60 -0400", datetime(2015, 6, 30, 23, 59, 59, 999_999, UTC)),
        ("30/Jun/2015:24:00:00 -0400", datetime(2015, 7, 1, 4, tzinfo=UTC)),
        ("30/Jun/2015:23:59:60 -0400", "invalid_value"),
        ("30/Jun/2015:23:59:61 +0000", "invalid_value"),
        ("30/Jun/2015:24:00:01 +0000", "invalid_value"),
    ],
)
def test_leap_seconds_and_ends_of_days_are_those_of_every_time(server: str, text: str, expected: datetime | str) -> None:
    decoder, kind, line = SERVERS[server]
    parse, value = decoder.parser(kind), line.format(text).encode()
    if isinstance(expected, datetime):
        assert msgspec.structs.astuple(parse(value)) == (expected,)
    else:
        with pytest.raises(Reject, match=expected):
            parse(value)
