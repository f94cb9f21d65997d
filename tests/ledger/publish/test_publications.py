"""Rule 8: publications are numbered, derived from what is live, and never take back what a reader has seen."""

import re
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from tandem.ledger.cut_decision import bridge
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.journal import Journal, JournalSnapshot, Row
from tandem.ledger.log.counts import Counts
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.publish import publications
from tandem.ledger.publish.batch_parts import BatchPart, BatchView
from tandem.ledger.publish.publications import NotPublishable, Publication, Publications, live_at, refuse_stale, retained
from tandem.ledger.publish.standing import cut_of
from tandem.views.source.watermark import Newest
from tests.ledger.tiny import AT, SOURCE, VIEW, at, claim, commit_each, first, publish_cut

PART = BatchPart(7, 3, LOG_START, (AT, AT))


def batch(fingerprint: str, version: int) -> BatchView:
    return BatchView(fingerprint, (BatchPart(version, 1, LOG_START),))


def test_nothing_is_live_before_the_first_publication(tables: Tables) -> None:
    assert Publications(tables).latest() is None
    assert cut_of(tables, 1, SOURCE) == LOG_START


def test_the_first_publication_is_an_empty_batch_at_the_logs_start(tables: Tables) -> None:
    live = first(tables)
    assert (live.number, live.parent, live.kind, live.cut(SOURCE)) == (1, 0, "initial", LOG_START)
    assert live.views == {"numbers_total": BatchView(VIEW)}
    assert first(tables) == live == Publications(tables).latest()


