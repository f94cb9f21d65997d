"""An event of a list that does not decode is a reject with its index; the others of its record count, whatever stands beside
them.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem import Event, Source, Version, avro, csv
from tandem.views.decode import decode
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint, decoder_meaning
from tandem.views.instant import APPEND_TIME
from tandem.views.source.source import IDEMPOTENCY_KEY, RECORDS_SCHEMA, rejects_schema
from tests.samples import share
from tests.views.decode.test_values_hold_lists import array
from tests.views.logged import decoded, records
from tests.views.source.formats import test_avro
from tests.views.source.test_versions import KNOWN, ORDERS, in_cents

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


class Reading(Event):
    at: datetime
    n: int


READINGS = Source(topic="t", event=Reading, event_time="at", max_events_per_record=5)
GOOD, BAD, EARLY = (
    b'{"at": "2026-11-01T12:00:00Z", "n": 1}',
    b'{"at": "2026-11-01T12:00:00Z", "n": "x"}',
    b'{"at": "1990-11-01T12:00:00Z", "n": 1}',
)
OBJECTS = [value for value in KNOWN if value.startswith(b'{"')]


def listed(*events: bytes) -> bytes:
    return b"[" + b",".join(events) + b"]"


def places(rejects: pa.Table) -> list[tuple[int, int | None, str]]:
    return [(one["offset"], one["index"], one["reason"]) for one in rejects.to_pylist()]


def test_the_good_events_keep_their_index_and_the_bad_ones_have_theirs() -> None:
    found = decoded(READINGS, listed(BAD, GOOD, EARLY, GOOD), listed(GOOD), listed(BAD, BAD), b"[", listed())
    assert list(zip(found.events["_offset"].to_pylist(), found.events["_index"].to_pylist(), strict=True)) == [
        (0, 1),
        (0, 3),
        (1, 0),
    ]
    assert places(found.rejects) == [
        (0, 0, "wrong_type"),
        (0, 2, "implausible_time"),
        (2, 0, "wrong_type"),
        (2, 1, "wrong_type"),
        (3, None, "json"),
        (4, None, "length"),
    ]
    assert found.rejects["first_bytes"].to_pylist() == [BAD, EARLY, BAD, BAD, b"[", b"[]"]
    assert found.rejects["detail"][0].as_py() == "Expected `int`, got `str` - at `$.n`"


@share(100, quick=10)
@given(st.lists(st.lists(st.sampled_from(OBJECTS), min_size=1, max_size=4), max_size=4))
def test_an_event_of_an_older_version_is_what_it_is_alone(drawn: list[list[bytes]]) -> None:
    """Events of several versions may stand in one record."""
    found = decode(replace(ORDERS, max_events_per_record=4), records([listed(*values) for values in drawn], first=5))
    each = [(place, index, KNOWN[value]) for place, values in enumerate(drawn, 5) for index, value in enumerate(values)]
    rows = [(one["_offset"], one["_index"], (one["id"], one["amount"])) for one in found.events.to_pylist()]
    assert rows == [one for one in each if isinstance(one[2], tuple)]
    assert places(found.rejects) == [one for one in each if isinstance(one[2], str)]


class Row(Event):
    day: datetime
    number: int


def from_row(old: Any) -> Any:
    return Reading(at=old.day, n=old.number)


OLD_ROWS = replace(READINGS, versions=(Version(Row, from_row, decoder=csv(columns=("day", "number"))),))


def test_a_record_that_only_an_older_decoder_reads_is_the_list_that_it_reads() -> None:
    rows = b"2026-11-01T12:00:00Z,1\n2026-11-01T12:00:00Z,x\n2026-11-01T12:00:00Z,3"
    found = decoded(OLD_ROWS, listed(GOOD), rows, b"neither")
    assert list(zip(found.events["_offset"].to_pylist(), found.events["n"].to_pylist(), strict=True)) == [(0, 1), (1, 1), (1, 3)]
    assert places(found.rejects) == [(1, 1, "invalid_value"), (2, None, "json")]


def test_lists_of_another_length_are_not_mixed() -> None:
    """The older decoder reads the record as two rows: which of them was the bad event, nobody can say."""
    beside = replace(READINGS, decoder=csv(columns=("at", "n")), versions=(Version(Row, from_row, decoder=pairs),))
    found = decoded(beside, b"2026-11-01T12:00:00Z,1\nx,2")
    assert found.events["n"].to_pylist() == [1]
    assert places(found.rejects) == [(0, 1, "invalid_value")]


def pairs(value: bytes) -> Any:
    return [Row(day=NOON, number=number) for number in range(len(value.split(b",")))]


def with_headers(values: Sequence[bytes], key: bytes) -> pa.Table:
    table = records(list(values))
    headers = pa.array([[{"key": "idempotency-key", "value": key}]] * len(values), RECORDS_SCHEMA.field("headers").type)
    return table.set_column(table.column_names.index("headers"), "headers", headers)


def test_a_fault_of_the_whole_record_is_its_only_reject() -> None:
    keyed = replace(READINGS, metadata=(IDEMPOTENCY_KEY,))
    found = decode(keyed, with_headers([listed(GOOD, BAD)], b"two words"))
    assert (found.events.num_rows, places(found.rejects)) == (0, [(0, None, "invalid_value")])
    timed = replace(READINGS, event_time=APPEND_TIME, plausible=(datetime(1990, 1, 1, tzinfo=UTC), NOON.replace(year=1991)))
    found = decode(timed, records([listed(GOOD, BAD)]))
    assert (found.events.num_rows, found.rejects.num_rows, found.rejects["index"].to_pylist()) == (0, 1, [None])


def some(value: bytes) -> Any:
    return [ValueError("no number") if part == b"x" else Reading(at=NOON, n=int(part)) for part in value.split()]


def test_a_function_returns_an_exception_in_place_of_an_event() -> None:
    found = decoded(replace(READINGS, decoder=some), b"1 x 3 -4")
    assert found.events["n"].to_pylist() == [1, 3, -4]
    assert places(found.rejects) == [(0, 1, "refused")]
    assert found.rejects["detail"].to_pylist() == ["ValueError: no number"]
    found = decoded(replace(READINGS, decoder=some, on_bad_event="record"), b"1 x 3")
    assert (found.events.num_rows, found.rejects.num_rows, found.rejects["detail"][0].as_py()[:8]) == (0, 1, "event 1:")


def test_one_bad_event_rejects_its_record_where_the_source_says_so() -> None:
    found = decoded(replace(READINGS, on_bad_event="record"), listed(GOOD, BAD), listed(GOOD))
    assert (found.events["_offset"].to_pylist(), found.rejects["offset"].to_pylist()) == ([1], [0])
    assert found.rejects.schema.names == [name for name in rejects_schema(READINGS).names if name != "index"]


def test_only_lists_whose_events_are_rejected_alone_mean_something_new() -> None:
    """A source of one event a record, and one whose records are rejected whole, keep their events tables."""
    assert "on_bad_event" in decoder_meaning(READINGS).parts
    whole = replace(READINGS, on_bad_event="record")
    assert decoder_fingerprint(whole) != decoder_fingerprint(READINGS)
    assert "on_bad_event" not in decoder_meaning(whole).parts
    alone = replace(READINGS, max_events_per_record=None)
    assert "on_bad_event" not in decoder_meaning(alone).parts
    assert decoder_fingerprint(alone) == decoder_fingerprint(replace(alone, on_bad_event="record"))


def test_the_choice_is_one_of_two() -> None:
    with pytest.raises(DefinitionError, match="on_bad_event 'line' is not one of: event, record"):
        replace(READINGS, on_bad_event="line")  # type: ignore[arg-type]


def test_a_list_of_a_thousand_with_one_bad_event_loses_one() -> None:
    values = [in_cents(number) if number != 500 else json.dumps({"id": 1}).encode() for number in range(1000, 2000)]
    values[7] = b"{}"
    found = decoded(replace(ORDERS, max_events_per_record=1000), listed(*values))
    assert (found.events.num_rows, places(found.rejects)) == (999, [(0, 7, "missing_field")])


ROWS = replace(READINGS, decoder=csv(columns=("at", "n")))
ROW = b"2026-11-01T12:00:00Z,1"


@pytest.mark.parametrize(
    ("rows", "indexes", "broken"),
    [
        ((ROW, b'"2026-11-01T12:00:00Z"x,1', ROW), [0, 2], b'"2026-11-01T12:00:00Z"x,1'),
        ((ROW, ROW, b'"2026-11-01T12:00:00Z,1'), [0, 1], b'"2026-11-01T12:00:00Z,1'),
        ((b'"\xff"x,1', ROW, b'"2026-11-01T12:00:00Z",1'), [1, 2], b'"\xff"x,1'),
    ],
)
@pytest.mark.parametrize("header", [False, True])
def test_a_row_that_is_no_row_is_rejected_alone(rows: Sequence[bytes], indexes: list[int], broken: bytes, header: bool) -> None:  # noqa: FBT001  a parameter
    """A character after a closing quote, or a quoted text without an end, which goes on to the value's end."""
    source = replace(ROWS, decoder=csv(header=True)) if header else ROWS
    found = decoded(source, b"\n".join([b"at,n", *rows] if header else rows))
    assert found.events["_index"].to_pylist() == indexes
    assert (found.rejects["reason"].to_pylist(), found.rejects["first_bytes"].to_pylist()) == (["format"], [broken])


def test_a_header_that_is_no_row_rejects_the_record() -> None:
    found = decoded(replace(ROWS, decoder=csv(header=True)), b'"at"x,n\n' + ROW)
    assert (found.events.num_rows, found.rejects["index"].to_pylist()) == (0, [None])


def test_an_avro_item_that_cannot_be_read_is_rejected_alone() -> None:
    """A text that is not UTF-8, in a field that the event type takes."""
    good, damaged = test_avro.written(tags=["gut"]), test_avro.written(tags=["gut"]).replace(b"gut", b"g\xfft")
    several = replace(test_avro.BARE, decoder=avro(schema={"type": "array", "items": test_avro.ORDER}), max_events_per_record=4)
    found = decoded(several, array([good, damaged, good]), array([good])[:-1], array([damaged]) + b"x")
    assert (found.events["_offset"].to_pylist(), found.events["_index"].to_pylist()) == ([0, 0], [0, 2])
    assert places(found.rejects) == [(0, 1, "utf8"), (1, None, "format"), (2, None, "format")]
    assert found.rejects["first_bytes"][0].as_py() == damaged
