r"""Access logs of Apache in any LogFormat: what httpd writes is read back, by a loop in plain Python, too."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem import Event, Source, apache, apache_combined
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint
from tandem.views.source.formats.access_logs.apache import FORMATS
from tests.views.logged import decoded, reason

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
TIME = "[17/May/2015:10:05:03 +0000]"
AT = datetime(2015, 5, 17, 10, 5, 3, tzinfo=UTC)


def event(format_: str, kind: type[Event], line: str | bytes) -> dict[str, Any]:
    """The event of a line, or its reject."""
    source = Source(topic="access", event=kind, event_time="time", decoder=apache(format=format_))
    result = decoded(source, line.encode() if isinstance(line, str) else line)
    (row,) = result.events.to_pylist() or result.rejects.to_pylist()
    return {name: field for name, field in row.items() if not name.startswith("_")}


class Hit(Event):
    time: datetime
    host: str
    status: int
    bytes: int
    path: str | None = None


class Vhost(Event):
    time: datetime
    vhost: str
    port: int
    status: int
    sent: int
    agent: str | None
    duration_us: int | None = None


VHOSTS = Source(topic="access", event=Vhost, event_time="time", decoder=apache(format="vhost_combined"))


@pytest.mark.parametrize(
    ("format_", "line", "expected"),
    [
        ("common", f'::1 - - {TIME} "GET /a?b HTTP/1.1" 200 -', {"host": "::1", "status": 200, "bytes": 0, "path": "/a?b"}),
        ("combined", f'h - - {TIME} "GET / HTTP/2.0" 404 7 "-" "x"', {"status": 404, "bytes": 7, "path": "/"}),
        ("%t %h %>s %B", f"{TIME} h 301 0\r\n", {"status": 301, "bytes": 0, "path": None}),
        ('%h %l %u %t \\"%r\\" %>s %b', f'h - - {TIME} "-" 408 -', {"status": 408, "path": None}),
        ('%t "%m %U%q %H" %s %b %h', f'{TIME} "GET /a?b=c HTTP/1.1" 200 5 h', {"path": "/a"}),
        ('%t "%m %U%q %H" %s %b %h', f'{TIME} "GET /a HTTP/1.1" 200 5 h', {"path": "/a"}),
        ("%h\\t%t\\t%>s\\t%b\\t%U", f"h\t{TIME}\t200\t5\t/with space", {"path": "/with space"}),
        ("%h %t %400,501s %b 100%%", f"h {TIME} 200 5 100%", {"status": 200}),
    ],
)
def test_formats_that_servers_have(format_: str, line: str, expected: dict[str, Any]) -> None:
    found = event(format_, Hit, line)
    assert {name: found[name] for name in expected} == expected
    assert found["time"] == AT


def test_virtual_hosts_and_durations() -> None:
    line = f'www.example.org:443 2001:db8::1 - - {TIME} "GET / HTTP/1.1" 200 512 "-" "Mozilla/5.0 (X11; Linux)"'
    expected = {
        "time": AT,
        "vhost": "www.example.org",
        "port": 443,
        "status": 200,
        "sent": 512,
        "agent": "Mozilla/5.0 (X11; Linux)",
    }
    assert event("vhost_combined", Vhost, line) == {**expected, "duration_us": None}
    assert event(FORMATS["vhost_combined"] + " %D", Vhost, line + " 1500")["duration_us"] == 1500


class Headers(Event):
    time: datetime
    header_x_request_id: str | None
    header_x_forwarded_for: list[str]
    response_content_length: int | None
    cookie_session: str
    duration_ms: int
    connection: Literal["X", "+", "-"]
    method: Literal["GET", "POST"]


class Measured(Event):
    time: datetime
    user: str | None
    status: int | None
    bytes: int | None
    duration_us: int | None


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f'"" {TIME} 200 5 7', ("", 200, 5, 7)),
        (f'\\"\\" {TIME} 200 5 7', ('""', 200, 5, 7)),
        (f"- {TIME} - - -", (None, None, None, None)),
    ],
)
def test_what_httpd_writes_without_a_value(line: str, expected: tuple[Any, ...]) -> None:
    """An empty user is two quotes, a user of two quotes is escaped; a directive for some statuses has a `-` for others."""
    found = event("%u %t %>s %500b %400,501D", Measured, line)
    assert (found["user"], found["status"], found["bytes"], found["duration_us"]) == expected


def test_the_size_of_an_answer_that_is_not_logged_is_not_zero() -> None:
    assert event("%h %t %>s %400b", Hit, f"h {TIME} 200 -")["reason"] == "missing_field"
    assert event("%h %t %>s %b", Hit, f"h {TIME} - 5")["reason"] == "missing_field"
    assert event("%h %t %>s %b", Hit, f"h {TIME} 200 -")["bytes"] == 0


def test_headers_are_fields_of_the_type_that_the_event_declares() -> None:
    format_ = '%t %{X-Request-ID}i "%{X-Forwarded-For}i" %{Content-Length}o "%{session}C" %{ms}T %X %m'
    found = event(format_, Headers, f'{TIME} - "1.1.1.1, 2.2.2.2,3.3.3.3" 17 "" 3 - GET')
    assert found["header_x_request_id"] is None
    assert found["header_x_forwarded_for"] == ["1.1.1.1", "2.2.2.2", "3.3.3.3"]
    assert (found["response_content_length"], found["cookie_session"], found["duration_ms"]) == (17, "", 3)
    assert (found["connection"], found["method"]) == ("-", "GET")
    assert event(format_, Headers, f'{TIME} - "-" 17 "" 3 - PUT')["reason"] == "invalid_value"
    unquoted = format_.replace('"%{X-Forwarded-For}i"', "%{X-Forwarded-For}i")
    assert event(unquoted, Headers, f'{TIME} - 1.1.1.1, 2.2.2.2 17 "" 3 - GET')["header_x_forwarded_for"] == [
        "1.1.1.1",
        "2.2.2.2",
    ]


class Agent(Event):
    time: datetime
    agent: str
    request: str


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (r"a \"b\" \\ c\td", 'a "b" \\ c\td'),
        (r"caf\xc3\xa9 \xe2\x82\xac", "café €"),
        (r"\x16\x03\x01", "\x16\x03\x01"),
        (r"caf\xe9 \xc3\xa9\xff\xc3", r"caf\xe9 é\xff\xc3"),
        (r"\\xe9\\", r"\xe9" + "\\"),
        (r"\q", r"\q"),
    ],
)
def test_escapes_are_read_back(written: str, text: str) -> None:
    """Bytes that are not UTF-8 stay as they are written."""
    found = event('%t "%r" "%{User-Agent}i"', Agent, f'{TIME} "{written}" "{written}"')
    assert (found["agent"], found["request"]) == (text, text)


def escaped(text: bytes) -> str:
    """A text as ap_escape_logitem of httpd's server/util.c writes it."""
    names = {8: "\\b", 10: "\\n", 13: "\\r", 9: "\\t", 11: "\\v", 92: "\\\\", 34: '\\"'}
    return "".join(names.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}") for byte in text)


