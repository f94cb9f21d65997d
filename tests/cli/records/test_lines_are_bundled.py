"""The lines of a file become values of records: one line, several, or a header and rows."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tandem import Event, Source, View, count, csv, nginx_json
from tandem.cli.project.try_view import trial
from tandem.cli.records.bundles import Bundles
from tandem.views.decode.file import FileLayout, layout


class Row(Event):
    at: datetime
    n: int


JSON = Source(topic="t", event=Row, event_time="at")
HEADER = replace(JSON, decoder=csv(header=True))
COLUMNS = replace(JSON, decoder=csv(columns=("at", "n")))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (JSON, FileLayout(False, 1)),
        (replace(JSON, max_events_per_record=3), FileLayout(False, 1)),
        (replace(JSON, decoder=nginx_json(), max_events_per_record=3), FileLayout(False, 3)),
        (replace(JSON, decoder=nginx_json(), max_events_per_record=3, key="n"), FileLayout(False, 1)),
        (COLUMNS, FileLayout(False, 1)),
        (replace(COLUMNS, max_events_per_record=3), FileLayout(False, 3)),
        (HEADER, FileLayout(True, 1)),
        (replace(HEADER, max_events_per_record=3), FileLayout(True, 3)),
        (replace(HEADER, max_events_per_record=3, key="n"), FileLayout(True, 1)),
    ],
)
def test_the_layout_of_a_record_follows_the_format(source: Source, expected: FileLayout) -> None:
    assert layout(source) == expected


def values(source: Source, *lines: bytes) -> list[tuple[int, bytes]]:
    return [(one.line, one.value) for one in Bundles.of(source).values(lines)]


@pytest.mark.parametrize(
    ("source", "lines", "expected"),
    [
        (JSON, [b"a", b"", b"b"], [(1, b"a"), (2, b""), (3, b"b")]),
        (replace(COLUMNS, max_events_per_record=2), [b"a", b"", b"b", b"c"], [(1, b"a\nb"), (4, b"c")]),
        (HEADER, [b"h", b"a", b"", b"h", b"b"], [(2, b"h\na"), (5, b"h\nb")]),
        (replace(HEADER, max_events_per_record=2), [b"h", b"a", b"b", b"c"], [(2, b"h\na\nb"), (4, b"h\nc")]),
        (HEADER, [b"h"], []),
        (HEADER, [], []),
    ],
)
def test_lines_are_bundled(source: Source, lines: list[bytes], expected: Any) -> None:
    assert values(source, *lines) == expected


def test_a_record_stays_below_the_brokers_limit() -> None:
    lines = [b"x" * 200_000] * 5 + [b"y" * 900_000, b"z"]
    found = values(replace(COLUMNS, max_events_per_record=100), *lines)
    assert [(line, len(value)) for line, value in found] == [(1, 400_001), (3, 400_001), (5, 200_000), (6, 900_000), (7, 1)]


def test_try_reads_a_file_as_feed_sends_it() -> None:
    source = replace(HEADER, max_events_per_record=2)
    lines = [b"n,at", *(b"%d,2026-11-01T00:00:00Z" % n for n in range(5)), b"x,2026-11-01T00:00:00Z"]
    tried = trial(View(source, measures={"n": count()}), lines, at=datetime(2026, 11, 1, tzinfo=UTC))
    assert (tried.lines, tried.records, tried.decoded, tried.events, tried.quarantined) == (7, 3, 2, 4, {"invalid_value": 1})
    assert tried.rejects["offset"].to_pylist() == [5]
    assert tried.rejects["detail"].to_pylist() == ["event 1: field n: not a number: 'x'"]
