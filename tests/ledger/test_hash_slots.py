"""The slot of a key is one for a column, for a single key, and for the name of the file that has it."""

from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tandem.ledger.hash_slots import EVERY, SLOTS, by_slot, file_name, slot_columns, slot_of, slots_in, slots_of
from tandem.views.composite.dated import Earlier, chain
from tandem.views.measures.count import count
from tandem.views.view import View, shared_columns
from tandem.views.windows import tumbling
from tests.serving.read.test_selection_names_whole_states import readings

keys = st.tuples(st.none() | st.text(max_size=9), st.none() | st.integers(-(2**63), 2**63 - 1))
TYPES = (pa.string(), pa.int64())


def table(rows: list[tuple[str | None, int | None]]) -> pa.Table:
    columns = [pa.array([row[n] for row in rows], arrow) for n, arrow in enumerate(TYPES)]
    return pa.table(columns, ["name", "number"])


@given(st.lists(keys), st.integers(1, 5))
def test_a_bucket_has_all_states_of_its_range_of_slots(rows: list[tuple[str | None, int | None]], buckets: int) -> None:
    states = table(rows)
    slots = slots_of(states, ["name", "number"]).tolist()
    assert slots == [slot_of(TYPES, row) for row in rows]
    found = {bucket: some.to_pylist() for bucket, some in by_slot(states, ["name", "number"], buckets)}
    for bucket, some in found.items():
        assert some == [row for row, slot in zip(states.to_pylist(), slots, strict=True) if slot * buckets // SLOTS == bucket]
    assert sum(map(len, found.values())) == len(rows)


def test_slots_stay_what_names_of_files_say() -> None:
    """Files of earlier versions are found by these numbers: a change of the hash would lose their states."""
    noon = datetime(2026, 11, 1, 12, tzinfo=UTC)
    assert slot_of(TYPES, ("/shop", 5)) == 27_241
    assert slot_of((pa.string(), pa.timestamp("us", "UTC")), (None, noon)) == 23_811
    assert slot_of((), ()) == 0


@given(st.integers(0, SLOTS - 1), st.integers(0, SLOTS - 1))
def test_a_name_says_which_slots_the_file_has(one: int, other: int) -> None:
    slots = range(min(one, other), max(one, other) + 1)
    assert slots_in(f"batch_version=7/{file_name(slots)}-0b1c.parquet") == slots


def test_a_file_of_another_name_may_have_any_slot() -> None:
    assert slots_in("batch_version=7/part-0000-ffff.parquet") == EVERY
    assert [*pairwise(EVERY)][-1] == (SLOTS - 2, SLOTS - 1)


def test_files_of_a_plain_view_have_the_slots_of_the_dated_view_that_follows() -> None:
    """A late event for a window of the earlier definition is merged with the state that the older file has."""
    plain = View(source=readings, keys={"site": "site"}, window=tumbling(hours=1), measures={"n": count()}, name="v")
    dated = chain(replace(plain, measures={"n": count(), "more": count()}), (Earlier(plain, datetime(2026, 11, 1, tzinfo=UTC)),))
    assert shared_columns(dated) != shared_columns(plain)
    assert slot_columns(dated) == slot_columns(plain) == shared_columns(plain)
