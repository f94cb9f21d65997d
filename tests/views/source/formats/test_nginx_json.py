"""nginx access logs in JSON: variables by name, as strings or numbers, as strict as JSON."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.views.errors import DefinitionError
from tandem.views.source.event import Event, Scale
from tandem.views.source.formats.access_logs.nginx_json import nginx_json
from tandem.views.source.source import Source
from tests.views.logged import decoded, reason


class Access(Event):
    time_iso8601: datetime
    remote_addr: str
    remote_user: str | None
    request: str
    status: int
    body_bytes_sent: int
    http_referer: str | None
    http_user_agent: str
    request_time: float
    upstream_response_time: Annotated[Decimal, Scale(3)] | None = None
    msec: datetime | None = None
    time_local: datetime | None = None


ACCESS = Source(topic="t", event=Access, event_time="time_iso8601", decoder=nginx_json())
GOOD = {
    "time_iso8601": "2015-05-17T10:05:03+00:00",
    "remote_addr": "83.149.9.216",
    "remote_user": "",
    "request": "GET /a?b=c HTTP/1.1",
    "status": 200,
    "body_bytes_sent": 203023,
    "http_referer": "-",
    "http_user_agent": "Mozilla/5.0",
    "request_time": 0.123,
}


def line(**changes: Any) -> bytes:
    return json.dumps(GOOD | changes).encode()


def event(value: bytes) -> dict[str, Any]:
    found = decoded(ACCESS, value)
    (one,) = found.events.to_pylist() or found.rejects.to_pylist()
    return {name: field for name, field in one.items() if not name.startswith("_")}


def test_a_line_becomes_the_variables_that_the_event_type_names() -> None:
    assert event(line(other={"deep": [1]})) == {
        "time_iso8601": datetime(2015, 5, 17, 10, 5, 3, tzinfo=UTC),
        "remote_addr": "83.149.9.216",
        "remote_user": None,
        "request": "GET /a?b=c HTTP/1.1",
        "status": 200,
        "body_bytes_sent": 203023,
        "http_referer": None,
        "http_user_agent": "Mozilla/5.0",
        "request_time": 0.123,
        "upstream_response_time": None,
        "msec": None,
        "time_local": None,
    }


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"status": "200", "body_bytes_sent": "0", "request_time": "0.010"}, {"status": 200, "request_time": 0.01}),
        ({"request_time": 3}, {"request_time": 3.0}),
        ({"http_user_agent": ""}, {"http_user_agent": ""}),
        ({"http_user_agent": "-"}, {"http_user_agent": "-"}),
        ({"remote_user": "null"}, {"remote_user": "null"}),
        ({"upstream_response_time": "0.012"}, {"upstream_response_time": Decimal("0.012")}),
        ({"upstream_response_time": 0.012}, {"upstream_response_time": Decimal("0.012")}),
        ({"upstream_response_time": "-"}, {"upstream_response_time": None}),
        ({"msec": 1431857103.123}, {"msec": datetime(2015, 5, 17, 10, 5, 3, 123000, tzinfo=UTC)}),
        ({"msec": "1431857103.000001"}, {"msec": datetime(2015, 5, 17, 10, 5, 3, 1, tzinfo=UTC)}),
        ({"msec": "1431857103.000001999"}, {"msec": datetime(2015, 5, 17, 10, 5, 3, 1, tzinfo=UTC)}),
        (
            {"time_iso8601": "2015-05-17T10:05:03.9999999+00:00"},
            {"time_iso8601": datetime(2015, 5, 17, 10, 5, 3, 999999, tzinfo=UTC)},
        ),
        ({"msec": ""}, {"msec": None}),
        ({"time_local": "17/May/2015:10:05:03 +0200"}, {"time_local": datetime(2015, 5, 17, 8, 5, 3, tzinfo=UTC)}),
        ({"request": 'a "\\ \u0001 é'}, {"request": 'a "\\ \u0001 é'}),
    ],
)
def test_strings_and_numbers_are_values(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    found = event(line(**changes))
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (line(status=""), "missing_field"),
        (line(status="-"), "missing_field"),
        (line(time_iso8601="-"), "missing_field"),
        (json.dumps({key: value for key, value in GOOD.items() if key != "status"}).encode(), "missing_field"),
        (line(status="ok"), "invalid_value"),
        (line(status="200.0"), "event"),
        (line(status=200.0), "event"),
        (line(status="200.5"), "invalid_value"),
        (line(status=200.5), "wrong_type"),
        (line(status=None), "wrong_type"),
        (line(status=True), "wrong_type"),
        (line(status=[200]), "wrong_type"),
        (line(request=5), "wrong_type"),
        (line(body_bytes_sent=2**63), "out_of_range"),
        (line(request_time="nan"), "invalid_value"),
        (line().replace(b"0.123", b"1e400"), "out_of_range"),
        (line(time_iso8601="17/May/2015:10:05:03 +0000"), "invalid_value"),
        (line(time_iso8601="2015-05-17T10:05:03"), "no_zone"),
        (line(time_iso8601=1431857103), "invalid_value"),
        (line(time_local="2015-05-17T10:05:03+00:00"), "invalid_value"),
        (line(time_local="31/Feb/2015:10:05:03 +0000"), "invalid_value"),
        (line(time_local="17-May-2015-10-05-03 +0000"), "invalid_value"),
        (line(time_local="17/May/2015:10:05:03 +0000x"), "invalid_value"),
        (line(time_local="17/May/2015:10:05:03 x0000"), "invalid_value"),
        (line(time_local="17/May/2015:10:05: 3 +0000"), "invalid_value"),
        (line(msec="-1"), "invalid_value"),
        (line(msec=1e300), "invalid_value"),
        (line(msec=99_999_999_999), "event"),
        (line(msec="999999999999"), "invalid_value"),
        (line(upstream_response_time="0.010, 0.020"), "invalid_value"),
        (line(time_iso8601="1990-05-17T10:05:03+00:00"), "implausible_time"),
        (line().replace(b": 200", b": "), "json"),
        (line()[:-1] + b', "status": 200}', "repeated_key"),
        (line()[:-1] + b', "st\\u0061tus": 200}', "repeated_key"),
        (line()[:-1] + b', "x": 1, "x": 2}', "event"),
        (line().replace(b"Mozilla", b"\xff"), "utf8"),
        (line(other="x").replace(b'"x"', b"[" * 200 + b"]" * 200), "json"),
        (b"[]", "wrong_type"),
        (b"", "empty"),
    ],
    ids=lambda given: str(given)[:60],
)
def test_each_value_has_the_outcome_that_strictness_demands(value: bytes, expected: str) -> None:
    assert reason(ACCESS, value) == expected


class Seconds(Event):
    msec: datetime
    a: int


def test_a_repeated_key_is_found_where_no_time_has_a_colon() -> None:
    source = Source(topic="t", event=Seconds, event_time="msec", decoder=nginx_json())
    assert reason(source, b'{"msec": 1431857103.1, "a": 1}') == "event"
    assert reason(source, b'{"msec": 1431857103.1, "a": 1, "a": 1}') == "repeated_key"


class Upstreams(Event):
    msec: datetime
    upstream_response_time: list[float | None]
    upstream_status: list[int | None] | None
    upstream_connect_time: list[Annotated[Decimal, Scale(3)]] | None = None


@pytest.mark.parametrize(
    ("times", "statuses", "answer"),
    [
        ('"0.010, - : 0.020"', '"502, - : 200"', ([0.01, None, 0.02], [502, None, 200])),
        ("0.030", "200", ([0.03], [200])),
        ('""', '"-"', ([None], None)),
        ("[0.1]", '"200"', "wrong_type"),
        ("null", '"200"', "wrong_type"),
        ('"0.1, fast"', '"200"', "invalid_value"),
        ('"0.1"', '"200.5"', "invalid_value"),
    ],
)
def test_a_list_has_the_values_of_each_upstream_server(times: str, statuses: str, answer: object) -> None:
    source = Source(topic="t", event=Upstreams, event_time="msec", decoder=nginx_json())
    line = f'{{"msec": 1431857103.1, "upstream_response_time": {times}, "upstream_status": {statuses}}}'.encode()
    assert reason(source, line) == (answer if isinstance(answer, str) else "event")
    if not isinstance(answer, str):
        (row,) = decoded(source, line).events.to_pylist()
        assert (row["upstream_response_time"], row["upstream_status"]) == answer


def test_decimals_in_a_list_keep_their_digits() -> None:
    source = Source(topic="t", event=Upstreams, event_time="msec", decoder=nginx_json())
    start = '{"msec": 1431857103.1, "upstream_response_time": "", "upstream_status": "", "upstream_connect_time": '
    for written, digits in (('"0.001, 9007199254740993.123"', ["0.001", "9007199254740993.123"]), ("0.100", ["0.100"])):
        (row,) = decoded(source, f"{start}{written}}}".encode()).events.to_pylist()
        assert row["upstream_connect_time"] == [Decimal(text) for text in digits]


class Odd(Event):
    at: datetime


class Nested(Event):
    msec: datetime
    tags: list[list[str]]


class LabelMap(Event):
    msec: datetime
    tags: dict[str, str]


@pytest.mark.parametrize(
    ("event_type", "says"),
    [
        (Odd, "Odd.at: nginx logs no time 'at'; times: time_iso8601"),
        (Nested, "Nested.tags: .*not lists"),
        (LabelMap, "LabelMap.tags: .*not lists"),
    ],
)
def test_an_event_type_cannot_ask_for_what_nginx_does_not_log(event_type: type[Event], says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        nginx_json().parser(event_type)


def escaped(text: str) -> str:
    """As nginx's ngx_escape_json writes: quotes, backslashes and control characters, and nothing else."""
    named = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f", '"': '\\"', "\\": "\\\\"}
    return "".join(named.get(c, f"\\u{ord(c):04X}" if c < " " else c) for c in text)