def test_two_concurrent_first_publications_are_one(tables: Tables) -> None:
    made: list[Publication] = []
    threads = [threading.Thread(target=lambda: made.append(first(tables))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 4
    assert {publication.number for publication in Publications(tables).history()} == {1}
    assert all(publication == made[0] for publication in made)


def test_a_process_that_saw_no_publication_finds_anothers(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """By now the release's oldest commits were deleted, so none begins at the log's start, where a first publication's cut is."""
    first(tables)
    commit_each(claim(tables), at(1, 1))
    live = publish_cut(tables, at(1, 1))
    shutil.rmtree(tables.realtime(1, SOURCE))
    bridge(tables, 1, SOURCE, to=at(3, 3), by="test", at=AT)

    class Late(Journal):
        def add(self, derive: Callable[[JournalSnapshot], Row | None]) -> Row | None:
            derive(JournalSnapshot(None))
            return super().add(derive)

    monkeypatch.setattr(publications, "Journal", Late)
    assert first(tables) == live


def test_a_publication_reads_back_as_it_was(tables: Tables) -> None:
    first(tables)
    commit_each(claim(tables), at(3, 2))
    full = Publication(
        number=0,
        parent=0,
        at=AT,
        by="test",
        kind="recompute",
        release=1,
        cuts={SOURCE: at(3, 2)},
        views={"a": BatchView(VIEW, (PART,))},
        counts={SOURCE: Counts(events=4, quarantined={"json": 1})},
        rejected={"a": {"overflow": 2}},
        newest={SOURCE: AT},
        maxima={SOURCE: {("T", 0): Newest(5, 7)}},
        watermarks={SOURCE: 5},
        after_final={"a": 3},
        repaired={SOURCE: 3},
        gaps=("numbers-gap-1",),
    )
    assert Publications(tables).publish(lambda _: full) == replace(full, number=2, parent=1)
    assert Publications(tables).latest() == replace(full, number=2, parent=1)


def test_on_conflict_a_publication_is_derived_again_from_the_new_parent(tables: Tables) -> None:
    first(tables)
    commit_each(claim(tables), at(1, 1), at(2, 2))
    parents: list[int] = []

    def derive(parent: Publication | None) -> Publication:
        assert parent is not None
        parents.append(parent.number)
        if parent.number == 1:
            publish_cut(tables, at(1, 1))
        return replace(parent, kind="recompute", cuts={SOURCE: at(2, 2)})

    published = Publications(tables).publish(derive)
    assert published is not None
    assert (parents, published.number, published.parent) == ([1, 2], 3, 2)
    assert [each.number for each in Publications(tables).history()] == [1, 2, 3]


@pytest.mark.parametrize("cut", [at(1, 1), at(2, 1), LOG_START])
def test_a_cut_never_steps_back_within_a_release(tables: Tables, cut: Position) -> None:
    first(tables)
    commit_each(claim(tables), at(1, 1), at(2, 1), at(2, 2))
    publish_cut(tables, at(2, 2))
    with pytest.raises(NotPublishable, match=re.escape(f"would move back from {at(2, 2)} to {cut} within release 1")):
        publish_cut(tables, cut)


def test_a_cut_never_steps_back_within_a_release_that_comes_back(tables: Tables) -> None:
    first(tables)
    for release in (1, 2):
        commit_each(claim(tables, release), at(1, 1), at(2, 2))
    publish_cut(tables, at(2, 2))
    publish_cut(tables, at(1, 1), release=2, kind="promote")
    with pytest.raises(NotPublishable, match="within release 1"):
        publish_cut(tables, at(1, 1), release=1, kind="promote")
    assert publish_cut(tables, at(2, 2), release=1, kind="promote").number == 4


def test_a_cut_that_readers_could_not_tile_from_is_refused(tables: Tables) -> None:
    first(tables)
    commit_each(claim(tables), at(1, 1), at(3, 3))
    for cut, reason in ((at(2, 2), "straddles"), (at(4, 4), "starts or ends there"), (at(4, 3), "starts or ends there")):
        with pytest.raises(NotPublishable, match=reason):
            publish_cut(tables, cut)
    assert len(Publications(tables).history()) == 1


def test_a_cut_in_a_release_without_commits_is_refused(tables: Tables) -> None:
    """Its speed layer would start at the old cut and leave the new one inside a commit."""
    first(tables)
    with pytest.raises(NotPublishable, match="starts or ends there"):
        publish_cut(tables, at(3, 3), release=2)
    bridge(tables, 2, SOURCE, to=at(3, 3), by="test", at=AT)
    assert publish_cut(tables, at(3, 3), release=2, kind="promote").release == 2


def test_the_release_that_a_run_started_from_must_still_be_live(tables: Tables) -> None:
    started = replace(first(tables), views={"a": batch("x", 1), "b": batch("y", 1)})
    refuse_stale(replace(started, number=2, views={**started.views, "b": batch("y", 2)}), started, extends=["a"])
    with pytest.raises(NotPublishable, match="another version"):
        refuse_stale(replace(started, number=2, views={"a": batch("x", 2)}), started, extends=["a"])
    with pytest.raises(NotPublishable, match="started from release 1, but release 2 is live now"):
        refuse_stale(replace(started, number=2, release=2), started)
    with pytest.raises(NotPublishable, match="release none is live"):
        refuse_stale(None, started)


def test_publications_that_were_live_since_a_time_are_retained(tables: Tables) -> None:
    one = first(tables)
    line = [replace(one, number=n, at=AT + timedelta(hours=n)) for n in range(1, 6)]

    def numbers(hours: float) -> list[int]:
        return [each.number for each in retained(line, keep=1, since=AT + timedelta(hours=hours))]

    assert (numbers(9), numbers(4.5), numbers(4), numbers(3), numbers(0)) == ([5], [4, 5], [4, 5], [3, 4, 5], [1, 2, 3, 4, 5])
    assert retained([], keep=2, since=AT) == []
    assert [live_at(line, AT + timedelta(hours=hours)) for hours in (0.9, 1, 3.5, 9)] == [None, line[0], line[2], line[4]]


def test_a_history_reads_what_is_new_and_misses_nothing(tables: Tables) -> None:
    followed = Publications(tables)
    assert followed.history() == []
    first(tables)
    assert followed.history() == Publications(tables).history()
    writer = claim(tables)
    for steps in ((1,), (2,), (3, 4, 5), (6, 7), ()):
        for n in steps:
            commit_each(writer, at(n, n))
            publish_cut(tables, at(n, n))
        assert followed.history() == Publications(tables).history()
