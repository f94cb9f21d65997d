"""A replay takes the whole log in bounded steps, on which all partitions advance alike."""

from hypothesis import example, given
from hypothesis import strategies as st

from tandem.ledger.log.positions import LOG_START, Position, ranges
from tandem.speed.source.counted_at import evenly

partitions = st.dictionaries(st.tuples(st.sampled_from("ST"), st.integers(0, 2)), st.integers(0, 500), max_size=4)


@example({("S", 0): 1, ("S", 1): 1}, {}, 1)
@given(partitions, partitions, st.integers(1, 90))
def test_the_steps_tile_the_log(ends: dict[tuple[str, int], int], firsts: dict[tuple[str, int], int], most: int) -> None:
    end, start = Position.of(ends), LOG_START
    lengths = {p: offset - min(firsts.get(p, 0), offset) for p, offset in end.items()}
    covered = []
    for position in evenly(LOG_START, end, firsts, most=most):
        covered.append(ranges(start, position, firsts))
        assert 0 < covered[-1].length <= most + len(lengths)
        gone = {p: position.get(p, 0) - min(firsts.get(p, 0), offset) for p, offset in end.items()}
        share = sum(gone.values()) / sum(lengths.values())
        assert all(abs(gone[p] - length * share) <= 1 + len(lengths) for p, length in lengths.items())
        start = position
    assert start == end or not sum(lengths.values())
    assert sum(one.length for one in covered) == sum(lengths.values())
