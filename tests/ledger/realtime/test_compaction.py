"""Compaction changes the number of commits, and nothing that a reader could read from them."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.ledger.log.counts import Counts
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.realtime.commits import Commit, Kind, Span, TableEnds
from tandem.ledger.realtime.compaction import expired, in_order, merged, plan
from tandem.ledger.realtime.tiling import boundary, chain, end
from tandem.views.errors import TandemError
from tandem.views.source.watermark import Newest
from tests.ledger.tiny import AT, VIEW, at, encode, fold, merge


def place(number: int) -> Position:
    """The n-th position of a log that advances on its two partitions in turn."""
    return at((number + 1) // 2, number // 2)


@st.composite
def tables(draw: st.DrawFn) -> list[Span]:
    """Spans of a table, folds, bridges and marks, some already compacted; in any order."""
    spans, reached, epoch = [], 0, 1
    for kind in draw(st.lists(st.sampled_from(["fold"] * 8 + ["bridge", "epoch", "cut", "cut"]), min_size=4, max_size=30)):
        known: Kind = kind  # type: ignore[assignment]
        epoch += kind == "epoch"
        length = 0 if kind in ("epoch", "cut") else draw(st.integers(1, 3))
        batches = draw(st.sampled_from([1, 1, 1, 1, 2, 4, 8])) if length else 1
        spans.append(Span(place(reached), place(reached + length), epoch, known, batches=batches))
        reached += length
    return draw(st.permutations(spans))


def compacted(spans: list[Span], groups: list[tuple[Span, ...]]) -> list[Span]:
    gone = [span for group in groups for span in group]
    ones = [merged([_empty(span) for span in group], merge) for group in groups]
    return [span for span in spans if span not in gone] + [Span(o.start, o.end, o.epoch, o.kind, batches=o.batches) for o in ones]


def _empty(span: Span) -> Commit:
    return Commit(span.start, span.end, span.epoch, span.kind, batches=span.batches)


cuts = st.lists(st.integers(0, 40).map(place), max_size=3)


@given(tables(), st.integers(0, 12).map(place), cuts, st.integers(2, 5))
def test_protected_boundaries_stay_and_every_reader_reads_the_same(
    spans: list[Span], live: Position, protect: list[Position], fanout: int
) -> None:
    after = compacted(spans, plan(spans, live=live, protect=protect, fanout=fanout))
    reserved = [span.start for span in spans if span.kind == "cut" and not span.start.at_or_below(live)]
    for cut in (live, *protect, *reserved):
        if boundary(spans, cut):
            before, now = chain(spans, cut), chain(after, cut)
            assert boundary(after, cut)
            assert now.problem is None
            assert (now.end, now.bridge is None) == (before.end, before.bridge is None)
    assert {span.start for span in after if span.kind == "cut"} >= set(reserved)
    assert end(after) == end(spans)
    assert max((span.epoch for span in after), default=0) == max((span.epoch for span in spans), default=0)


@given(tables(), cuts)
def test_the_boundary_that_the_archive_has_reached_stays(spans: list[Span], protect: list[Position]) -> None:
    """A protected position need not be a boundary: then the largest one below it is kept, so that it can become a cut."""
    after = compacted(spans, plan(spans, live=LOG_START, protect=protect, fanout=2))
    for position in protect:
        assert _reached(after, position) == _reached(spans, position)


def _reached(spans: list[Span], position: Position) -> int:
    return max((sum(at.values()) for s in spans for at in (s.start, s.end) if at.at_or_below(position)), default=-1)


def test_a_table_stays_small_and_a_commit_is_rewritten_once_a_level() -> None:
    spans: list[Span] = []
    rewritten = most = 0
    for number in range(2000):
        spans.append(Span(place(number), place(number + 1), 1, "fold"))
        groups = plan(spans, live=LOG_START, fanout=8)
        rewritten += sum(span.batches for group in groups for span in group)
        spans = compacted(spans, groups)
        most = max(most, len(spans))
    assert most <= 7 * 4 + 1
    assert rewritten <= 2000 * 4


def test_small_leftovers_between_old_cuts_are_swept_up() -> None:
    """An archive that ends in the middle of every sixth micro-batch must not leave a file behind for each."""
    spans: list[Span] = []
    for number in range(1500):
        spans.append(Span(place(number), place(number + 1), 1, "fold"))
        groups = plan(spans, live=LOG_START, protect=[place(number - number % 6)], fanout=8)
        spans = compacted(spans, groups)
    assert len(spans) < 40


def test_only_commits_that_touch_become_one() -> None:
    """A commit that a reader has no file of may be missing between them; one commit over the gap would claim its records."""
    spans = [Span(place(n), place(n + 1), 1, "fold") for n in (0, 1, 2, 5, 6)]
    groups = plan(spans, live=LOG_START, fanout=2)
    assert groups == [(spans[0], spans[1]), (spans[3], spans[4])]
    assert plan(spans[2:4], live=LOG_START, fanout=2) == []


def test_restarts_that_commit_nothing_do_not_pile_up() -> None:
    marks = [Span(at(1, 1), at(1, 1), epoch, "epoch") for epoch in range(1, 101)]
    groups = plan(marks, live=at(1, 1), fanout=8)
    assert len(compacted(marks, groups)) <= 2 * 7
    assert max(span.epoch for span in compacted(marks, groups)) == 100


def test_a_merged_commit_has_the_content_of_its_parts() -> None:
    first = Commit(
        at(0, 0),
        at(2, 0),
        1,
        "fold",
        counts=Counts(events=1, quarantined={"json": 1}),
        rejected={VIEW: {"overflow": 1}},
        maxima={("T", 0): Newest(5, 7)},
        newest=AT,
        watermark=5,
        after_final={VIEW: 1},
        partials={VIEW: encode((1, 10))},
        at=AT,
        by="one",
    )
    second = Commit(
        at(2, 0),
        at(3, 1),
        2,
        "fold",
        batches=3,
        counts=Counts(events=1, quarantined={"time": 1}, late=1),
        rejected={VIEW: {"overflow": 2, "nan": 1}},
        maxima={("T", 0): Newest(4, 8), ("T", 1): Newest(9, 6)},
        watermark=6,
        after_final={VIEW: 2},
        partials={VIEW: encode((2, 5))},
        at=AT + timedelta(seconds=1),
        by="two",
    )
    mark = Commit(at(2, 0), at(2, 0), 2, "epoch")
    assert merged([first, mark, second], merge) == Commit(
        at(0, 0),
        at(3, 1),
        2,
        "fold",
        batches=4,
        counts=Counts(events=2, quarantined={"json": 1, "time": 1}, late=1),
        rejected={VIEW: {"nan": 1, "overflow": 3}},
        maxima={("T", 0): Newest(5, 8), ("T", 1): Newest(9, 6)},
        newest=AT,
        watermark=6,
        after_final={VIEW: 3},
        partials={VIEW: encode((3, 15))},
        at=AT + timedelta(seconds=1),
        by="two",
    )


times = st.none() | st.integers(0, 9).map(lambda hours: AT + timedelta(hours=hours))


@given(st.lists(st.tuples(times, times, times), min_size=1, max_size=5))
def test_a_merged_commit_is_as_new_and_lacks_as_much_as_the_newest_of_its_parts(parts: list[tuple[Any, Any, Any]]) -> None:
    """The log counts as caught up where the last of them that knew was; identities are missing up to the latest eviction."""
    commits = [
        replace(fold(at(n), at(n + 1)), newest=newest, caught_up=caught_up, identities_since=since)
        for n, (newest, caught_up, since) in enumerate(parts)
    ]
    newest, caught_up, since = ([time for time in column if time is not None] for column in zip(*parts, strict=True))
    one = merged(commits, merge)
    assert one.newest == max(newest, default=None)
    assert one.identities_since == max(since, default=None)
    assert one.caught_up == (caught_up[-1] if caught_up else None)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=5))
def test_a_merged_commit_knew_of_a_table_the_least_and_the_most_of_its_parts(numbers: list[int]) -> None:
    commits = [
        replace(fold(at(n), at(n + 1)), looked_up={"prices": TableEnds(place(number), place(number), number)})
        for n, number in enumerate(numbers)
    ]
    assert merged(commits, merge).looked_up == {"prices": TableEnds(place(min(numbers)), place(max(numbers)), min(numbers))}
    assert merged(commits[:1], merge).looked_up == commits[0].looked_up


def test_commits_with_different_views_do_not_become_one() -> None:
    with pytest.raises(TandemError, match="have different views"):
        merged([fold(at(0), at(1)), Commit(at(1), at(2), 1, "fold")], merge)


def test_only_commits_below_every_cut_expire() -> None:
    spans = [Span(place(n), place(n + 1), 1, "fold") for n in range(5)]
    assert in_order(reversed(spans)) == spans
    assert expired(spans, [place(3), place(2)]) == spans[:2]
    assert expired(spans, [place(9)]) == spans[:4]
    assert expired(spans, []) == []
    assert expired([], [place(9)]) == []


@given(tables(), st.integers(0, 5))
def test_the_last_commits_stay_as_they_are(spans: list[Span], recent: int) -> None:
    last = [span for span in in_order(spans) if not span.mark][-recent:] if recent else []
    after = compacted(spans, plan(spans, live=LOG_START, fanout=2, recent=recent))
    assert {*last} <= {*after}
