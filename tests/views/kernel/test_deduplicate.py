"""Duplicates: one event of each identity and event time, the first in the log, however the rows arrive."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, NamedTuple
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.views.kernel.deduplicate import deduplicate, identity_columns
from tandem.views.source.event import Event, Scale
from tandem.views.source.source import Source, events_schema
from tests.views.logged import decoded

START = datetime(2026, 11, 1, tzinfo=UTC)


class Sale(Event):
    """An event with an identity of two fields, and content of every sort."""

    shop: str
    number: int
    at: datetime
    amount: float | None = None
    tags: list[str] | None = None


SALES = Source(topic="sales", event=Sale, event_time="at", identity=("shop", "number"))
EVER = replace(SALES, identity_spans="any_time")
BOTH = pytest.mark.parametrize("source", [SALES, EVER], ids=["event_time", "any_time"])


class Copy(NamedTuple):
    """One record of a sale, small enough to collide with others."""

    topic: int
    partition: int
    offset: int
    shop: str
    number: int
    second: int
    amount: float | None
    tags: tuple[str, ...] | None


def table(copies: Sequence[Copy]) -> pa.Table:
    """The copies as an events table, in their order."""
    return pa.Table.from_pylist(
        [
            {
                "_topic_id": f"topic{copy.topic}",
                "_partition": copy.partition,
                "_offset": copy.offset,
                "_append_time": START,
                "shop": copy.shop,
                "number": copy.number,
                "at": START + timedelta(seconds=copy.second),
                "amount": copy.amount,
                "tags": None if copy.tags is None else list(copy.tags),
            }
            for copy in copies
        ],
        schema=events_schema(SALES),
    )


COPIES = st.lists(
    st.builds(
        Copy,
        topic=st.integers(0, 1),
        partition=st.integers(0, 1),
        offset=st.integers(0, 20),
        shop=st.sampled_from("ab"),
        number=st.integers(0, 2),
        second=st.integers(0, 1),
        amount=st.sampled_from([None, 1.0, 2.0]),
        tags=st.sampled_from([None, (), ("x",)]),
    ),
    max_size=12,
    unique_by=lambda copy: copy[:3],
)


def key_of(source: Source, copy: Copy) -> tuple[Any, ...]:
    """What duplicates have in common."""
    return (copy.shop, copy.number) if source is EVER else (copy.shop, copy.number, copy.second)


def expected(source: Source, copies: Sequence[Copy], known: set[Any]) -> tuple[set[Any], int, int]:
    """Plain Python's word on the matter: positions kept, duplicates, conflicts."""
    kept: dict[Any, Copy] = {}
    contents: set[Any] = set()
    duplicates = conflicts = 0
    for copy in sorted(copies):
        key = key_of(source, copy)
        if key in known:
            duplicates += 1
        elif key in kept:
            duplicates += 1
            conflicts += (key, copy[5:]) not in contents
        else:
            kept[key] = copy
        contents.add((key, copy[5:]))
    return {copy[:3] for copy in kept.values()}, duplicates, conflicts


def positions(events: pa.Table) -> list[tuple[int, int, int]]:
    """Where the events were in the log, in the order of the rows."""
    rows = events.select(["_topic_id", "_partition", "_offset"]).to_pylist()
    return [(int(row["_topic_id"][-1]), row["_partition"], row["_offset"]) for row in rows]


@BOTH
@given(COPIES, COPIES.map(lambda copies: copies[:3]), st.randoms())
def test_the_first_in_the_log_wins_whatever_the_order(
    source: Source, copies: list[Copy], before: list[Copy], random: Any
) -> None:
    """Any order of the rows keeps the same events and counts the same duplicates and conflicts as plain Python."""
    random.shuffle(copies)
    known = {key_of(source, copy) for copy in before}
    result = deduplicate(source, table(copies), table(before).select(identity_columns(source)))
    kept, duplicates, conflicts = expected(source, copies, known)
    assert positions(result.events) == [copy[:3] for copy in copies if copy[:3] in kept]
    assert (result.duplicates, result.conflicts) == (duplicates, conflicts)
    assert deduplicate(source, table(copies), None) == deduplicate(source, table(copies), table([]))


@BOTH
@given(COPIES, st.randoms())
def test_conflicts_are_the_contents_that_were_dropped_in_whatever_order(source: Source, copies: list[Copy], random: Any) -> None:
    """Their number does not hang on which copy is first in the log, as a micro-batch cannot know that."""
    places = [copy[:3] for copy in copies]
    random.shuffle(places)
    moved = [Copy._make((*place, *copy[3:])) for place, copy in zip(places, copies, strict=True)]
    whole, other = deduplicate(source, table(copies)), deduplicate(source, table(moved))
    assert (whole.duplicates, whole.conflicts) == (other.duplicates, other.conflicts)


def test_without_identity_every_event_counts() -> None:
    """A source that names no identity has no copies."""
    events = table([Copy(0, 0, offset, "a", 1, 1, None, None) for offset in range(3)])
    result = deduplicate(Source(topic="sales", event=Sale, event_time="at"), events)
    assert (result.events, result.duplicates, result.conflicts) == (events, 0, 0)


def test_topics_of_unknown_age_order_by_their_ids() -> None:
    """Not by their first appearance in the table."""
    copies = [Copy(1, 0, 0, "a", 1, 1, 1.0, None), Copy(0, 0, 5, "a", 1, 1, 2.0, None)]
    assert positions(deduplicate(SALES, table(copies)).events) == [(0, 0, 5)]


def test_the_oldest_topic_is_the_first_of_the_log() -> None:
    copies = [Copy(1, 0, 0, "a", 1, 1, 1.0, None), Copy(0, 0, 5, "a", 1, 1, 2.0, None)]
    newer, older = sorted({str(topic) for topic in table(copies)["_topic_id"].to_pylist()})
    assert positions(deduplicate(SALES, table(copies), generations=(older, newer)).events) == [(1, 0, 0)]
    assert positions(deduplicate(SALES, table(copies), generations=(older,)).events) == [(1, 0, 0)]


class Typed(Event):
    """An identity of every type that one may have."""

    at: datetime
    flag: bool
    key: UUID
    raw: bytes
    day: date
    price: Annotated[Decimal, Scale(2)]


def test_every_type_of_identity_matches_what_is_known() -> None:
    """Known identities are found by fields of every type, also in the wider types that table readers return."""
    source = Source("t", Typed, "at", identity=("flag", "key", "raw", "day", "price"))
    value = (
        b'{"at": "2026-11-01T00:00:00Z", "flag": true, "key": "12345678-1234-5678-1234-567812345678", "raw": "AAE=", '
        b'"day": "2026-11-01", "price": "1.50"}'
    )
    events = decoded(source, value, value.replace(b"1.50", b"1.5"), value.replace(b"1.50", b"1.51")).events
    assert deduplicate(source, events).duplicates == 1
    known = events.slice(0, 1).select(identity_columns(source))
    wide = known.set_column(2, "raw", known["raw"].cast(pa.large_binary()))
    assert deduplicate(source, events, wide).events.equals(events.slice(2))
