r"""Access logs of nginx in any log_format: what nginx writes is read back."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem import Event, Scale, Source, nginx, nginx_json
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint
from tests.views.logged import decoded, reason

LOCAL = "17/May/2015:10:05:03 +0000"
AT = datetime(2015, 5, 17, 10, 5, 3, tzinfo=UTC)


def event(decoder: Any, kind: type[Event], line: str, time: str = "time_local") -> dict[str, Any]:
    """The event of a line, or its reject."""
    result = decoded(
        Source(topic="access", event=kind, event_time=time, decoder=decoder), line.encode("utf-8", "surrogateescape")
    )
    (row,) = result.events.to_pylist() or result.rejects.to_pylist()
    return {name: field for name, field in row.items() if not name.startswith("_")}


class Combined(Event):
    time_local: datetime
    remote_addr: str
    remote_user: str | None
    status: int
    body_bytes_sent: int
    http_referer: str | None
    http_user_agent: str
    request_method: str | None
    request_uri: str | None
    server_protocol: str | None


@pytest.mark.parametrize("status", ["200", "499", "444", "000", "494", "599"])
def test_the_combined_format_with_nginxs_own_statuses(status: str) -> None:
    found = event(nginx(format="combined"), Combined, f'::1 - - [{LOCAL}] "GET /a?b HTTP/1.1" {status} 5 "-" "curl/8"')
    assert found == {
        "time_local": AT, "remote_addr": "::1", "remote_user": None, "status": int(status), "body_bytes_sent": 5,
        "http_referer": None, "http_user_agent": "curl/8", "request_method": "GET", "request_uri": "/a?b",
        "server_protocol": "HTTP/1.1",
    }  # fmt: skip


@pytest.mark.parametrize(("written", "status"), [('"499"', 499), ('"000"', 0), ("000", 0), ("200", 200), ("499", 499)])
def test_json_has_nginxs_own_statuses_too(written: str, status: int) -> None:
    class Line(Event):
        msec: datetime
        status: int
        request: str = ""

    line = f'{{"msec": "1431857103.1", "status": {written}, "request": "GET /\\"status\\": 000 x"}}'
    found = event(nginx_json(), Line, line, "msec")
    assert (found["status"], found["request"]) == (status, 'GET /"status": 000 x')


class Upstream(Event):
    msec: datetime
    request_time: float
    upstream_addr: list[str]
    upstream_response_time: list[float | None]
    upstream_status: list[int | None] | None
    upstream_connect_time: Annotated[Decimal, Scale(3)] | None = None


UPSTREAM = nginx(format="$msec $request_time $upstream_addr $upstream_response_time $upstream_status rt=$upstream_connect_time;")
UPSTREAMS = Source(topic="access", event=Upstream, event_time="msec", decoder=UPSTREAM)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "1431857103.123 0.020 10.0.0.1:80 0.019 200 rt=0.001;",
            {"request_time": 0.02, "upstream_addr": ["10.0.0.1:80"], "upstream_response_time": [0.019], "upstream_status": [200],
             "upstream_connect_time": Decimal("0.001")},
        ),
        (
            "1431857103.123 0.020 10.0.0.1:80, unix:/run/x.sock : 10.0.0.2:80 -, 0.010 : 0.020 502, - : 200 rt=-;",
            {"upstream_addr": ["10.0.0.1:80", "unix:/run/x.sock", "10.0.0.2:80"], "upstream_response_time": [None, 0.01, 0.02],
             "upstream_status": [502, None, 200], "upstream_connect_time": None},
        ),
        ("1431857103.123 0.020 - - - rt=-;", {"upstream_addr": ["-"], "upstream_response_time": [None], "upstream_status": None}),
        ("1431857103.123 0.020 a 0.1 200 rt=0.001, 0.002;", {"reason": "invalid_value"}),
        ("1431857103.123 fast a 0.1 200 rt=-;", {"reason": "invalid_value"}),
        ("1431857103.123 0.020 a 0.1,  200 rt=-;", {"reason": "format"}),
    ],
)  # fmt: skip
def test_lists_of_upstream_servers(line: str, expected: dict[str, Any]) -> None:
    found = event(UPSTREAM, Upstream, line, "msec")
    assert {name: found[name] for name in expected} == expected


class OneHost(Event):
    msec: datetime
    host: str


@pytest.mark.parametrize(("written", "expected"), [("a,b", {"host": "a,b"}), ("a, b", {"reason": "format"})])
def test_only_variables_of_several_servers_are_lists(written: str, expected: dict[str, Any]) -> None:
    found = event(nginx(format="$msec $host $status"), OneHost, f"1431857103.123 {written} 200", "msec")
    assert {name: found[name] for name in expected} == expected


class Parts(Event):
    time_iso8601: datetime
    request_method: str
    host: str
    uri: str
    args: str | None
    http_x_forwarded_for: list[str] | None


def test_variables_that_follow_each_other() -> None:
    decoder = nginx(
        format='$time_iso8601 "$request_method $scheme://${host}$uri$is_args$args $server_protocol" $http_x_forwarded_for $status'
    )
    start = '2015-05-17T12:05:03+02:00 "GET https://example.org'
    found = event(decoder, Parts, f'{start}/a/b?c=d HTTP/2.0" 1.1.1.1, 2.2.2.2 200', "time_iso8601")
    assert found == {
        "time_iso8601": AT, "request_method": "GET", "host": "example.org", "uri": "/a/b", "args": "c=d",
        "http_x_forwarded_for": ["1.1.1.1", "2.2.2.2"],
    }  # fmt: skip
    found = event(decoder, Parts, f'{start}/ HTTP/2.0" - 200', "time_iso8601")
    assert (found["uri"], found["args"], found["http_x_forwarded_for"]) == ("/", None, None)


def written_by_default(text: str) -> str:
    """As ngx_http_log_escape of src/http/modules/ngx_http_log_module.c writes it."""
    return "".join(f"\\x{byte:02X}" if byte < 32 or byte > 126 or byte in b'"\\' else chr(byte) for byte in text.encode())


def written_in_json(text: str) -> str:
    """As ngx_escape_json of src/core/ngx_string.c writes it: JSON, of which letters beyond ASCII stay."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


