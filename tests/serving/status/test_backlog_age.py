"""Since when answers lack records, by the reader's own polls: each seen end, until it is counted."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tandem.ledger.log.counts import NOTHING
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.publish.publications import Publication
from tandem.ledger.realtime.commits import Commit
from tandem.serving.read.realtime_tail import RealtimeTail
from tandem.serving.read.snapshot import Snapshot
from tandem.serving.status.part_signs import BacklogAge, behind_since
from tests.serving.world import position

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
SOURCES = ("a", "b")
PUBLICATION = Publication(1, 0, NOON, "test", "initial", 1, dict.fromkeys(SOURCES, LOG_START), {})


def snapshot(*tails: RealtimeTail) -> Snapshot:
    return Snapshot(PUBLICATION, dict(zip(SOURCES, tails, strict=False)))


def at(second: float) -> datetime:
    return NOON + timedelta(seconds=second)


STEPS = st.lists(st.tuples(*[st.tuples(st.integers(0, 4), st.integers(0, 4)) for _ in SOURCES]), min_size=1, max_size=12)


@given(STEPS)
def test_the_backlog_dates_from_the_oldest_uncounted_end(steps: list[tuple[tuple[int, int], ...]]) -> None:
    """Against a plain scan of all looks; each step lets the logs grow, and then counts some of them."""
    ends, counted = [0, 0], [0, 0]
    seen: list[tuple[int, list[int]]] = []
    remembered = BacklogAge()
    for second, step in enumerate(steps):
        for number, (more, count) in enumerate(step):
            ends[number] += more
            counted[number] = min(ends[number], counted[number] + count)
        seen.append((second, [*ends]))
        tails = (RealtimeTail(LOG_START, position(number)) for number in counted)
        told = remembered.look(
            {name: position(end) for name, end in zip(SOURCES, ends, strict=True)}, snapshot(*tails), now=at(second)
        )
        for number in range(2):
            if counted[number] == ends[number]:
                seen = [(when, [end if other != number else 0 for other, end in enumerate(of)]) for when, of in seen]
        waiting = [when for when, of in seen if any(end > done for end, done in zip(of, counted, strict=True))]
        assert (told is None) == (not waiting)
        if told is not None:
            # An end is remembered until it is counted, so a newer one may be known somewhat later than it was seen.
            assert told >= at(waiting[0])
            assert told <= at(second)


def test_records_that_only_the_hot_tail_counts_are_a_backlog() -> None:
    """It counts them without a speed layer, whose progress is asked for here."""
    remembered, end = BacklogAge(), position(5)
    hot = Commit(position(3), end, 0, "fold")
    with_hot = RealtimeTail(LOG_START, end, hot=(hot,))
    assert remembered.look({"a": end}, snapshot(with_hot), now=at(1)) == at(1)
    assert remembered.look({"a": end}, snapshot(RealtimeTail(LOG_START, end)), now=at(2)) is None


def commit(made: float, caught_up: float | None) -> Commit:
    return Commit(
        LOG_START,
        Position.of({("T", 0): 3}),
        1,
        "fold",
        counts=NOTHING,
        at=at(made),
        caught_up=None if caught_up is None else at(caught_up),
    )


def test_a_source_that_commits_without_reaching_the_end_is_behind() -> None:
    lately = timedelta(seconds=15)

    def behind(*commits: Commit) -> datetime | None:
        tails = (RealtimeTail(LOG_START, one.end, (one,)) for one in commits)
        return behind_since(snapshot(*tails), now=at(100), lately=lately)

    assert behind(commit(99, 98.5)) == at(98.5)
    assert behind(commit(99, 10)) == at(10)
    assert behind(commit(99, 98), commit(95, 20)) == at(20)
    assert behind(commit(80, 10)) is None  # it may be idle
    assert behind(commit(99, None)) is None
    assert behind() is None
