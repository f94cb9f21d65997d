"""A byte order mark at the start of a value, as programs of Windows write it, changes nothing in any format of texts."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from tandem import Event, Source, apache, apache_combined, csv, json, nginx, nginx_json, syslog, tsv
from tests.views.logged import decoded

MARK = "\ufeff".encode()
TIME = "17/May/2015:10:05:03 +0000"
COMBINED = f'h - - [{TIME}] "GET / HTTP/1.1" 200 5 "-" "-"'


class Row(Event):
    at: datetime
    host: str


class Timed(Event):
    time: datetime
    host: str


class Local(Event):
    time_local: datetime
    remote_addr: str


class Sent(Event):
    time: datetime
    hostname: str


ROWS = Source(topic="t", event=Row, event_time="at", decoder=json())
VALUES = {
    "json": (ROWS, '{"at": "2026-11-01T00:00:00Z", "host": "h"}'),
    "json, damaged": (ROWS, '{"at": "2026-11-01T00:00:00Z", "host": "h", "x": "\\ud83d"}'),
    "json, a list": (replace(ROWS, max_events_per_record=2), '[{"at": "2026-11-01T00:00:00Z", "host": "h"}]'),
    "json, unnested": (
        replace(ROWS, max_events_per_record=2, unnest="host"), '{"at": "2026-11-01T00:00:00Z", "host": ["h"]}'
    ),
    "csv": (replace(ROWS, decoder=csv(columns=("host", "at"))), '"h",2026-11-01T00:00:00Z'),
    "csv, a header": (replace(ROWS, decoder=csv(header=True)), "host,at\nh,2026-11-01T00:00:00Z"),
    "tsv": (replace(ROWS, decoder=tsv(columns=("host", "at"))), "h\t2026-11-01T00:00:00Z"),
    "nginx": (Source(topic="t", event=Local, event_time="time_local", decoder=nginx(format="combined")), COMBINED),
    "nginx_json": (
        Source(topic="t", event=Local, event_time="time_local", decoder=nginx_json()),
        f'{{"remote_addr": "h", "time_local": "{TIME}"}}',
    ),
    "apache": (Source(topic="t", event=Timed, event_time="time", decoder=apache(format="combined")), COMBINED),
    "apache_combined": (Source(topic="t", event=Timed, event_time="time", decoder=apache_combined()), COMBINED),
    "syslog": (Source(topic="t", event=Sent, event_time="time", decoder=syslog()), "<1>1 2026-11-01T00:00:00Z h a - - - x"),
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_it_changes_nothing(name: str) -> None:
    source, value = VALUES[name]

    def event(written: bytes) -> dict[str, Any]:
        result = decoded(source, written)
        (row,) = result.events.to_pylist() or result.rejects.to_pylist()
        return {key: field for key, field in row.items() if not key.startswith("_")}

    found = event(MARK + value.encode())
    assert found == event(value.encode())
    assert "h" in found.values()
    assert event(MARK * 2 + value.encode()) != found


def test_a_value_of_marks_alone_is_a_reject() -> None:
    assert decoded(ROWS, MARK, MARK * 100_000).rejects["reason"].to_pylist() == ["json", "json"]
