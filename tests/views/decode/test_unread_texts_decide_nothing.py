"""A text that is not UTF-8, or has a lone surrogate, rejects a record only if a field takes it: in every format of texts."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec
import pytest

from tandem import Event, Source, apache, apache_combined, csv, json, nginx_json, syslog, tsv
from tandem.views.source.decoder import Decoder
from tandem.views.source.record_filter import ByField
from tests.views.logged import decoded, reason


class Spot(msgspec.Struct):
    name: str


class Note(Event):
    at: datetime
    note: str
    n: int = 0
    spots: list[Spot] = []  # noqa: RUF012 - msgspec copies it
    blob: bytes = b""


class Row(Event):
    at: datetime
    note: str


class Hit(Event):
    time: datetime
    agent: str


class NginxHit(Event):
    time_iso8601: datetime
    agent: str


class Message(Event):
    time: datetime
    app: str
    message: str


AT = b'"at": "2026-11-01T00:00:00Z"'
FORMATS: dict[str, tuple[Decoder, type[Event], str, bytes, bytes]] = {
    "json": (json(), Note, "at", b'{%s, "note": "R", "other": {"U": ["U", {"k": "\\\\U"}]}}' % AT, b""),
    "csv": (csv(columns=("other", "at", "note", "last")), Row, "at", b"U,2026-11-01T00:00:00Z,R,U", b""),
    "csv with quotes": (csv(columns=("other", "at", "note", "last")), Row, "at", b'"U","2026-11-01T00:00:00Z","R","U"', b""),
    "csv with a header": (csv(header=True), Row, "at", b"other,U,at,note\nU,,2026-11-01T00:00:00Z,R", b"other,U,at,note\n"),
    "tsv": (tsv(columns=("other", "at", "note", "last")), Row, "at", b"U\t2026-11-01T00:00:00Z\tR\tU", b""),
    "apache": (apache_combined(), Hit, "time", b'::1 - U [17/May/2015:10:05:03 +0000] "GET /U HTTP/1.1" 200 1 "U" "R"', b""),
    "a format of apache's": (
        apache(format='%h %u %t "%{User-Agent}i" "%r"'),
        Hit,
        "time",
        b'::1 U [17/May/2015:10:05:03 +0000] "R" "U"',
        b"",
    ),
    "nginx": (
        nginx_json(),
        NginxHit,
        "time_iso8601",
        b'{"time_iso8601": "2015-05-17T10:05:03+00:00", "agent": "R", "referer": "U"}',
        b"",
    ),
    "syslog": (syslog(), Message, "time", b'<1>1 2026-11-01T00:00:00Z h a p m [x@1 k="U"] R', b""),
}
BYTES = [b"\xff", b"caf\xe9", b"\xed\xa0\x80", b"\xf0\x9f"]
SURROGATES = [b"\\ud800", b"\\uDFFF", b"\\udc00\\ud800", b"a\\ud83d\\ude00\\ud83d"]
CASES = [(name, damage) for name in FORMATS for damage in (*BYTES, *(SURROGATES if name in ("json", "nginx") else []))]


def written(value: bytes, read: bytes, unread: bytes) -> bytes:
    return value.replace(b"R", read).replace(b"U", unread)


@pytest.mark.parametrize("many", [None, 3])
@pytest.mark.parametrize(("name", "damage"), CASES)
def test_a_damaged_text_decides_only_where_it_is_read(name: str, damage: bytes, many: int | None) -> None:
    decoder, event, time, value, header = FORMATS[name]
    lists: Any = {} if many is None else {"max_events_per_record": many, "on_bad_event": "record"}
    source = Source(topic="t", event=event, event_time=time, decoder=decoder, **lists)

    def outcome(read: bytes, unread: bytes) -> Any:
        record = written(value, read, unread)
        if many is not None:
            good = (
                written(value, b"r", b"u").removeprefix(header)
                if b"U" not in header
                else record.removeprefix(written(header, b"", unread))
            )
            record = b"[" + good + b", " + record + b"]" if name == "json" else record + b"\n" + good
        found = decoded(source, record)
        columns = [column for column in found.events.column_names if not column.startswith("_")]
        return found.events.select(columns).to_pylist() or found.rejects["reason"].to_pylist()

    assert outcome(b"r", damage) == outcome(b"r", b"u")
    assert isinstance(outcome(b"r", b"u")[0], dict)
    assert outcome(damage, b"u") in (["utf8"], ["json"])
    assert outcome(damage, damage) in (["utf8"], ["json"])


@pytest.mark.parametrize("damage", [*BYTES, *SURROGATES])
@pytest.mark.parametrize(
    "value",
    [
        b'{%s, "note": "a", "note": "U"}' % AT,
        b'{%s, "note": "a", "spots": [{"name": "U"}]}' % AT,
        b'{%s, "note": "a", "blob": "U"}' % AT,
        b'{%s, "note": "a", "n": 1U}' % AT,
        b'{%s, "note": "a"}U' % AT,
        b'{%s, "note": "a", U: 1}' % AT,
        b'{%s, "noteU": "a"}' % AT,
        b'{"at": "2026-11-01T00:00:00ZU", "note": "a"}',
    ],
)
def test_json_is_as_strict_as_before_in_what_is_read(value: bytes, damage: bytes) -> None:
    source = Source(topic="t", event=Note, event_time="at")
    assert reason(source, value.replace(b"U", damage)) != "event"


def test_a_repeated_key_is_seen_beside_a_damaged_text() -> None:
    source = Source(topic="t", event=Note, event_time="at")
    assert reason(source, b'{%s, "note": "a", "note": "b", "x": "\xff"}' % AT) != "event"


def test_a_filter_by_a_field_does_not_read_the_others() -> None:
    source = Source(topic="t", event=Note, event_time="at", record_filter=ByField("kind", ("note",)))
    value = b'{%s, "kind": "note", "note": "a", "x": "\xff\\ud800"}' % AT
    assert reason(source, value) == "event"
    assert decoded(source, value.replace(b'note"', b'other"', 1)).others == 1


def test_digits_beyond_the_microsecond_are_cut_beside_a_damaged_text() -> None:
    source = Source(topic="t", event=Note, event_time="at")
    value = b'{"at": "2026-11-01T00:00:00.9999999Z", "note": "a", "x": "\xff"}'
    assert decoded(source, value).events["at"][0].as_py().microsecond == 999_999
    several = replace(source, max_events_per_record=2)
    assert decoded(several, b"[" + value + b"]").events["at"][0].as_py().microsecond == 999_999