def loop_fields(line: str) -> list[str]:
    """The values of a line, quotes and brackets removed: character by character, without regular expressions."""
    values, value, close, place = [], "", "", 0
    while place < len(line):
        character = line[place]
        if close == '"' and character == "\\":
            value += line[place : place + 2]
            place += 2
            continue
        if close:
            if character == close:
                close = ""
            else:
                value += character
        elif character == " ":
            values.append(value)
            value = ""
        elif character in '"[' and not value:
            close = {'"': '"', "[": "]"}[character]
        else:
            value += character
        place += 1
    return [*values, value]


class Written(Event):
    time: datetime
    host: str
    user: str | None
    status: int
    bytes: int | None
    referer: str | None
    agent: str
    duration_us: int
    header_x_id: str


TEXT = st.text(st.sampled_from('ab é€/-"\\[]\t\n\x00\x7f'), max_size=8)
WORD = st.text(st.sampled_from('ab-[]\\:"é'), min_size=1, max_size=6)


@given(
    texts=st.tuples(TEXT, TEXT),
    words=st.tuples(WORD, WORD, WORD),
    second=st.integers(946_771_200, 4_070_000_000),
    zone=st.integers(-14 * 60, 14 * 60),
    numbers=st.tuples(st.integers(100, 999), st.integers(0, 2**63 - 1) | st.none(), st.integers(0, 10**12)),
)
def test_what_apache_writes_is_read_back(
    texts: tuple[str, str], words: tuple[str, str, str], second: int, zone: int, numbers: tuple[int, int | None, int]
) -> None:
    """Texts, and numbers, as written; and as a loop over the characters reads the line."""
    at = datetime.fromtimestamp(second, timezone(timedelta(minutes=zone)))
    month = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"][at.month - 1]
    status, size, duration = numbers
    host, user, header = words
    line = " ".join(
        [
            escaped(host.encode()),
            escaped(user.encode()),
            at.strftime(f"[%d/{month}/%Y:%H:%M:%S %z]"),
            str(status),
            "-" if size is None else str(size),
            f'"{escaped(texts[0].encode())}"',
            f'"{escaped(texts[1].encode())}"',
            str(duration),
            escaped(header.encode()),
        ]
    )
    found = event('%h %u %t %>s %b "%{Referer}i" "%{User-Agent}i" %D %{X-Id}i', Written, line)
    assert found == {
        "time": at, "host": host, "user": None if user == "-" else user, "status": status, "bytes": size,
        "referer": None if texts[0] == "-" else texts[0], "agent": texts[1], "duration_us": duration, "header_x_id": header,
    }  # fmt: skip
    if not any(word.startswith(('"', "[")) for word in map(escaped, (each.encode() for each in words))):
        by_loop = loop_fields(line)
        assert by_loop[3:5] == [str(status), "-" if size is None else str(size)]
        assert [escaped(found["agent"].encode()), escaped(found["header_x_id"].encode())] == [by_loop[6], by_loop[8]]


