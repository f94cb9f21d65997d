"""Identities: equal keys only for duplicates; the first of them in the log stays."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from tandem.speed.dedup.across_tasks import find_duplicates
from tandem.speed.dedup.dedup_window import DedupWindow
from tandem.speed.dedup.keys import KEY, Keys
from tandem.speed.dedup.within_task import Identities, identified, identities, is_at, values
from tandem.views.kernel.deduplicate import deduplicate
from tandem.views.source.event import Event, Scale
from tandem.views.source.source import Source, events_schema

AT = datetime(2026, 11, 1, tzinfo=UTC)


class Move(Event):
    """Every type that an identity may have."""

    a: str
    b: str
    raw: bytes
    day: date
    at: datetime
    unit: UUID
    price: Annotated[Decimal, Scale(2)]
    n: int
    yes: bool


MOVES = Source(topic="moves", event=Move, event_time="at", identity=("a", "b", "raw", "day", "unit", "price", "n", "yes"))


def move(offset: int, *, partition: int = 0, topic: str = "T", **changed: object) -> dict[str, object]:
    row = {
        "_topic_id": topic, "_partition": partition, "_offset": offset, "_append_time": AT + timedelta(seconds=offset),
        "a": "x", "b": "y", "raw": b"\x00\\", "day": AT.date(), "at": AT, "unit": str(UUID(int=7)), "price": Decimal("1.50"),
        "n": 1, "yes": True,
    }  # fmt: skip
    return row | changed


def table(*rows: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=events_schema(MOVES))


def told(events: pa.Table) -> pa.Table:
    """What a task tells the driver of these events."""
    return identities(MOVES, identified(MOVES, events))


@pytest.mark.parametrize(
    "changed",
    [
        {"a": "xy", "b": ""},
        {"a": 'x","y', "b": ""},
        {"raw": b"\\x00\\"},
        {"day": date(2026, 11, 2)},
        {"at": AT + timedelta(microseconds=1)},
        {"unit": str(UUID(int=8))},
        {"price": Decimal("1.51")},
        {"n": -1},
        {"yes": False},
    ],
    ids="+".join,
)
def test_another_value_is_another_identity(changed: dict[str, Any]) -> None:
    alike = told(table(move(0), move(1)))
    assert (alike["_offset"].to_pylist(), alike["first"].to_pylist()) == ([0], [True])
    found = told(table(move(0), move(1), move(2, **changed)))
    assert found["first"].to_pylist() == [True, True]
    assert len({tuple(key[:2]) for key in values(found).keys.tolist()}) == 2


def test_the_first_duplicate_in_the_log_stays_across_shares() -> None:
    shares = [
        table(move(5, partition=1), move(9, partition=1, a="other")),
        table(move(7, topic="S")),
        table(move(3), move(4, a="other")),
    ]
    drops = find_duplicates([told(share) for share in shares], DedupWindow(1)).drops
    assert {partition: list(offsets) for partition, offsets in drops.items()} == {("T", 0): [3], ("T", 1): [5, 9]}
    assert [share.filter(~is_at(share, drops))["_offset"].to_pylist() for share in shares] == [[], [7], [4]]


@pytest.mark.parametrize(("contents", "conflicts"), [((1, 1, 1), 0), ((1, 2, 1), 1), ((1, 2, 3), 2), ((2, 1, 2), 1)])
def test_duplicates_across_shares_conflict_once_for_each_other_content(contents: tuple[int, ...], conflicts: int) -> None:
    """Equal ones add one key, and are no conflict, whichever tasks have read them."""
    source = Source(topic="moves", event=Move, event_time="at", identity=("a",))
    shares = [table(move(offset, n=n)) for offset, n in enumerate(contents)]
    found = find_duplicates([identities(source, identified(source, share)) for share in shares], DedupWindow(1))
    assert (found.conflicts, len(found.added.keys)) == (conflicts, len(set(contents)))


class Inner(msgspec.Struct, frozen=True):
    """A struct with what is hard to tell apart as a text."""

    words: list[str] | None = None
    raw: bytes | None = None


class Note(Event):
    """Content of every sort beside the identity."""

    id: int
    at: datetime
    text: str | None = None
    number: float | None = None
    price: Annotated[Decimal, Scale(18)] | None = None
    inner: Inner | None = None
    many: list[Inner] | None = None
    lists: list[list[int]] | None = None


NOTES = Source(topic="notes", event=Note, event_time="at", identity=("id",))
PLACED = {"_topic_id": "T", "_partition": 0, "_append_time": AT, "id": 1, "at": AT}
CONTENTS: list[dict[str, object]] = [
    {},
    {"text": "null"}, {"text": ""}, {"text": '"'}, {"text": "1.0"}, {"number": 1.0}, {"number": 0.1}, {"number": 0.1 + 2**-56},
    {"price": Decimal("12345678901234567.123456789012345678")}, {"price": Decimal("12345678901234567.123456789012345679")},
    {"inner": {}}, {"inner": {"words": []}}, {"inner": {"words": [None]}}, {"inner": {"words": ["null"]}},
    {"inner": {"words": ["a", "b"]}}, {"inner": {"words": ["a, b"]}}, {"inner": {"words": ['a","b']}},
    {"inner": {"raw": b"\x00"}}, {"inner": {"raw": b"\\x00"}}, {"inner": {"raw": b""}},
    {"many": []}, {"many": [None]}, {"many": [{}]}, {"many": [{"words": ["x"]}, {}]}, {"many": [{}, {"words": ["x"]}]},
    {"lists": []}, {"lists": [[]]}, {"lists": [None]}, {"lists": [[0]]}, {"lists": [[1], [2]]}, {"lists": [[1, 2]]},
]  # fmt: skip


def test_equal_contents_share_a_key_and_different_ones_do_not() -> None:
    rows = [PLACED | {"_offset": offset} | content for offset, content in enumerate([*CONTENTS, *CONTENTS])]
    events = pa.Table.from_pylist(rows, schema=events_schema(NOTES))
    found = identities(NOTES, identified(NOTES, events))
    firsts = dict(zip(found["_offset"].to_pylist(), found["first"].to_pylist(), strict=True))
    assert firsts == {offset: offset == 0 for offset in range(len(CONTENTS))}
    assert len(set(map(tuple, values(found).keys.tolist()))) == found.num_rows == len(CONTENTS)
    kept = deduplicate(NOTES, events)
    assert (kept.duplicates, kept.conflicts) == (2 * len(CONTENTS) - 1, len(CONTENTS) - 1)


def test_a_source_without_identity_has_no_identities() -> None:
    source = Source(topic="moves", event=Move, event_time="at")
    found = identities(source, identified(source, table(move(0), move(0))))
    assert found.num_rows == 0
    assert find_duplicates([found], DedupWindow(1)).drops == {}


def keys_made(*identities: bytes) -> Keys:
    """Keys of these identities, of 16 bytes each."""
    return np.frombuffer(b"".join(identity + b"content." for identity in identities), np.uint64).reshape(-1, KEY)


def test_an_identity_is_kept_to_the_end_of_its_span() -> None:
    """By the time of its commit, to the microsecond; by its timestamp, to the second."""
    span, begin = 600_000_000, 10**15
    first, second = (keys_made(name.ljust(16)) for name in (b"first", b"second"))
    for stamped, at, further in ((begin - 2 * span, begin, 1), (begin, begin + 5, 1_000_000)):
        dedup_window = DedupWindow(span).extended(Identities(first, np.array([stamped])), at=at, caught_up=at)
        for more, held in ((0, True), (further, False)):
            late = begin + span + more
            after = dedup_window.extended(Identities(second, np.array([late])), at=late + at - begin, caught_up=late + at - begin)
            assert after.holds(first).all() == held


def test_a_dedup_window_of_zero_length_is_empty() -> None:
    found = values(told(table(move(0))))
    assert DedupWindow(0).extended(found, at=0, caught_up=0).holds(found.keys).tolist() == [False]
