"""What a record has beside its value: in the events where the source says so, and in the expressions of views."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from tandem.views.decode import decode
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint
from tandem.views.kernel.deduplicate import deduplicate
from tandem.views.kernel.kernel import merge, partial, present
from tandem.views.kernel.rows import to_rows
from tandem.views.measures import count, maximum, total
from tandem.views.source.event import Event
from tandem.views.source.offset_ranges import EMPTY
from tandem.views.source.source import RECORDS_SCHEMA, Source, events_schema, record_columns
from tandem.views.testing import answer
from tandem.views.view import View, bind
from tandem.views.windows import all_time
from tests.views.logged import records


class Click(Event):
    at: datetime
    id: str = "a"


PLAIN = Source(topic="t", event=Click, event_time="at")
KEYED = Source(topic="t", event=Click, event_time="at", metadata=("_headers", "_key"))
VALUE = b'{"at": "2026-11-01T00:00:00Z"}'
HEADERS: list[list[dict[str, Any]]] = [
    [{"key": "trace", "value": b"x"}, {"key": "n", "value": None}],
    [],
    [{"key": "n", "value": b""}],
]


def logged(*values: bytes | None) -> pa.Table:
    """Records with keys and headers of their own."""
    table = records(list(values))
    keys = pa.array([b"k\xff", None, b""][: len(values)], pa.binary())
    headers = pa.array(HEADERS[: len(values)], RECORDS_SCHEMA.field("headers").type)
    return table.drop(["key", "headers"]).append_column("key", keys).append_column("headers", headers)


def answers(view: View, table: pa.Table) -> list[dict[str, Any]]:
    return to_rows(view, present(view, merge(view, [partial(view, decode(view.source, table).events, EMPTY)])))


def test_events_hold_the_metadata_that_the_source_names() -> None:
    """Key and headers of each record stand beside its event, and a reject between them moves nothing."""
    events = decode(KEYED, logged(VALUE, b"{", VALUE)).events
    assert events.schema == events_schema(KEYED)
    assert events["_key"].to_pylist() == [b"k\xff", b""]
    assert events["_headers"].to_pylist() == [HEADERS[0], HEADERS[2]]
    assert decode(PLAIN, logged(VALUE)).events.schema == events_schema(PLAIN)
    assert not {"_key", "_headers"} & set(events_schema(PLAIN).names)


def test_a_source_says_which_columns_of_the_records_it_reads() -> None:
    for source in (PLAIN, KEYED):
        table = logged(VALUE, VALUE)
        assert decode(source, table.select(record_columns(source))).events.equals(decode(source, table).events)
    assert set(record_columns(KEYED)) - set(record_columns(PLAIN)) == {"key", "headers"}


def test_every_view_may_use_position_and_append_time() -> None:
    """Where an event was in the log and when it came is part of every event."""
    view = View(
        PLAIN,
        keys={"partition": "_partition", "topic": "_topic_id", "even": "_offset % 2 = 0"},
        window=all_time(),
        measures={"n": count(), "last": maximum("_append_time")},
        where="_offset < 3",
    )
    rows = sorted(answers(view, records([VALUE] * 5)), key=lambda row: row["n"])
    assert [(row["partition"], row["topic"], row["even"], row["n"]) for row in rows] == [
        (0, "topic", False, 1),
        (0, "topic", True, 2),
    ]
    assert [row["last"] for row in rows] == ["1970-01-01T00:00:01Z", "1970-01-01T00:00:02Z"]
    assert bind(view).expressions[0].fields == {"_partition"}


def test_a_view_may_use_key_and_headers_where_the_source_names_them() -> None:
    trace = "list_filter(_headers, lambda h: h.key = 'trace')[1].value"
    view = View(KEYED, keys={"trace": trace}, measures={"n": count(), "bytes": total("octet_length(_key)")})
    rows = sorted(answers(view, logged(VALUE, VALUE, VALUE)), key=lambda row: row["n"])
    assert [(row["trace"], row["n"], row["bytes"]) for row in rows] == [("eA==", 1, 2), (None, 2, 0)]


def test_a_views_test_has_no_keys_and_no_headers() -> None:
    view = View(KEYED, keys={"key": "_key"}, measures={"n": count(), "first": maximum("_offset")})
    (row,) = answer(view, [Click(at=datetime(2026, 11, 1, tzinfo=UTC)), Click(at=datetime(2026, 11, 1, tzinfo=UTC))])
    assert (row["key"], row["n"], row["first"]) == (None, 2, 1)


def test_key_and_headers_of_a_source_that_does_not_name_them_do_not_exist() -> None:
    with pytest.raises(DefinitionError, match="names a field '_key' that Click does not have"):
        bind(View(PLAIN, keys={"key": "_key"}, measures={"n": count()}))
    with pytest.raises(DefinitionError, match=r"'_value',\) is not a tuple of some of: _key, _headers"):
        Source(topic="t", event=Click, event_time="at", metadata=("_value",))
    with pytest.raises(DefinitionError, match="metadata '_key' is not a tuple"):
        Source(topic="t", event=Click, event_time="at", metadata="_key")  # type: ignore[arg-type]


def test_a_copy_with_other_metadata_is_no_conflict() -> None:
    """A copy that was sent again has the same content, whatever its headers."""
    source = Source(topic="t", event=Click, event_time="at", identity=("id",), metadata=("_headers",))
    found = deduplicate(source, decode(source, logged(VALUE, VALUE)).events)
    assert (found.duplicates, found.conflicts) == (1, 0)


def test_what_events_hold_is_part_of_the_fingerprint() -> None:
    """The order of the names is not."""
    swapped = Source(topic="t", event=Click, event_time="at", metadata=tuple(reversed(KEYED.metadata)))
    assert decoder_fingerprint(KEYED) == decoder_fingerprint(swapped) != decoder_fingerprint(PLAIN)
