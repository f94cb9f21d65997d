"""A record's idempotency key in the identity of its event: who sends again is counted once, and nobody else is anybody's copy."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from tandem.speed.dedup.within_task import keys_of
from tandem.views import oracle
from tandem.views.decode import decode
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint, view_meaning
from tandem.views.instant import APPEND_TIME
from tandem.views.kernel.deduplicate import deduplicate, identity_columns
from tandem.views.measures import count
from tandem.views.project.partition_key import record_keys
from tandem.views.source.event import Event
from tandem.views.source.source import IDEMPOTENCY_HEADER, IDEMPOTENCY_KEY, RECORDS_SCHEMA, Source, events_schema
from tandem.views.testing import answer
from tandem.views.view import View
from tandem.views.windows import all_time
from tests.views.logged import records


class Reading(Event):
    at: datetime
    sensor: str
    value: int = 0


BY_KEY = Source(topic="t", event=Reading, event_time="at", identity=(IDEMPOTENCY_KEY,))
WITHIN = replace(BY_KEY, identity=("sensor", IDEMPOTENCY_KEY))
VALUE = b'{"at": "2026-11-01T00:00:00Z", "sensor": "a"}'
OTHER = b'{"at": "2026-11-01T00:00:00Z", "sensor": "b"}'
NONE: Any = object()


def logged(*sent: tuple[bytes, Any]) -> pa.Table:
    """Records of a value each, with an idempotency key unless that is NONE."""
    table = records([value for value, _ in sent])
    headers = [[] if key is NONE else [{"key": "x", "value": b"y"}, {"key": IDEMPOTENCY_HEADER, "value": key}] for _, key in sent]
    column = pa.array(headers, RECORDS_SCHEMA.field("headers").type)
    return table.set_column(table.column_names.index("headers"), "headers", column)


def offsets(events: pa.Table) -> list[int]:
    return list(events["_offset"].to_pylist())


@pytest.mark.parametrize(
    ("source", "counted"),
    [
        (BY_KEY, [0, 2, 3, 4, 5]),
        (WITHIN, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_a_copy_with_the_same_key_counts_once_and_those_without_each(source: Source, counted: list[int]) -> None:
    """In the kernel's deduplicate, the speed layer's keys and the plain oracle alike."""
    sent = [(VALUE, b"k1"), (OTHER, b"k1"), (VALUE, NONE), (VALUE, NONE), (VALUE, b"k2"), (OTHER, NONE), (VALUE, b"k1")]
    events = decode(source, logged(*sent)).events
    assert offsets(deduplicate(source, events).events) == counted
    known = deduplicate(source, events.slice(0, 2)).events.select(identity_columns(source))
    assert [
        *offsets(deduplicate(source, events.slice(0, 2)).events),
        *offsets(deduplicate(source, events.slice(2), known).events),
    ] == counted
    assert len({tuple(key[:2]) for key in keys_of(source, events).tolist()}) == len(counted)
    assert oracle.identity_columns(source) == identity_columns(source)
    first = oracle.first_places(source, [events], ())
    assert offsets(oracle.counted(source, events, first, ())) == counted


def test_all_events_of_a_value_count_and_their_copies_do_not() -> None:
    """A key is its record's: equal events of one list are told apart by their index, and an equal index makes a copy."""
    source = replace(BY_KEY, max_events_per_record=3)
    value = b"[" + VALUE + b"," + VALUE + b"]"
    events = decode(source, logged((value, b"k"), (value, b"k"), (value, NONE), (value, NONE))).events
    found = deduplicate(source, events)
    assert list(zip(offsets(found.events), found.events["_index"].to_pylist(), strict=True)) == [
        (0, 0),
        (0, 1),
        (2, 0),
        (2, 1),
        (3, 0),
        (3, 1),
    ]
    assert (found.duplicates, found.conflicts) == (2, 0)
    first = oracle.first_places(source, [events], ())
    assert offsets(oracle.counted(source, events, first, ())) == offsets(found.events)


