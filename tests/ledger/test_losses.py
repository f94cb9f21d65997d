"""Losses follow from what was recorded of the log; its current start does not show what it had."""

from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tandem.ledger.log.gaps import Gap, GapNotAccepted, UnknownGap, refuse_unaccepted, touching
from tandem.ledger.log.positions import Position
from tandem.ledger.losses import first_offsets, lost
from tandem.views.source.offset_ranges import Ranges

AT = datetime(2026, 11, 1, tzinfo=UTC)
PARTITIONS = [("T", 0), ("T", 1), ("U", 0)]
OFFSETS = st.dictionaries(st.sampled_from(PARTITIONS), st.integers(0, 12))
INTERVALS = st.tuples(st.integers(0, 12), st.integers(0, 12)).map(lambda both: (min(both), max(both)))


@example({("T", 0): (3, 5)}, {("T", 0): 5}, {("T", 0): 9})
@example({("T", 0): (3, 5)}, {("T", 0): 1}, {("T", 0): 3})
@given(st.dictionaries(st.sampled_from(PARTITIONS), INTERVALS), OFFSETS, OFFSETS)
def test_a_gap_touches_a_range_that_has_one_of_its_offsets(held: dict, one: dict, other: dict) -> None:
    """Also one that begins before the range, or ends behind it."""
    start = Position.of({p: min(one.get(p, 0), other.get(p, 0)) for p in PARTITIONS})
    end = Position.of({p: max(one.get(p, 0), other.get(p, 0)) for p in PARTITIONS})
    gap = Gap("s-gap-1", "s", Ranges.of(held), "lost", AT)
    within = any(start.get(p, 0) <= at < end.get(p, 0) for p, interval in held.items() for at in range(*interval))
    assert touching([gap], "s", start, end) == ((gap,) if within else ())
    assert touching([gap], "another", start, end) == ()


@given(st.lists(st.sampled_from("abc"), unique=True), st.lists(st.sampled_from("abcd"), unique=True))
def test_a_run_continues_only_if_exactly_the_existing_gaps_are_accepted(names: list[str], accepted: list[str]) -> None:
    found = [Gap(name, "s", Ranges.of({("T", 0): (0, 1)}), "lost", AT) for name in names]
    if set(accepted) == set(names):
        refuse_unaccepted(found, tuple(accepted))
        return
    with pytest.raises(GapNotAccepted if set(accepted) < set(names) else UnknownGap):
        refuse_unaccepted(found, tuple(accepted))


def test_recorded_first_offsets_stay() -> None:
    starts = {("T", 0): 7, ("T", 1): 8, ("T", 2): 9, ("U", 0): 5}
    topics = {"first": "T", "second": "U"}
    # Nobody has looked before: what the topics had deleted by then is no part of the log.
    assert first_offsets(starts, topics, known={}, names={}) == starts
    # A known partition keeps its first offset; one that was added to a known topic began at 0.
    known = {("T", 0): 3, ("T", 1): 0}
    assert first_offsets(starts, topics, known=known, names={"T": "first"}) == {**starts, **known, ("T", 2): 0}
    # A topic that was made anew began at 0 too: all that it had is younger than the first look at the one before it.
    anew = first_offsets(starts, topics, known={("O", 0): 4}, names={"O": "second", "T": "first"})
    assert anew == {**starts, ("U", 0): 0}


def test_offsets_beyond_the_archive_that_the_log_lacks_are_lost() -> None:
    starts, firsts = {("T", 0): 7, ("T", 1): 10, ("T", 2): 2}, {("T", 0): 0, ("T", 1): 0, ("T", 2): 2, ("O", 0): 3}
    found = lost(starts, firsts=firsts, archived=Position.of({("T", 0): 9}), former=Position.of({("O", 0): 5}))
    assert found == Ranges.of({("T", 1): (0, 10), ("O", 0): (3, 5)})
