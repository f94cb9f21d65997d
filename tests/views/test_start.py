"""A source starts at a time, now or offsets; records before that are neither events nor rejects."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem import Event, Source, by_header
from tandem.views import oracle
from tandem.views.decode import decode
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint
from tandem.views.project.project import load_files, with_starts
from tandem.views.source.offset_ranges import Ranges
from tandem.views.start import StartPositions, below, first_at, start_text
from tests.views.logged import EPOCH, records

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


class Ping(Event):
    at: datetime
    id: int


PINGS = Source(topic="pings", event=Ping, event_time="at", identity=("id",))
"""Its duplicates have equal ids and times."""


def starting(at: dict[int, int], topic: str = "topic") -> StartPositions:
    return StartPositions.of("declared", ("pings",), {(topic, number): offset for number, offset in at.items()})


def ping(number: int) -> bytes:
    return f'{{"at": "2026-11-01T12:00:00Z", "id": {number}}}'.encode()


@pytest.mark.parametrize(
    ("start", "topic", "message"),
    [
        (datetime(2026, 11, 1), "pings", "start 2026-11-01T00:00:00 has no zone"),  # noqa: DTZ001  that is the fault
        ("yesterday", "pings", "start 'yesterday' is not a time with a zone, \"now\", or the first offsets"),
        ({}, "pings", "is not a time with a zone"),
        ((0, 1200), "pings", "is not a time with a zone"),
        (("pings",), "pings", "is not a time with a zone"),
        ({0: -1}, "pings", "is not first offsets by partition"),
        ({0: True}, "pings", "is not first offsets by partition"),
        ({0: 5}, ("a", "b"), "does not name topics: the source has a, b"),
        ({"c": {0: 5}}, ("a", "b"), "the source has no topic 'c'; topics: a, b"),
        ({"a": 5, "b": {0: 1}}, ("a", "b"), "start of topic 'a': 5 is not first offsets"),
    ],
)
def test_a_start_in_no_valid_form_is_refused(start: Any, topic: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=message.replace("{", r"\{")):
        replace(PINGS, topic=topic, start=start)


def test_equal_starts_are_equal_however_they_are_written() -> None:
    one, other = (replace(PINGS, start=start) for start in ({1: 5, 0: 7}, {"pings": {0: 7, 1: 5}}))
    assert one == other
    assert hash(one) == hash(other)
    assert start_text(NOON) == start_text(NOON.astimezone(tz=None)) == "2026-11-01T12:00:00Z"


@given(st.dictionaries(st.integers(0, 2), st.integers(0, 8)), st.lists(st.integers(0, 7), min_size=1, max_size=8))
def test_each_record_counts_or_is_before_the_start(first: dict[int, int], ids: list[int]) -> None:
    """In every partition: the records from the start on are those that a source without start has there."""
    log = pa.concat_tables([records([ping(each) for each in ids], partition=number) for number in range(3)])
    source = replace(PINGS, start=starting(first))
    whole, found = decode(PINGS, log).events, decode(source, log)
    kept = [row for row in whole.to_pylist() if row["_offset"] >= first.get(row["_partition"], 0)]
    assert found.events.to_pylist() == kept
    assert (found.skipped, found.others, found.rejects.num_rows) == (log.num_rows - len(kept), 0, 0)
    covered = Ranges.of({("topic", number): (0, len(ids)) for number in range(3)})
    assert below(source.start, covered).length == found.skipped
    assert oracle.from_start(source, whole).to_pylist() == kept


def test_what_is_before_the_start_is_no_reject_and_no_tombstone_counts_twice() -> None:
    source = replace(PINGS, start=starting({0: 2}), record_filter=by_header("kind", "ping"), tombstones="skip")
    found = decode(source, records([b"{", None, None, ping(1)]))
    # The filter rejects the last one, which has no header.
    assert (found.skipped, found.others, found.rejects.num_rows, found.events.num_rows) == (3, 0, 1, 0)


def test_another_topic_has_no_record_before_the_start() -> None:
    """A topic that is created again has another id, and begins after the start."""
    assert decode(replace(PINGS, start=starting({0: 2}, "older")), records([ping(1)])).events.num_rows == 1


def test_a_start_is_in_the_fingerprint_only_where_one_is_given() -> None:
    meanings = [decoder_fingerprint(replace(PINGS, start=start)) for start in (None, starting({0: 2}), starting({0: 3}), NOON)]
    assert meanings[0] == decoder_fingerprint(PINGS)
    assert len({*meanings}) == 4
    assert meanings[1] == decoder_fingerprint(replace(PINGS, start=replace(starting({0: 2}), declared="now")))


@given(st.lists(st.integers(0, 9), max_size=8), st.integers(0, 10))
def test_the_first_record_at_a_time_is_the_first_in_the_log_whatever_follows(seconds: list[int], at: int) -> None:
    rows = records([b""] * len(seconds))
    stamps = pa.array([EPOCH + timedelta(seconds=each) for each in seconds], rows["timestamp"].type)
    expected = next((offset for offset, each in enumerate(seconds) if each >= at), None)
    assert first_at(EPOCH + timedelta(seconds=at), rows["offset"], stamps) == expected


def test_stored_files_hold_the_positions_of_a_start() -> None:
    text = (
        "from datetime import datetime\nfrom tandem import Event, Source, View, count\n"
        "class Ping(Event):\n    at: datetime\n    id: int\n"
        'pings = Source(topic="pings", event=Ping, event_time="at", start="now")\n'
        'n = View(source=pings, measures={"n": count()})\n'
    )
    project = load_files({"definitions.py": text.encode(), "tandem.toml": b""})
    assert project.sources["pings"].start == "now"
    resolved = with_starts(project, {"pings": starting({0: 4})})
    again = load_files(resolved.files)
    assert again.sources["pings"].start == again.views["n"].source.start == starting({0: 4})
    assert again.files == resolved.files
