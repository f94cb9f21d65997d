"""An index finds the rows that a scan finds, for one or many questions, wherever hashes and starts lie."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from tandem.serving.memory.index import Index

# The first and the last hash, neighbours, and some that differ in their highest or lowest bits alone.
HASHES = (0, 1, 2, 2**62, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 2, 2**64 - 1)
hashes = st.sampled_from(HASHES)
starts = st.integers(-3, 3)
rows = st.lists(st.tuples(hashes, starts), max_size=12).map(sorted)
Row = tuple[int, int]


def index(there: list[Row], *, timed: bool) -> Index:
    return Index(
        np.array([one for one, _ in there], np.uint64), np.array([start for _, start in there], np.int64) if timed else None
    )


@example([], [(0, 0)], True)
@example([(2**64 - 1, 3)] * 3, [(2**64 - 1, 3), (2**64 - 1, 2)], True)
@example([(hash_, 0) for hash_ in HASHES], [(hash_, 0) for hash_ in HASHES], True)
@example([(hash_, 0) for hash_ in HASHES], [(hash_, 1) for hash_ in HASHES], True)
@given(rows, st.lists(st.tuples(hashes, starts), max_size=6), st.booleans())
def test_the_rows_of_a_hash_and_of_a_start_are_found(there: list[Row], asked: list[Row], timed: bool) -> None:  # noqa: FBT001  drawn
    own = index(there, timed=timed)
    wanted = np.array([one for one, _ in asked], np.uint64)
    low, high = own.find(wanted)
    at_low, at_high = own.find(wanted, np.array([start for _, start in asked], np.int64))
    for number, (hash_, start) in enumerate(asked):
        same = [place for place, (one, _) in enumerate(there) if one == hash_]
        then = [place for place in same if not timed or there[place][1] == start]
        assert list(range(*own.rows(hash_))) == list(range(low[number], high[number])) == same
        assert list(range(*own.rows_at(hash_, start))) == list(range(at_low[number], at_high[number])) == then
        assert list(range(*own.rows_at(hash_, None))) == same


@example([], [(0, 0, 1)])
@example([(2**64 - 1, 3)], [(2**64 - 1, 3, 4), (2**64 - 1, 4, 5), (2**64 - 1, 2, 3)])
@example([(hash_, 0) for hash_ in HASHES], [(hash_, 0, 1) for hash_ in HASHES])
@example([(hash_, 0) for hash_ in HASHES], [(hash_, 1, 2) for hash_ in HASHES])
@given(rows, st.lists(st.tuples(hashes, starts, starts), max_size=6))
def test_windows_within_bounds_are_found(there: list[Row], asked: list[tuple[int, int, int]]) -> None:
    own = index(there, timed=True)
    wanted, low, high = (np.array([one[place] for one in asked], kind) for place, kind in enumerate((np.uint64, int, int)))
    found = own.any_within(wanted, low, high).tolist()
    for number, (hash_, start, end) in enumerate(asked):
        expected = any(one == hash_ and start <= at < end for one, at in there)
        assert own.is_within(hash_, start, end) == found[number] == expected
    timeless = index(there, timed=False)
    assert not timeless.any_within(wanted, low, high).any()
    assert not any(timeless.is_within(*one) for one in asked)
