"""Rule 1: an answer reads commits that tile the log from exactly the cut on, whole vectors, no gap, no overlap."""

from hypothesis import given
from hypothesis import strategies as st

from tandem.ledger.log.positions import LOG_START, Position, ranges, upper
from tandem.ledger.realtime.commits import Span
from tandem.ledger.realtime.tiling import boundary, chain, end
from tandem.views.source.offset_ranges import EMPTY
from tests.ledger.tiny import at


def fold(start: Position, end: Position) -> Span:
    return Span(start, end, 1, "fold")


A, B, C = fold(at(0, 0), at(2, 1)), fold(at(2, 1), at(2, 4)), fold(at(2, 4), at(5, 4))


def test_the_chain_runs_from_the_cut_to_the_last_commit() -> None:
    found = chain([C, A, B], at(2, 1))
    assert (found.commits, found.end, found.problem) == ((B, C), at(5, 4), None)


def test_without_commits_after_the_cut_the_answer_ends_at_the_cut() -> None:
    for spans in ([], [A, B, C]):
        assert chain(spans, at(5, 4)).end == at(5, 4)
        assert chain(spans, at(5, 4)).problem is None


def test_a_commit_across_the_cut_is_refused() -> None:
    assert "straddles the cut {T/0: 1, T/1: 1}" in str(chain([A, B, C], at(1, 1)).problem)


def test_a_gap_is_refused() -> None:
    assert "no commit starts at {T/0: 2, T/1: 1}" in str(chain([A, C], LOG_START).problem)


def test_a_missing_first_commit_is_refused() -> None:
    """The first that is there is named."""
    for left in ([B, C], [C, B]):
        assert chain(left, LOG_START).problem == f"no commit starts at the log's start, but one covers [{B.start}, {B.end})"


def test_the_answer_ends_at_a_bridge() -> None:
    bridge = Span(at(2, 4), at(5, 4), 1, "bridge")
    beyond = fold(at(5, 4), at(6, 6))
    stopped = chain([A, B, bridge, beyond], LOG_START)
    assert (stopped.commits, stopped.end, stopped.bridge, stopped.problem) == ((A, B), at(2, 4), bridge, None)
    assert chain([A, B, bridge, beyond], LOG_START, across_bridges=True).end == at(6, 6)
    assert chain([A, B, bridge, beyond], at(5, 4)).commits == (beyond,)


def test_marks_do_not_count() -> None:
    marks = [Span(at(1, 1), at(1, 1), 2, "epoch"), Span(at(2, 1), at(2, 1), 2, "cut")]
    assert chain([A, B, *marks], LOG_START).commits == (A, B)


def test_boundaries_are_starts_ends_and_marks() -> None:
    spans = [A, B, Span(at(2, 4), at(2, 4), 1, "epoch")]
    assert all(boundary(spans, position) for position in (LOG_START, at(2, 1), at(2, 4)))
    assert not boundary(spans, at(2, 2))
    assert not boundary(spans, at(5, 4))
    assert boundary([], LOG_START)
    assert not boundary([], at(1, 1))
    assert end(spans) == at(2, 4)
    assert end([]) is None


steps = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=8)


@given(steps, st.data())
def test_a_chain_never_counts_an_offset_twice_or_leaves_one_out(steps: list[tuple[int, int]], data: st.DataObject) -> None:
    """Any subset of a table's commits, plus any others, from any cut: either a problem, or exactly `[cut, end)`."""
    reached, spans = at(0, 0), []
    for more in steps:
        if more != (0, 0):
            start, reached = reached, upper(reached, at(reached.get(("T", 0), 0) + more[0], reached.get(("T", 1), 0) + more[1]))
            spans.append(fold(start, reached))
    subset = [span for span in spans if data.draw(st.integers(0, 9)) > 0]
    places = st.builds(at, st.integers(0, 9), st.integers(0, 9))
    strays = data.draw(st.lists(st.tuples(places, places), max_size=1))
    subset += [fold(low, high) for low, high in strays if low != high and low.at_or_below(high)]
    cut = data.draw(st.one_of(places, st.sampled_from([span.end for span in spans] or [LOG_START])))
    found = chain(data.draw(st.permutations(subset)), cut)
    if found.problem is None:
        covered = EMPTY.union(*(ranges(span.start, span.end) for span in found.commits))
        assert covered == ranges(cut, found.end)
        wanted = [span for span in subset if not span.end.at_or_below(cut)]
        assert sorted(wanted, key=repr) == sorted(found.commits, key=repr)