def test_another_content_under_a_key_is_a_conflict() -> None:
    found = deduplicate(BY_KEY, decode(BY_KEY, logged((VALUE, b"k"), (OTHER, b"k"))).events)
    assert (found.duplicates, found.conflicts) == (1, 1)


def test_where_the_log_tells_the_time_the_key_alone_makes_a_copy() -> None:
    source = replace(
        BY_KEY, event_time=APPEND_TIME, plausible=(datetime(1960, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))
    )
    table = logged((VALUE, b"k"), (VALUE, b"k"), (VALUE, NONE))
    kinds = pa.array([1] * 3, RECORDS_SCHEMA.field("timestamp_type").type)
    timed = table.set_column(table.column_names.index("timestamp_type"), "timestamp_type", kinds)
    assert identity_columns(source) == [IDEMPOTENCY_KEY]
    assert offsets(deduplicate(source, decode(source, timed).events).events) == [0, 2]


@pytest.mark.parametrize("key", [None, b"", b"two words", b"\xff", b"tab\t", b"x" * 256])
def test_a_header_that_can_be_no_key_is_the_records_fault(key: bytes | None) -> None:
    """It may not pass for another's place in the log, nor for no key at all."""
    decoded = decode(BY_KEY, logged((VALUE, key), (VALUE, b"!~" + b"x" * 253)))
    assert offsets(decoded.events) == [1]
    (reject,) = decoded.rejects.to_pylist()
    assert (reject["reason"], reject["offset"]) == ("invalid_value", 0)
    assert reject["detail"] == "header 'idempotency-key' is not 1 to 255 visible ASCII characters"


def test_of_a_header_that_stands_repeatedly_the_last_counts() -> None:
    table = logged((VALUE, b"k"))
    headers = [[{"key": IDEMPOTENCY_HEADER, "value": b"k"}, {"key": IDEMPOTENCY_HEADER, "value": b"l"}]]
    column = pa.array(headers, RECORDS_SCHEMA.field("headers").type)
    table = table.set_column(table.column_names.index("headers"), "headers", column)
    assert decode(BY_KEY, table).events[IDEMPOTENCY_KEY].to_pylist() == ["l"]


def test_events_hold_the_key_where_it_is_named_and_views_may_use_it() -> None:
    told = replace(BY_KEY, identity=(), metadata=(IDEMPOTENCY_KEY,))
    assert events_schema(told).names == events_schema(BY_KEY).names
    assert IDEMPOTENCY_KEY not in events_schema(replace(told, metadata=())).names
    assert decode(told, logged((VALUE, NONE), (VALUE, b"k"))).events[IDEMPOTENCY_KEY].to_pylist() == ["at topic/0/0", "k"]
    keyless = View(told, keys={"keyless": "_idempotency_key LIKE 'at %'"}, window=all_time(), measures={"n": count()})
    two = [Reading(at=datetime(2026, 11, 1, tzinfo=UTC), sensor="a")] * 2
    assert [(row["keyless"], row["n"]) for row in answer(keyless, two)] == [(True, 2)]
    assert [row["n"] for row in answer(replace(keyless, source=BY_KEY), two)] == [2]


def test_it_is_part_of_what_events_and_copies_mean() -> None:
    plain = replace(BY_KEY, identity=())
    assert decoder_fingerprint(BY_KEY) != decoder_fingerprint(plain)
    told = View(BY_KEY, measures={"n": count()})
    assert "_idempotency_key" in str(view_meaning(told))


def test_a_key_of_the_records_is_computed_all_the_same() -> None:
    assert record_keys(replace(BY_KEY, key="sensor"), [VALUE, OTHER]) == [b"a", b"b"]


def test_an_identity_that_is_no_field_is_refused() -> None:
    with pytest.raises(DefinitionError, match="identity: no field '_headers' in Reading"):
        replace(BY_KEY, identity=("_headers",))