class Texts(Event):
    time_local: datetime
    http_user_agent: str
    http_referer: str | None
    request: str
    status: int


TEXT = st.text(st.sampled_from('ab é€/-"\\[]\t\n\x00\x1f'), max_size=8)


@given(
    texts=st.tuples(TEXT, TEXT, TEXT),
    status=st.integers(0, 999),
    escape=st.sampled_from([("default", written_by_default), ("json", written_in_json)]),
)
def test_what_nginx_writes_is_read_back(texts: tuple[str, str, str], status: int, escape: Any) -> None:
    name, write = escape
    agent, referer, request = texts
    decoder = nginx(format='[$time_local] "$request" $status "$http_referer" "$http_user_agent"', escape=name)
    line = f'[{LOCAL}] "{write(request)}" {status:03} "{write(referer)}" "{write(agent)}"'
    assert event(decoder, Texts, line) == {
        "time_local": AT, "http_user_agent": agent, "http_referer": None if referer in ("-", "") else referer, "request": request,
        "status": status,
    }  # fmt: skip


class Bare(Event):
    time_local: datetime
    http_referer: str
    http_user_agent: str


@given(st.text(st.sampled_from('a\\" '), max_size=6), st.text(st.sampled_from('a\\" '), max_size=6))
def test_without_escapes_a_text_is_read_whole_or_not_at_all(referer: str, agent: str) -> None:
    """A backslash at the end escapes nothing; where a quote ends a text nobody can say."""
    found = event(nginx(format="combined", escape="none"), Bare, f'h - - [{LOCAL}] "" 400 0 "{referer}" "{agent}"')
    if '"' in referer + agent:
        assert found["reason"] == "format"
    else:
        assert (found["http_referer"], found["http_user_agent"]) == (referer, agent)


class Client(Event):
    time_local: datetime
    remote_addr: str
    remote_port: int | None
    server_port: int | None


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("10.0.0.1:4711 80", ("10.0.0.1", 4711, 80)),
        ("2001:db8::1:4711 80", ("2001:db8::1", 4711, 80)),
        ("unix:: 80", ("unix:", None, 80)),
        ("unix:: ", ("unix:", None, None)),
    ],
)
def test_clients_of_a_unix_socket_have_no_port(written: str, expected: tuple[Any, ...]) -> None:
    decoder = nginx(format="$remote_addr:$remote_port $server_port [$time_local]")
    found = event(decoder, Client, f"{written} [{LOCAL}]")
    assert (found["remote_addr"], found["remote_port"], found["server_port"]) == expected


def test_without_escapes_a_text_is_what_is_logged() -> None:
    decoder = nginx(format='[$time_local] "$request" $status "$http_referer" "$http_user_agent"', escape="none")
    found = event(decoder, Texts, f'[{LOCAL}] "GET /\\x41 HTTP/1.1" 200 "" "é\\\\"')
    assert (found["request"], found["http_referer"], found["http_user_agent"]) == ("GET /\\x41 HTTP/1.1", None, "é\\\\")


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"format": "common"}, "is neither combined nor a log_format"),
        ({"format": "$host$status"}, "nothing between host and status"),
        ({"format": "$time_local $request $status"}, "put it in quotes"),
        ({"format": "$status", "escape": "xml"}, 'is not "default", "json" or "none"'),
    ],
)
def test_a_format_without_a_certain_reading_is_refused(parameters: dict[str, Any], says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        nginx(**parameters)


def test_an_escape_at_its_default_is_not_in_a_fingerprint() -> None:
    def fingerprint_of(decoder: Any) -> str:
        return decoder_fingerprint(Source(topic="access", event=Texts, event_time="time_local", decoder=decoder))

    assert fingerprint_of(nginx(format="combined")) == fingerprint_of(nginx(format="combined", escape="default"))
    assert fingerprint_of(nginx(format="combined")) != fingerprint_of(nginx(format="combined", escape="json"))
    assert str(nginx(format="combined", escape="json")) == 'nginx(format="combined", escape="json")'


def test_a_damaged_byte_rejects_only_what_reads_it() -> None:
    source = Source(topic="access", event=Texts, event_time="time_local", decoder=nginx(format="combined", escape="none"))
    line = f'a - \udcff [{LOCAL}] "GET / HTTP/1.1" 200 5 "-" "R"'
    assert reason(source, line.encode("utf-8", "surrogateescape")) == "event"
    assert reason(source, line.replace("R", "\udcff").encode("utf-8", "surrogateescape")) == "utf8"
