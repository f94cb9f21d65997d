"""Rule 7: a cut is a committed boundary that the archive has reached; it is reserved first, and compaction keeps it."""

import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from tandem.ledger import cut_decision
from tandem.ledger.cut_decision import Choice, NotABoundary, OutOfReach, Passed, choose
from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.positions import LOG_START, Position, distance, upper
from tandem.ledger.realtime.commit_files import spans_of
from tandem.ledger.realtime.commits import Kind, Span
from tandem.ledger.realtime.tiling import boundary, chain
from tandem.ledger.realtime_writer import NewerEpoch, NotContiguous
from tandem.views.errors import TandemError
from tests.ledger.tiny import AT, SOURCE, at, claim, commit_each, first, fold, merge, publish_cut

A = Span(at(0, 0), at(2, 1), 1, "fold")
B = Span(at(2, 1), at(2, 4), 1, "fold")
C = Span(at(2, 4), at(5, 4), 1, "fold")
PATIENT = 1000


def take(tables: Tables, archive_end: Position, patience: int = PATIENT) -> Position:
    return cut_decision.take(tables, 1, SOURCE, archive_end=archive_end, patience=patience, by="test", at=AT)


def reserve(tables: Tables, position: Position) -> None:
    cut_decision.reserve(tables, 1, SOURCE, position, by="test", at=AT)


def bridge(tables: Tables, to: Position) -> None:
    cut_decision.bridge(tables, 1, SOURCE, to=to, by="test", at=AT)


LENGTHS = st.lists(st.tuples(st.sampled_from(["fold", "fold", "bridge"]), st.integers(0, 3), st.integers(0, 3)), max_size=6)


@given(LENGTHS, st.integers(0, 6), st.tuples(st.integers(0, 14), st.integers(0, 14)), st.integers(0, 8))
def test_a_cut_is_chosen_across_bridges_too(
    lengths: list[tuple[Kind, int, int]], begins: int, archived: tuple[int, int], patience: int
) -> None:
    """From any boundary on, for any end of the archive, and a table of commits and bridges."""
    boundaries, spans = [at(0, 0)], []
    for kind, one, other in lengths:
        before = boundaries[-1]
        if one + other:
            boundaries.append(at(before.get(("T", 0), 0) + one, before.get(("T", 1), 0) + other))
            spans.append(Span(before, boundaries[-1], 1, kind))
    cut, reached = boundaries[min(begins, len(boundaries) - 1)], boundaries[-1]
    archive_end = upper(at(*archived), cut)
    if reached.at_or_below(archive_end) and distance(reached, archive_end) > patience:
        expected = Choice(archive_end, bridge=True)
    else:
        expected = Choice(
            [each for each in boundaries if cut.at_or_below(each) and each.at_or_below(archive_end)][-1], bridge=False
        )
    assert choose(spans, cut=cut, archive_end=archive_end, patience=patience) == expected


def test_no_cut_lies_beyond_the_archived_part_of_a_deleted_topic(tables: Tables) -> None:
    ledger = ArchiveLedger(tables, SOURCE)
    ledger.name_topics({"numbers": "T"}, at=AT)
    ledger.intend(start=LOG_START, end=at(2, 3), by="test", at=AT)
    writer = claim(tables)
    commit_each(writer, at(2, 1), at(2, 4))
    # The archive is behind, and comes on.
    assert take(tables, at(2, 3)) == at(2, 1)
    ledger.name_topics({"numbers": "U"}, at=AT)
    with pytest.raises(
        OutOfReach, match=r"partition 1 of topic 'numbers' \(id T\) up to offset 4, but the archive has it up to 3"
    ):
        take(tables, at(2, 3))
    ledger.intend(start=at(2, 3), end=at(2, 4), by="test", at=AT)
    assert take(tables, at(2, 4)) == at(2, 4)


def test_a_chain_that_does_not_tile_has_no_cut() -> None:
    with pytest.raises(TandemError, match="cannot choose a cut"):
        choose([A, C], cut=LOG_START, archive_end=at(9, 9), patience=0)


def test_only_a_boundary_can_be_reserved(tables: Tables) -> None:
    commit_each(claim(tables), at(2, 1), at(5, 4))
    reserve(tables, at(2, 1))
    reserve(tables, at(2, 1))
    assert cut_decision.reserved(tables, 1, SOURCE) == [at(2, 1)]
    with pytest.raises(NotABoundary, match="no commit of release 1 ends there"):
        reserve(tables, at(3, 1))


