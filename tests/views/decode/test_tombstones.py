"""A record without a value is nothing, an event of a function, or a reject, as the source says; no bytes are a reject."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from tandem import Event, Source, by_field, by_header
from tandem.views.decode import decode
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint
from tandem.views.source.source import RECORDS_SCHEMA, Tombstones
from tests.views.logged import decoded, records

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


class Change(Event):
    at: datetime
    key: str
    deleted: bool = False


def read(value: bytes | None, key: bytes | None) -> Any:
    return Change(at=NOON, key=(key or b"").decode(), deleted=value is None)


def read_list(value: bytes | None, key: bytes | None) -> Any:
    return [read(value, key)] * 2 if value is None else [read(value, key)]


CHANGES = Source(topic="t", event=Change, event_time="at")
GOOD = b'{"at": "2026-11-01T12:00:00Z", "key": "a"}'


def keyed(*pairs: tuple[bytes, bytes | None]) -> pa.Table:
    table = records([value for _, value in pairs])
    keys = pa.array([key for key, _ in pairs], RECORDS_SCHEMA.field("key").type)
    return table.set_column(table.column_names.index("key"), "key", keys)


def test_a_compacted_topic_has_tombstones_and_any_other_a_fault() -> None:
    found = decoded(CHANGES, GOOD, None, b"", GOOD)
    assert (found.skipped, found.rejects["offset"].to_pylist()) == (0, [1, 2])
    found = decoded(replace(CHANGES, compacted=True), GOOD, None, b"", GOOD)
    assert (found.skipped, found.rejects["offset"].to_pylist(), found.events["_offset"].to_pylist()) == (1, [2], [0, 3])
    assert decoded(replace(CHANGES, compacted=True), None, None).skipped == 2
    assert decoded(replace(CHANGES, compacted=True, tombstones="reject"), None).rejects["reason"].to_pylist() == ["empty"]


@pytest.mark.parametrize("record_filter", [by_field("key", "a"), by_header("kind", "x")])
def test_a_tombstone_is_skipped_whosever_it_is(record_filter: Any) -> None:
    """A record without a value has no kind, so nobody can say whose it is."""
    found = decoded(replace(CHANGES, tombstones="skip", record_filter=record_filter), None, b"{}", None)
    assert (found.skipped, found.events.num_rows, found.others + found.rejects.num_rows) == (2, 0, 1)


def test_a_function_reads_a_tombstone_and_its_key() -> None:
    source = replace(CHANGES, decoder=read, tombstones="event")
    found = decode(source, keyed((b"a", b"1"), (b"b", None), (b"c", b"")))
    rows = [(one["_offset"], one["key"], one["deleted"]) for one in found.events.to_pylist()]
    assert rows == [(0, "a", False), (1, "b", True)]
    assert (found.rejects["offset"].to_pylist(), found.skipped) == ([2], 0)
    several = replace(source, decoder=read_list, max_events_per_record=2)
    found = decode(several, keyed((b"a", b"1"), (b"b", None)))
    assert [(one["_offset"], one["_index"]) for one in found.events.to_pylist()] == [(0, 0), (1, 0), (1, 1)]


def test_only_a_function_and_debezium_read_tombstones() -> None:
    with pytest.raises(
        DefinitionError, match=r'tombstones="event" needs debezium\(\) as decoder, or a function .*json\(\) reads'
    ):
        replace(CHANGES, tombstones="event")
    with pytest.raises(DefinitionError, match="tombstones 'keep' is not one of: skip, event, reject"):
        replace(CHANGES, tombstones="keep")  # type: ignore[arg-type]


def test_sources_that_reject_tombstones_mean_what_they_meant() -> None:
    rules: list[Tombstones | None] = [None, "reject", "skip"]
    of = {rule: decoder_fingerprint(replace(CHANGES, tombstones=rule)) for rule in rules}
    assert of[None] == of["reject"] != of["skip"]
    assert decoder_fingerprint(replace(CHANGES, compacted=True)) == of["skip"]
    reading = replace(CHANGES, decoder=read)
    assert decoder_fingerprint(replace(reading, tombstones="event")) != decoder_fingerprint(reading)