class Combined(Event):
    time: datetime
    host: str
    ident: str
    user: str | None
    request: str
    method: str | None
    path: str | None
    protocol: str | None
    status: int
    bytes: int | None
    referer: str | None
    agent: str


@given(
    st.lists(
        st.sampled_from(["h", "-", '"', " ", "[", "]", TIME, '"GET / HTTP/1.1"', "200", "x", "\\", "\n", "\xff"]), max_size=16
    )
    | st.permutations(["::1", "-", "frank", TIME, '"GET /a b HTTP/1.1"', "200", "-", '"-"', '"a(b)"'])
)
def test_combined_is_apache_combined_apart_from_escapes(pieces: list[str]) -> None:
    """The decoder by name and the format by name agree about every line without escapes: event or reject, and why."""
    line = " ".join(pieces).replace("\\", "").encode("latin-1")

    def outcome(decoder: Any) -> Any:
        result = decoded(Source(topic="access", event=Combined, event_time="time", decoder=decoder), line)
        return result.events.to_pylist(), result.rejects.to_pylist()

    assert outcome(apache(format="combined")) == outcome(apache_combined())


@pytest.mark.parametrize(
    ("format_", "says"),
    [
        ("", "is not a LogFormat such as"),
        ("vhost", "unknown format 'vhost'; named formats: vhost_co"),
        ("%h %Y", "unknown directive %Y"),
        ("%h %{x}s", r"unknown directive %{x}s"),
        ("%h 10%", "'%' does not begin with a directive"),
        ("%h%u %t", "nothing between host and user shows where the first one ends"),
        ("%h %r %t", "the request has spaces.*put it in quotes"),
        ("%%", "has no values"),
    ],
)
def test_a_format_without_a_certain_reading_is_refused(format_: str, says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        apache(format=format_)


class Other(Event):
    time: datetime
    vhost: str


@pytest.mark.parametrize(
    ("format_", "kind", "says"),
    [
        ("%t %h", Other, "Other.vhost: the log format '%t %h' has no such field; fields: "),
        ("%t %v %v", Other, "has vhost 2 times"),
        ("%h %>s %b", Hit, "Hit.time: .* no such field"),
    ],
)
def test_an_event_type_cannot_ask_for_what_no_line_has(format_: str, kind: type[Event], says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        apache(format=format_).parser(kind)


@pytest.mark.parametrize(
    ("line", "expected", "says"),
    [
        (f'h - - {TIME} "GET / HTTP/1.1" 200', "format", "status"),
        (f'h - - {TIME} "GET / HTTP/1.1" 20 5', "format", "status"),
        (f'h - - {TIME} "GET / HTTP/1.1 200 5', "format", "request"),
        (f'h - - {TIME} "GET / HTTP/1.1" 200 5 6', "format", "bytes"),
        (f'h - - {TIME} "GET / HTTP/1.1" 200 {"9" * 30}', "out_of_range", "bytes has 30 digits"),
        ('h - - [31/Feb/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5', "invalid_value", "does not exist"),
    ],
)
def test_broken_lines_say_which_value(line: str, expected: str, says: str) -> None:
    found = event("common", Hit, line)
    assert found["reason"] == expected
    assert says in found["detail"]


def test_a_format_is_a_part_of_the_fingerprint() -> None:
    def fingerprint_of(decoder: Any) -> str:
        return decoder_fingerprint(Source(topic="access", event=Hit, event_time="time", decoder=decoder))

    decoders = [apache(format="common"), apache(format="combined"), apache_combined()]
    assert len(set(map(fingerprint_of, decoders))) == 3
    assert [str(decoder) for decoder in decoders] == ['apache(format="common")', 'apache(format="combined")', "apache_combined()"]


@pytest.mark.parametrize("size", [20_000])
def test_a_crafted_line_costs_no_more_than_its_length(size: int) -> None:
    """A search that backtracked in every value would take years."""
    for line in ("a:" * size, '"' * size, "\\" * size, f'a:1 h - - {TIME} "' + '\\"' * size, "1:1 " * size):
        assert reason(VHOSTS, line.encode()) == "format"