@given(st.text(st.characters(codec="utf-8")), st.integers(0, 2**63 - 1), st.integers(0, 10**7), st.integers(10**9, 4 * 10**9))
def test_what_nginx_writes_is_read_back(text: str, size: int, milliseconds: int, second: int) -> None:
    """Any line that nginx writes gives its variables back, exactly."""
    time = datetime.fromtimestamp(second, UTC)
    value = (
        f'{{"time_iso8601":"{time.isoformat()}","remote_addr":"::1","remote_user":"{escaped(text)}","request":"{escaped(text)}",'
        f'"status":"404","body_bytes_sent":{size},"http_referer":"","http_user_agent":"{escaped(text)}",'
        f'"request_time":{milliseconds // 1000}.{milliseconds % 1000:03},"msec":"{second}.{milliseconds % 1000:03}"}}'
    )
    found = event(value.encode())
    assert found["request"] == found["http_user_agent"] == text
    assert found["remote_user"] == (None if text in ("", "-") else text)
    assert (found["body_bytes_sent"], found["request_time"]) == (size, milliseconds / 1000)
    assert found["msec"] == time.replace(microsecond=milliseconds % 1000 * 1000)


def test_a_decimal_keeps_all_its_digits() -> None:
    class Timed(Event):
        time_iso8601: datetime
        request_time: Annotated[Decimal, Scale(19)]

    source = Source(topic="access", event=Timed, event_time="time_iso8601", decoder=nginx_json())
    for written in ("0.1234567890123456789", '"0.1234567890123456789"', "12345678901234.567"):
        (event,) = decoded(
            source, f'{{"time_iso8601":"2026-01-01T00:00:00Z","request_time":{written}}}'.encode()
        ).events.to_pylist()
        assert event["request_time"] == Decimal(written.strip('"'))
