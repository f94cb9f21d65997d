"""Syslog as Heroku, Docker, rsyslog, routers and files have it: numbers of bytes, no structured data, no zone and no year."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem import Event, Source, syslog
from tandem.views.decode import decode
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint
from tandem.views.source.decoder import Decoder
from tests.views.logged import records

EVER = (datetime(1969, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))
"""The tests' records are of 1970."""


class Message(Event):
    time: datetime
    facility: int | None
    severity: int | None
    hostname: str | None
    app: str | None
    procid: str | None
    msgid: str | None
    message: str


def read(
    decoder: Decoder, value: str, at: datetime = datetime(2026, 11, 1, tzinfo=UTC), many: int | None = None
) -> list[dict[str, Any]]:
    """The events of a record with this timestamp, or its reject."""
    source = Source(topic="t", event=Message, event_time="time", decoder=decoder, max_events_per_record=many)
    table = records([value.encode()])
    result = decode(
        source, table.set_column(3, table.schema.field("timestamp"), pa.array([at], table.schema.field("timestamp").type))
    )
    rows = result.events.to_pylist() or result.rejects.to_pylist()
    return [{name: field for name, field in row.items() if not name.startswith("_")} for row in rows]


def one(decoder: Decoder, value: str, at: datetime = datetime(2026, 11, 1, tzinfo=UTC)) -> dict[str, Any]:
    (event,) = read(decoder, value, at)
    return event


HEROKU = "<40>1 2012-11-30T06:45:29+00:00 host app web.3 - State changed from starting to up\n"
HEROKU_LIST = "<40>1 2012-11-30T06:45:26+00:00 host heroku web.3 - [INFO] Starting\nwith command `bundle exec rackup`\n"


def counted(message: str) -> str:
    return f"{len(message.encode())} {message}"


def test_heroku_counts_bytes_and_has_no_structured_data() -> None:
    drain = syslog(structured=False)
    found = one(drain, counted(HEROKU))
    assert found == one(drain, HEROKU) == {
        "time": datetime(2012, 11, 30, 6, 45, 29, tzinfo=UTC), "facility": 5, "severity": 0, "hostname": "host", "app": "app",
        "procid": "web.3", "msgid": None, "message": "State changed from starting to up",
    }  # fmt: skip
    assert one(drain, HEROKU_LIST)["message"] == "[INFO] Starting\nwith command `bundle exec rackup`"
    assert one(syslog(), HEROKU)["reason"] == "format"
    several = read(drain, counted(HEROKU) + counted(HEROKU_LIST) + counted(HEROKU), many=9)
    assert [event["message"][:7] for event in several] == ["State c", "[INFO] ", "State c"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (counted(HEROKU)[:-1], "State changed from starting to up"),
        ("7 " + HEROKU, "format"),
        (counted(HEROKU) + "x", "format"),
        ("83 83 " + HEROKU, "format"),
        ("99999999999 " + HEROKU, "format"),
    ],
)
def test_a_number_of_bytes_is_that_of_the_message(value: str, expected: str) -> None:
    """The line feed, which it counts, may have been a file's line end."""
    found = one(syslog(structured=False), value)
    assert found.get("reason", found.get("message")) == expected


@given(st.lists(st.text(st.sampled_from("a 1<é\n"), max_size=8), min_size=1, max_size=5), st.sampled_from(["", "\n"]))
def test_messages_after_their_numbers_may_hold_anything(texts: list[str], feeds: str) -> None:
    """As RFC 6587 says, with a line feed after each message, too."""
    messages = [f"<1>1 2026-11-01T00:00:00Z h a p m - {text}x" for text in texts]
    value = feeds.join(map(counted, messages))
    assert [event["message"] for event in read(syslog(), value, many=9)] == [f"{text}x" for text in texts]
    assert read(syslog(), value + "9 <1>1", many=9)[0]["reason"] in ("format", "length")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("<30>1 2026-10-31T12:00:00.123456789+01:00 box 3f2b 812 3f2b - hello\n", {"message": "hello", "app": "3f2b"}),
        ('<13>1 2026-10-31T11:00:00.000001Z box app - - [timeQuality tzKnown="1"] hello', {"message": "hello", "procid": None}),
    ],
)
def test_docker_and_rsyslog_write_rfc_5424(value: str, expected: dict[str, Any]) -> None:
    found = one(syslog(), value)
    assert {name: found[name] for name in expected} == expected
    assert found["time"].replace(microsecond=0) == datetime(2026, 10, 31, 11, tzinfo=UTC)


