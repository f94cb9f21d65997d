"""Ranges are sets of offsets in one normal form; uniting refuses what would count an offset twice."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.views.errors import TandemError
from tandem.views.source.offset_ranges import EMPTY, Overlap, Ranges

PARTITIONS = [("a", 0), ("a", 1), ("b", 0)]
intervals = st.tuples(st.integers(0, 12), st.integers(0, 12)).map(lambda pair: (min(pair), max(pair)))
pieces = st.dictionaries(st.sampled_from(PARTITIONS), intervals)


def offsets(ranges: Ranges) -> set[tuple[str, int, int]]:
    return {(*partition, offset) for partition, held in ranges.intervals for start, to in held for offset in range(start, to)}


@given(st.lists(pieces, max_size=5))
def test_union_is_the_union_of_sets_or_refuses(parts: list[dict[tuple[str, int], tuple[int, int]]]) -> None:
    ranges = [Ranges.of(part) for part in parts]
    whole = set().union(*map(offsets, ranges))
    disjoint = len(whole) == sum(map(len, map(offsets, ranges)))
    if not disjoint:
        with pytest.raises(Overlap, match="are in two ranges"):
            EMPTY.union(*ranges)
        return
    united = EMPTY.union(*ranges)
    assert offsets(united) == whole
    assert united.length == len(whole)
    assert united == EMPTY.union(*reversed(ranges))
    assert hash(united) == hash(EMPTY.union(*reversed(ranges)))


@given(st.lists(pieces, max_size=4))
def test_equal_sets_are_equal_values_with_no_empty_or_touching_intervals(
    parts: list[dict[tuple[str, int], tuple[int, int]]],
) -> None:
    try:
        united = EMPTY.union(*map(Ranges.of, parts))
    except Overlap:
        return
    for _, held in united.intervals:
        assert held
        assert all(start < to for start, to in held)
        assert all(to < start for (_, to), (start, _) in pairwise(held))


@given(pieces, pieces)
def test_json_brings_back_the_same(
    one: dict[tuple[str, int], tuple[int, int]], other: dict[tuple[str, int], tuple[int, int]]
) -> None:
    shifted = {partition: (start + 20, to + 20) for partition, (start, to) in other.items()}
    ranges = Ranges.of(one).union(Ranges.of(shifted))
    assert Ranges.from_json(ranges.to_json()) == ranges


def test_what_is_no_range_is_refused() -> None:
    for bounds in ((5, 4), (-1, 3)):
        with pytest.raises(TandemError, match=r"of partition 1 of topic a is not a range of offsets: 0 <= from <= to"):
            Ranges.of({("a", 1): bounds})


def test_overlap_names_the_shared_offsets() -> None:
    with pytest.raises(Overlap, match=r"offsets \[3, 5\) of partition 0 of topic a"):
        Ranges.of({("a", 0): (0, 5)}).union(Ranges.of({("a", 0): (3, 9)}))
