"""Identities: equal digests for copies and for nothing else; the first of them in the log stays."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speed.horizon import Horizon
from speed.identities import DIGEST, Identities, copies, identities, joined, values, without
from views.event import Event, Scale
from views.source import Source, events_schema

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


def none_known(found: pa.Table) -> np.ndarray:
    return np.zeros(found.num_rows, dtype=bool)


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
def test_another_value_is_another_identity(changed: dict[str, object]) -> None:
    digests = identities(MOVES, table(move(0), move(1), move(2, **changed)))["digest"].to_pylist()
    assert digests[0] == digests[1] != digests[2]


def test_of_copies_in_several_shares_the_first_in_the_log_stays() -> None:
    shares = [
        table(move(5, partition=1), move(9, partition=1, a="other")),
        table(move(7, topic="S")),
        table(move(3), move(4, a="other")),
    ]
    found = joined([identities(MOVES, share) for share in shares])
    drops = copies(found, none_known(found))
    assert {partition: list(offsets) for partition, offsets in drops.items()} == {("T", 0): [3], ("T", 1): [5, 9]}
    assert [without(share, drops)["_offset"].to_pylist() for share in shares] == [[], [7], [4]]


def test_a_source_without_identity_has_none() -> None:
    found = identities(Source(topic="moves", event=Move, event_time="at"), table(move(0), move(0)))
    assert found.num_rows == 0
    assert copies(joined([found]), none_known(found)) == {}


SPAN = 10

runs = st.lists(st.tuples(st.sets(st.integers(0, 200), max_size=8), st.integers(0, 5)), max_size=40)


@given(runs)
def test_the_horizon_holds_what_was_counted_within_its_span(added: list[tuple[set[int], int]]) -> None:
    """Against a plain dictionary of the time at which each identity was last added."""
    horizon, last, now = Horizon(SPAN), {}, 0
    for numbers, pause in added:
        now += pause
        digests = np.array([number.to_bytes(16, "big") for number in sorted(numbers)], DIGEST)
        fresh = ~horizon.holds(digests)
        for number, new in zip(sorted(numbers), fresh, strict=True):
            assert new or number in last
            assert not new or now - last.get(number, now - SPAN - 1) > SPAN
        horizon = horizon.extended(Identities(digests[fresh], np.full(int(fresh.sum()), now)))
        last |= {number: now for number, new in zip(sorted(numbers), fresh, strict=True) if new}
    held = sum(len(run.digests) for run in horizon.runs)
    assert len(horizon.runs) <= 1 + np.log2(1 + held)


def test_a_horizon_of_no_span_holds_nothing() -> None:
    found = values(identities(MOVES, table(move(0))))
    assert Horizon(0).extended(found) == Horizon(0)
