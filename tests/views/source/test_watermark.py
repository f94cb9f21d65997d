"""The watermark: the same for any order and grouping of a log's pieces, and never back."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from tandem.views.source.offset_ranges import Partition
from tandem.views.source.watermark import Maxima, Newest, later, watermark
from tandem.views.source.watermark import newest as united

IDLE = timedelta(microseconds=10)
PARTITIONS = st.tuples(st.sampled_from("ab"), st.integers(0, 2))
PIECES = st.lists(st.dictionaries(PARTITIONS, st.builds(Newest, st.integers(0, 50), st.integers(0, 50)), max_size=4), max_size=6)


def plain(pieces: list[dict[Partition, Newest]], idle: int) -> int | None:
    """Plain Python's word over all that the pieces say."""
    said = [(partition, times) for piece in pieces for partition, times in piece.items()]
    if not said:
        return None
    now = max(times.append_time for _, times in said)
    waited_for = []
    for partition in {partition for partition, _ in said}:
        mine = [times for other, times in said if other == partition]
        if now - max(times.append_time for times in mine) <= idle:
            waited_for.append(max(times.event_time for times in mine))
    return min(waited_for)


@given(PIECES, st.randoms(use_true_random=False), st.integers(0, 6))
def test_it_is_the_least_of_partitions_that_are_not_idle_in_any_order_of_pieces(pieces, dice, split: int) -> None:
    shuffled = dice.sample(pieces, len(pieces))
    grouped = united([united(shuffled[:split]), united(shuffled[split:])])
    assert grouped == united(pieces)
    assert watermark(grouped, IDLE) == plain(pieces, 10)


@given(PIECES)
def test_while_nobody_is_idle_and_no_partition_is_new_it_only_advances(pieces: list[Maxima]) -> None:
    known = united(pieces)
    for piece in pieces:
        ahead = {partition: Newest(times.event_time + 50, times.append_time) for partition, times in piece.items()}
        grown = united([known, ahead])
        before, after = watermark(known, timedelta(1)), watermark(grown, timedelta(1))
        assert before is None or (after is not None and after >= before)
        known = grown


def test_a_partition_that_comes_back_late_does_not_take_it_back() -> None:
    one, other = ("a", 0), ("a", 1)
    maxima: Maxima = {one: Newest(100, 20), other: Newest(40, 9)}
    reached = watermark(maxima, IDLE)
    assert reached == 100
    back = united([maxima, {other: Newest(41, 21)}])
    assert watermark(back, IDLE) == 41
    assert later(reached, watermark(back, IDLE)) == 100


def test_exactly_idle_long_still_holds_back() -> None:
    early, idle = ("a", 0), ("a", 1)
    assert watermark({early: Newest(100, 20), idle: Newest(40, 10)}, IDLE) == 40
    assert watermark({early: Newest(100, 21), idle: Newest(40, 10)}, IDLE) == 100


def test_without_events_there_is_none() -> None:
    assert watermark({}, IDLE) is None
    assert later(None, None) is None
    assert later(None, -5) == -5
