"""Positions are a lattice in which a missing partition is the log's first offset."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.ledger.log.positions import LOG_START, Position, distance, lower, ranges, upper
from tandem.views.errors import TandemError
from tests.ledger.tiny import at

partitions = st.tuples(st.sampled_from(["T", "U"]), st.integers(0, 2))
positions = st.dictionaries(partitions, st.integers(0, 3)).map(Position.of)


@given(positions, positions, positions)
def test_comparison_is_a_partial_order(a: Position, b: Position, c: Position) -> None:
    assert LOG_START.at_or_below(a)
    assert a.at_or_below(a)
    assert (a.at_or_below(b) and b.at_or_below(a)) == (a == b)
    assert not (a.at_or_below(b) and b.at_or_below(c)) or a.at_or_below(c)


@given(positions, positions, positions)
def test_upper_and_lower_are_the_tightest_bounds(a: Position, b: Position, c: Position) -> None:
    assert (a.at_or_below(c) and b.at_or_below(c)) == upper(a, b).at_or_below(c)
    assert (c.at_or_below(a) and c.at_or_below(b)) == c.at_or_below(lower(a, b))


def test_a_partition_that_is_added_later_starts_at_the_logs_first_offset() -> None:
    assert at(5).at_or_below(at(5, 3))
    assert not at(5, 3).at_or_below(at(5))
    assert at(5, 0) == at(5)
    assert hash(at(5, 0)) == hash(at(5))


@given(positions)
def test_positions_survive_json(position: Position) -> None:
    assert Position.from_json(position.to_json()) == position


def test_an_end_below_the_start_is_refused() -> None:
    with pytest.raises(TandemError, match=r"\[\{T/0: 5\}, \{T/0: 4, T/1: 1\}\) is not a range"):
        ranges(at(5), at(4, 1))


def test_a_negative_offset_is_refused() -> None:
    with pytest.raises(TandemError, match="offset -1 of partition 0 of topic T"):
        at(-1)


@given(positions, positions)
def test_distance_sums_the_offsets_by_which_it_is_ahead(start: Position, end: Position) -> None:
    ahead = {(partition, at) for partition, offset in end.items() for at in range(offset)}
    assert distance(start, end) == len(ahead - {(partition, at) for partition, offset in start.items() for at in range(offset)})


@given(positions, positions, st.dictionaries(partitions, st.integers(0, 3)))
def test_ranges_cover_the_offsets_between_two_positions(a: Position, b: Position, firsts: dict[tuple[str, int], int]) -> None:
    start, end = lower(a, b), upper(a, b)
    expected = {p: set(range(start.get(p, firsts.get(p, 0)), offset)) for p, offset in end.items()}
    found = {
        p: {at for interval in intervals for at in range(*interval)} for p, intervals in ranges(start, end, firsts).intervals
    }
    assert found == {p: offsets for p, offsets in expected.items() if offsets}