def test_a_reservation_is_void_once_the_published_cut_has_passed_it(tables: Tables) -> None:
    first(tables)
    writer = claim(tables)
    commit_each(writer, *(at(n, n) for n in range(1, 9)))
    reserve(tables, at(3, 3))
    reserve(tables, at(5, 5))
    publish_cut(tables, at(5, 5))
    assert cut_decision.reserved(tables, 1, SOURCE) == [at(5, 5)]
    for _ in range(4):
        writer.compact(merge, live=at(5, 5), at=AT, fanout=2)
    spans = spans_of(tables, 1, SOURCE)
    assert boundary(spans, at(5, 5))
    assert not boundary(spans, at(3, 3))


def test_a_reservation_that_comes_during_a_compaction_wins(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = claim(tables)
    commit_each(writer, *(at(n, n) for n in range(1, 9)))
    real = delta_tables.conditional_replace

    def interrupted(handle: DeltaTable, *args: object, **named: object) -> None:
        reserve(tables, at(3, 3))
        real(handle, *args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(delta_tables, "conditional_replace", interrupted)
    assert writer.compact(merge, live=LOG_START, at=AT, fanout=8) == 0
    monkeypatch.undo()
    writer.compact(merge, live=LOG_START, at=AT, fanout=2)
    assert boundary(spans_of(tables, 1, SOURCE), at(3, 3))


def test_a_bridge_extends_the_chain_to_the_archives_end(tables: Tables) -> None:
    first(tables)
    writer = claim(tables)
    commit_each(writer, at(2, 1))
    assert take(tables, at(6, 6), patience=0) == at(6, 6)
    publish_cut(tables, at(6, 6))
    with pytest.raises(NotContiguous) as raised:
        writer.append(fold(at(2, 1), at(4, 4), writer.epoch))
    assert raised.value.end == at(6, 6)
    commit_each(writer, at(8, 8))
    assert chain(spans_of(tables, 1, SOURCE), at(6, 6)).end == at(8, 8)


def test_a_table_of_which_a_bridge_is_left_keeps_its_newest_epoch(tables: Tables) -> None:
    """The next writer continues from it, and its epoch must fence those that were fenced, or stand still, before."""
    first(tables)
    writers = [claim(tables) for _ in range(3)]
    commit_each(writers[-1], at(1, 1), at(2, 2))
    bridge(tables, at(6, 6))
    publish_cut(tables, at(6, 6))
    writers[-1].expire([at(6, 6)], at=AT)
    assert [(span.kind, span.epoch) for span in spans_of(tables, 1, SOURCE)] == [("bridge", 3)]
    newest = claim(tables)
    assert newest.epoch == 4
    for writer in writers:
        with pytest.raises((NewerEpoch, NotContiguous)):
            commit_each(writer, at(7, 7))
        with pytest.raises(NewerEpoch):
            writer.expire([], at=AT)
    commit_each(newest, at(8, 8))


def test_a_bridge_is_committed_once_and_never_backwards(tables: Tables) -> None:
    commit_each(claim(tables), at(2, 1))
    for _ in range(2):
        bridge(tables, at(6, 6))
    assert [span.kind for span in spans_of(tables, 1, SOURCE) if not span.mark].count("bridge") == 1
    for to in (at(5, 5), at(9, 5)):
        with pytest.raises(Passed, match="has already committed up to"):
            bridge(tables, to)


def test_taking_a_cut_starts_over_when_compaction_came_first(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    first(tables)
    writer = claim(tables)
    commit_each(writer, *(at(n, n) for n in range(1, 9)))
    real, compactions = cut_decision.reserve, [True]

    def interrupted(*args: object, **named: object) -> None:
        if compactions and compactions.pop():
            writer.compact(merge, live=LOG_START, at=AT, fanout=4)
        real(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(cut_decision, "reserve", interrupted)
    assert take(tables, at(6, 6)) == at(3, 3)


def test_taking_a_cut_starts_over_when_the_chain_has_passed_the_bridge(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    first(tables)
    writer = claim(tables)
    commit_each(writer, at(2, 1))
    real, commits = cut_decision.bridge, [at(7, 7)]

    def interrupted(*args: object, **named: object) -> None:
        if commits:
            commit_each(writer, commits.pop())
        real(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(cut_decision, "bridge", interrupted)
    assert take(tables, at(6, 6), patience=0) == at(2, 1)