BERLIN = syslog(zone="Europe/Berlin")
SENT = Source(topic="t", event=Message, event_time="time", decoder=BERLIN, plausible=EVER)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            "<34>Oct 11 22:14:15 mymachine su: 'su root' failed for lonvick on /dev/pts/8",
            {"facility": 4, "severity": 2, "hostname": "mymachine", "app": "su", "procid": None,
             "message": "'su root' failed for lonvick on /dev/pts/8"},
        ),
        ("<13>Feb  5 17:32:18 10.0.0.99 Use the BFG!", {"hostname": "10.0.0.99", "app": None, "message": "Use the BFG!"}),
        ("<30>Oct 11 22:14:15 postfix/smtpd[812]: connect: x", {"hostname": None, "app": "postfix/smtpd", "procid": "812"}),
        ("Oct  1 02:14:15 box CRON[9]: (root) CMD (x)\r", {"facility": None, "severity": None, "message": "(root) CMD (x)\r"}),
        ("<6>Oct 11 22:14:15 box kernel: [ 12.5] eth0: up", {"app": "kernel", "message": "[ 12.5] eth0: up"}),
        ("<189>Oct 11 2026 22:14:15.123 fw %ASA-6-302013: Built", {"app": "%ASA-6-302013", "message": "Built"}),
        ("<34>2026-10-11T22:14:15.003000+02:00 box su[230]: x", {"time": datetime(2026, 10, 11, 20, 14, 15, 3000, tzinfo=UTC)}),
        ("<34>1 2026-10-11T22:14:15Z box su 230 - - x", {"hostname": "box", "app": "su", "message": "x"}),
        ("<34>Oct 11 22:14:15 box", {"hostname": "box", "message": ""}),
        ("<34>Oct 11 22:14:15 box su[230]:", {"app": "su", "procid": "230", "message": ""}),
        ("<34>Oct 32 22:14:15 box su: x", {"reason": "invalid_value"}),
        ("<34>Okt 11 22:14:15 box su: x", {"reason": "invalid_value"}),
        ("<192>Oct 11 22:14:15 box su: x", {"reason": "out_of_range"}),
        ("<34> Oct 11 22:14:15 box su: x", {"reason": "format"}),
    ],
)  # fmt: skip
def test_messages_of_rfc_3164(value: str, expected: dict[str, Any]) -> None:
    """The first two are the examples of RFC 3164."""
    found = one(BERLIN, value)
    assert {name: found[name] for name in expected} == expected
    assert one(syslog(), value).get("reason") == ("format" if not value.startswith("<34>1 ") else None)


@pytest.mark.parametrize(
    ("shown", "appended", "expected"),
    [
        ("Dec 31 23:59:59", "2027-01-01T00:00:05", "2026-12-31T22:59:59"),
        ("Jan  1 00:00:00", "2026-12-31T22:59:58", "2026-12-31T23:00:00"),
        ("Jan  1 00:30:00", "2026-12-31T23:40:00", "2026-12-31T23:30:00"),
        ("Jun 30 12:00:00", "2026-12-28T00:00:00", "2026-06-30T10:00:00"),
        ("Jul 15 12:00:00", "2026-01-01T00:00:00", "2025-07-15T10:00:00"),
        ("Feb 29 12:00:00", "2028-02-29T11:00:05", "2028-02-29T11:00:00"),
        ("Feb 29 23:59:59", "2028-03-01T00:00:05", "2028-02-29T22:59:59"),
        ("Feb 29 12:00:00", "2028-08-01T00:00:00", "2028-02-29T11:00:00"),
        ("Feb 29 12:00:00", "2026-03-01T00:00:00", "invalid_value"),
        ("Feb 29 12:00:00", "2029-02-28T00:00:00", "invalid_value"),
        ("Oct 25 02:30:00", "2026-10-25T01:30:00", "2026-10-25T00:30:00"),
        ("Mar 29 02:30:00", "2026-03-29T01:30:05", "2026-03-29T01:30:00"),
    ],
)
def test_the_year_is_that_of_the_nearest_time(shown: str, appended: str, expected: str) -> None:
    """On New Year's Eve, on 29 February, and where clocks are set back or forward."""
    found = one(BERLIN, f"<34>{shown} box su: x", datetime.fromisoformat(appended).replace(tzinfo=UTC))
    assert found.get("reason") or found["time"].isoformat()[:19] == expected
    assert found.get("reason", expected) == expected


@given(
    sent=st.integers(978_307_200, 4_039_372_800).map(lambda second: datetime.fromtimestamp(second, UTC)),
    delay=st.timedeltas(timedelta(days=-180), timedelta(days=180)),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Kiritimati"]),
    write=st.sampled_from(["{:%b} {:2}", "{:%b} {:02}", "{:%b} {}"]),
)
def test_a_time_within_half_a_year_of_its_record_is_read_back(sent: datetime, delay: timedelta, zone: str, write: str) -> None:
    shown = sent.astimezone(ZoneInfo(zone))
    text = f"<34>{write.format(shown, shown.day)} {shown:%H:%M:%S} box su: x"
    expected = shown.replace(fold=0).astimezone(UTC)  # the first, where clocks show a time twice
    assert one(syslog(zone=zone), text, sent + delay)["time"] == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-10-11T22:14:15.003000+02:00 box su[230]: x", {"hostname": "box", "app": "su", "procid": "230", "message": "x"}),
        ("2026-10-11T22:14:15.003000+0200 box kernel: [ 0.5] x", {"app": "kernel", "facility": None, "message": "[ 0.5] x"}),
        ("2026-10-11T22:14:15,003+02:00 box su: x", {"hostname": "box"}),
        ("2026-10-11T22:14:15.003+02:00", {"hostname": None, "app": None, "message": ""}),
    ],
)
def test_lines_of_a_file_may_begin_with_the_time(value: str, expected: dict[str, Any]) -> None:
    """As rsyslog writes files since Debian 12, and `journalctl -o short-iso` prints. The year is not a number of bytes."""
    found = one(BERLIN, value)
    assert {name: found[name] for name in expected} == expected
    assert found["time"] == datetime(2026, 10, 11, 20, 14, 15, 3000, tzinfo=UTC)
    assert read(BERLIN, f"{value}\r\n{value}\n", many=2) == [found, found]
    assert one(syslog(), value)["reason"] == "format"


