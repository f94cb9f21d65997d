"""Apache's combined format: nine fields and both closing quotes, or quarantine with a reason."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.views.errors import DefinitionError
from tandem.views.source.event import Event
from tandem.views.source.formats.access_logs.apache_combined import apache_combined
from tandem.views.source.source import Source
from tests.views.logged import decoded, reason


class Line(Event):
    """All that a line has, in an order of its own."""

    time: datetime
    host: str
    ident: str
    user: str
    request: str
    method: str | None
    path: str | None
    protocol: str | None
    status: int
    bytes: int
    referer: str | None
    agent: str


class Traffic(Event):
    """Only what a view of traffic needs."""

    time: datetime
    path: str
    bytes: int | None
    site: str = "main"


LINES = Source(topic="access", event=Line, event_time="time", decoder=apache_combined())
TRAFFIC = Source(topic="access", event=Traffic, event_time="time", decoder=apache_combined())
GOOD = {
    "host": "83.149.9.216",
    "ident": "-",
    "user": "-",
    "time": "[17/May/2015:10:05:03 +0000]",
    "request": '"GET /a?b=c HTTP/1.1"',
    "status": "200",
    "bytes": "203023",
    "referer": '"http://semicomplete.com/"',
    "agent": '"Mozilla/5.0 (Macintosh)"',
}


def line(**changes: str) -> bytes:
    """A good line with some of its fields replaced by text as it stands."""
    return " ".join((GOOD | changes).values()).encode()


def event(value: bytes, source: Source = LINES) -> dict[str, Any]:
    """The one event of a line, without its position."""
    (row,) = decoded(source, value).events.to_pylist()
    return {name: field for name, field in row.items() if not name.startswith("_")}


def test_a_line_becomes_the_fields_that_the_event_type_names() -> None:
    """Each field has the documented value, whatever the order of the event type's fields."""
    assert event(line()) == {
        "time": datetime(2015, 5, 17, 10, 5, 3, tzinfo=UTC),
        "host": "83.149.9.216",
        "ident": "-",
        "user": "-",
        "request": "GET /a?b=c HTTP/1.1",
        "method": "GET",
        "path": "/a?b=c",
        "protocol": "HTTP/1.1",
        "status": 200,
        "bytes": 203023,
        "referer": "http://semicomplete.com/",
        "agent": "Mozilla/5.0 (Macintosh)",
    }
    assert event(line(), TRAFFIC) == {
        "time": datetime(2015, 5, 17, 10, 5, 3, tzinfo=UTC),
        "path": "/a?b=c",
        "bytes": 203023,
        "site": "main",
    }


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"bytes": "-"}, {"bytes": 0}),
        ({"user": "frank"}, {"user": "frank"}),
        ({"host": "::1"}, {"host": "::1"}),
        ({"referer": '"-"', "agent": '"-"'}, {"referer": None, "agent": "-"}),
        ({"agent": '""'}, {"agent": ""}),
        ({"agent": r'"a \"quoted\" agent \\"'}, {"agent": r"a \"quoted\" agent \\"}),
        ({"referer": r'"http://\xe4\xe5/"'}, {"referer": r"http://\xe4\xe5/"}),
        ({"time": "[31/Dec/2015:23:59:59 -0130]"}, {"time": datetime(2016, 1, 1, 1, 29, 59, tzinfo=UTC)}),
        ({"time": "[01/Jan/2016:00:00:00 +0530]"}, {"time": datetime(2015, 12, 31, 18, 30, tzinfo=UTC)}),
        ({"request": r'"GET /\"x\" HTTP/1.0"'}, {"path": r"/\"x\"", "protocol": "HTTP/1.0"}),
        ({"request": '"GET /a b HTTP/1.1"'}, {"method": "GET", "path": "/a b", "protocol": "HTTP/1.1"}),
        ({"request": '"GET /old"'}, {"method": "GET", "path": "/old", "protocol": None}),
        ({"request": '"-"'}, {"request": "-", "method": None, "path": None, "protocol": None}),
        ({"request": '""'}, {"request": "", "method": None, "path": None, "protocol": None}),
        ({"request": r'"\x16\x03\x01"'}, {"request": r"\x16\x03\x01", "method": None, "path": None}),
        ({"request": '"GET  / HTTP/1.1"'}, {"method": None, "path": None, "protocol": None}),
        ({"agent": '"é"'}, {"agent": "é"}),
    ],
)
def test_legal_lines_keep_what_was_logged(changes: dict[str, str], expected: dict[str, Any]) -> None:
    """What Apache writes is read as it stands: escapes stay, `-` is 0 bytes, null where the field is Optional."""
    found = event(line(**changes))
    assert {name: found[name] for name in expected} == expected


def test_a_line_end_belongs_to_no_field() -> None:
    """A line that kept its line end is the same line."""
    assert event(line() + b"\n") == event(line() + b"\r\n") == event(line())