@pytest.mark.parametrize("number", ["", "29: ", "000029: ", ": "])
@pytest.mark.parametrize(
    ("head", "hostname"),
    [
        ("*Apr 18 13:23:45.123:", None),
        (".Apr 18 2026 13:23:45.123 CEST:", None),
        ("Apr 18 11:23:45.123 UTC:", None),
        ("router: Apr 18 11:23:45.123 GMT:", "router"),
        ("Apr 18 2026 13:23:45.123 fw :", "fw"),
        ("2026 Apr 18 11:23:45.123 UTC:", None),
    ],
)
def test_cisco_writes_a_colon_after_the_time(number: str, head: str, hostname: str | None) -> None:
    """IOS, ASA and NX-OS, with a number of the message, the host's name, the zone's name and the clock's state, or without."""
    found = one(BERLIN, f"<189>{number}{head} %SYS-5-CONFIG_I: Configured: x", datetime(2026, 5, 1, tzinfo=UTC))
    assert found == {
        "time": datetime(2026, 4, 18, 11, 23, 45, 123000, tzinfo=UTC), "facility": 23, "severity": 5, "hostname": hostname,
        "app": "%SYS-5-CONFIG_I", "procid": None, "msgid": None, "message": "Configured: x",
    }  # fmt: skip


def test_a_named_zone_is_not_read_as_another() -> None:
    """A router in UTC is not two hours off where the declared zone is Berlin, and an unknown name is not guessed."""
    (found,) = read(BERLIN, "<189>Apr 18 13:23:45 EDT: %SYS-5-CONFIG_I: x")
    assert (found["reason"], found["detail"]) == (
        "invalid_value",
        "time 'Apr 18 13:23:45' is in zone EDT, but clocks in Europe/Berlin show CEST then",
    )
    twice = [one(BERLIN, f"<189>Oct 25 02:30:00 {name}: %A-1-B: x")["time"].hour for name in ("CEST", "CET")]
    assert twice == [0, 1]


def test_a_line_end_is_not_in_a_message() -> None:
    message = "<34>1 2026-10-11T22:14:15Z box su 230 - -"
    ends = [one(syslog(), message + text + end)["message"] for text in ("", " x") for end in ("", "\n", "\r\n")]
    assert ends == ["", "", "", "x", "x", "x"]
    assert one(syslog(), message + " x\r")["message"] == "x\r"


def test_a_declared_year_needs_no_timestamp() -> None:
    decoder = syslog(zone="Europe/Berlin", year=2024)
    assert one(decoder, "<34>Feb 29 12:00:00 box su: x")["time"] == datetime(2024, 2, 29, 11, tzinfo=UTC)
    assert one(syslog(zone="Europe/Berlin", year=2025), "<34>Feb 29 12:00:00 box su: x")["reason"] == "invalid_value"
    several = read(BERLIN, "<34>Oct 31 01:00:00 a su: x\n<34>Oct 31 02:00:00 b su: y\n", many=2)
    assert [(event["hostname"], event["time"].hour) for event in several] == [("a", 0), ("b", 1)]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: syslog(zone="Berlin"), "no time zone 'Berlin'"),
        (lambda: syslog(year=2026), 'year 2026 is neither "nearest" nor, with a zone, a year'),
        (lambda: syslog(zone="UTC", year=0), "year 0 is neither"),
    ],
)
def test_parameters_that_mean_nothing_are_refused(call: Callable[[], Any], says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        call()


def test_options_at_their_defaults_are_not_in_a_fingerprint() -> None:
    def fingerprint_of(decoder: Decoder) -> str:
        return decoder_fingerprint(Source(topic="t", event=Message, event_time="time", decoder=decoder))

    assert repr(syslog()) == "syslog"
    others = [syslog(structured=False), BERLIN, syslog(zone="UTC"), syslog(zone="UTC", year=2026)]
    assert len({fingerprint_of(decoder) for decoder in (syslog(), *others)}) == 5
    assert [str(decoder) for decoder in (syslog(), *others)] == [
        "syslog()",
        "syslog(structured=False)",
        'syslog(zone="Europe/Berlin")',
        'syslog(zone="UTC")',
        'syslog(zone="UTC", year=2026)',
    ]
    assert str(syslog(structured=False, zone="UTC")) == 'syslog(structured=False, zone="UTC")'