@pytest.mark.parametrize(
    ("value", "expected", "says"),
    [
        (line()[:-1], "format", "agent"),
        (line(agent='"half \\"'), "format", "agent"),
        (line(referer='"http://'), "format", "referer"),
        (line(agent="Mozilla"), "format", "agent"),
        (line() + b" 17", "format", "agent"),
        (line() + b"\n" + line(), "format", "agent"),
        (line(agent=""), "format", "agent"),
        (line()[: line().index(b' "Mozilla')], "format", "referer"),
        (line(bytes=""), "format", "bytes"),
        (line(bytes="-5"), "format", "bytes"),
        (line(status="20"), "format", "status"),
        (line(status="-"), "missing_field", "status"),
        (line(request="GET / HTTP/1.1"), "format", "request"),
        (line(time="17/May/2015:10:05:03 +0000"), "format", "time"),
        (line(time="[17/05/2015:10:05:03 +0000]"), "format", "time"),
        (line(time="[2015-05-17T10:05:03Z]"), "format", "time"),
        (line(user="two words"), "format", "time"),
        (b"www.example.org:80 " + line(), "format", "time"),
        (b" ", "format", "host"),
        (b'{"host": "a"}', "format", "ident"),
        (line(time="[31/Feb/2015:10:05:03 +0000]"), "invalid_value", "does not exist"),
        (line(time="[17/Mai/2015:10:05:03 +0000]"), "invalid_value", "does not exist"),
        (line(time="[17/May/2015:10:05:60 +0000]"), "invalid_value", "does not exist"),
        (line(time="[17/May/2015:10:05:03 +9900]"), "invalid_value", "does not exist"),
        (line(time="[17/May/1970:10:05:03 +0000]"), "implausible_time", "1970"),
        (line(bytes=str(2**63)), "out_of_range", "bytes"),
        (line(bytes="9" * 5000), "out_of_range", "bytes"),
        (line().replace(b"Mozilla", b"\xff"), "utf8", "byte"),
        (b"", "empty", "no bytes"),
    ],
    ids=lambda given: str(given)[:60],
)
def test_broken_lines_go_to_quarantine_and_say_why(value: bytes, expected: str, says: str) -> None:
    """A line that lacks a field or a closing quote is refused, and the detail names where the format was left."""
    (row,) = decoded(LINES, value).rejects.to_pylist()
    assert row["reason"] == expected
    assert says in row["detail"]


def test_a_needed_part_of_the_request_must_be_there() -> None:
    """An event type whose `path` may not be null refuses a request without one, and takes one without a protocol."""
    assert reason(TRAFFIC, line(request='"-"')) == "request"
    assert reason(TRAFFIC, line(request='"GET /old"')) == "event"
    assert event(line(bytes="-"), TRAFFIC)["bytes"] is None


def test_constraints_of_the_event_type_hold() -> None:
    """A msgspec constraint and __post_init__ refuse a line as they refuse JSON."""

    class Served(Event):
        time: datetime
        status: int

        def __post_init__(self) -> None:
            if self.status >= 400:
                raise ValueError("not served")

    source = Source(topic="access", event=Served, event_time="time", decoder=apache_combined())
    assert [reason(source, line(status=status)) for status in ("200", "404")] == ["event", "refused"]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ([("time", datetime), ("pth", str)], "Odd.pth: .*no such field; fields: path"),
        ([("time", datetime), ("status", str)], "Odd.status: .*as int64, not string"),
        ([("time", str)], "Odd.time: .*as timestamp"),
    ],
)
def test_an_event_type_cannot_ask_for_what_no_line_has(fields: list[Any], says: str) -> None:
    """A field with another name or type is an error of the definition, with what exists."""
    with pytest.raises(DefinitionError, match=says):
        apache_combined().parser(cast("type[Event]", msgspec.defstruct("Odd", fields, bases=(Event,))))


QUOTABLE = st.text(st.sampled_from('ab é/-"\\[]'), max_size=12)
WORD = st.text(st.sampled_from('ab-"[]\\:'), min_size=1, max_size=8)


def quoted(text: str) -> str:
    """Text as Apache writes it between quotes."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


LINES_WRITTEN = st.fixed_dictionaries(
    {
        **dict.fromkeys(("host", "ident", "user"), WORD),
        **dict.fromkeys(("request", "referer", "agent"), QUOTABLE),
        "second": st.integers(946_771_200, 4_070_000_000),
        "zone": st.integers(-14 * 60, 14 * 60),
        "status": st.integers(100, 999),
        "bytes": st.integers(0, 2**63 - 1),
    }
)
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@given(LINES_WRITTEN)
def test_what_apache_writes_is_read_back(written: dict[str, Any]) -> None:
    """Any line built field by field as Apache does gives its fields back, whatever stands between the quotes."""
    at = datetime.fromtimestamp(written["second"], timezone(timedelta(minutes=written["zone"])))
    time = at.strftime(f"[%d/{MONTHS[at.month - 1]}/%Y:%H:%M:%S %z]")
    text = {name: quoted(written[name]) for name in ("request", "referer", "agent")}
    found = event(
        f"{written['host']} {written['ident']} {written['user']} {time} {text['request']} "
        f"{written['status']} {written['bytes']} {text['referer']} {text['agent']}".encode()
    )
    assert found["time"] == at
    assert {name: found[name] for name in ("host", "ident", "user", "status", "bytes")} == {
        name: written[name] for name in ("host", "ident", "user", "status", "bytes")
    }
    assert (found["request"], found["agent"]) == (text["request"][1:-1], text["agent"][1:-1])
    assert found["referer"] == (None if written["referer"] == "-" else text["referer"][1:-1])
