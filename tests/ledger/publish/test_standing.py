"""Standing releases go live, come back and retire: each by one record, and answers never step back."""

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.ledger import cut_decision
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.publish import promotion, publications, standing
from tandem.ledger.publish.batch_parts import BatchPart, BatchView
from tandem.ledger.publish.promotion import NotReady
from tandem.ledger.publish.publications import NotPublishable, Publication, Publications
from tandem.ledger.publish.standing import Followed, Stage, StandingReleases, StandingRow, cut_of
from tandem.ledger.realtime.follower import Follower
from tandem.ledger.realtime.tiling import chain
from tandem.ledger.realtime_writer import Writer
from tests.ledger.tiny import AT, SOURCE, at, claim, commit_each, first, partial, publish_cut

DAYS = 7.0


def applied(tables: Tables, release: int, *, stage: Stage = "built", cut: Position | None = None) -> StandingRow:
    """Another release that begins at the live cut."""
    live = Publications(tables).latest()
    assert live is not None
    begin = live.cut(SOURCE) if cut is None else cut
    if begin != LOG_START:
        cut_decision.begin(tables, release, SOURCE, begin, by="test", at=AT)
    return StandingReleases(tables).record(stage, replace(live, release=release, kind="apply", cuts={SOURCE: begin}, at=AT))


def promote(tables: Tables, release: int | None = None, *, max_lag: int = 0, when: datetime = AT) -> Publication:
    return promotion.promote(StandingReleases(tables), release, days=DAYS, max_lag=max_lag, by="test", at=when, why="because")


def rollback(
    tables: Tables, number: int | None = None, *, release: int | None = None, when: datetime = AT, keep: int = 9
) -> Publication:
    standing = StandingReleases(tables)
    return promotion.rollback(standing, number, release=release, days=DAYS, keep=keep, since=when, by="test", at=when)


def since(tables: Tables, back: Publication) -> list[int]:
    """The numbers of the publications that a rollback undid."""
    return [each.number for each in promotion.publications_since(Publications(tables).history(), back)]


def recompute_to(tables: Tables, cut: Position) -> int:
    """Publish the live release at another cut; the number of the publication."""
    live = Publications(tables).latest()
    assert live is not None
    after = Publications(tables).publish(lambda _: replace(live, kind="recompute", cuts={SOURCE: cut}))
    assert after is not None
    return after.number


def followed(tables: Tables, when: datetime = AT) -> list[int]:
    return [state.release for state in Followed(StandingReleases(tables), DAYS).states(when)]


def answer(tables: Tables) -> tuple[int, Position]:
    """How many numbers the live publication counts, and up to where."""
    live = Publications(tables).latest()
    assert live is not None
    found = chain(Follower(tables, live.release, SOURCE).poll(), live.cut(SOURCE))
    assert not found.problem
    return partial(LOG_START, live.cut(SOURCE))[0] + sum(commit.counts.events for commit in found.commits), found.end


@pytest.fixture
def writer(tables: Tables) -> Writer:
    """Release 1 with a batch below (5, 5) and micro-batches up to (9, 9)."""
    first(tables)
    writer = claim(tables)
    commit_each(writer, at(5, 5), at(7, 8))
    publish_cut(tables, at(5, 5))
    commit_each(writer, at(9, 9))
    return writer


def test_the_newest_ready_release_goes_live(tables: Tables, writer: Writer) -> None:
    for release in (2, 3, 4):
        applied(tables, release)
        commit_each(claim(tables, release), at(9, 9))
    applied(tables, 5, stage="applied")
    assert [promote(tables).release, promote(tables, 2).release, promote(tables).release] == [4, 2, 4]


def test_a_promotion_that_is_typed_again_does_not_undo_itself(tables: Tables, writer: Writer) -> None:
    """Its answer may have been lost, and the release that was live before is ready now."""
    for release in (2, 3):
        applied(tables, release)
        commit_each(claim(tables, release), at(9, 9))
    assert promote(tables).release == 3
    with pytest.raises(NotReady, match=r"no release after the live release 3 is ready; .* earlier ones: 1, 2; name one"):
        promote(tables)
    live = Publications(tables).latest()
    assert live is not None
    assert live.release == 3
    assert promote(tables, 2).release == 2
    assert promote(tables).release == 3, "a later release is ready again"


def test_a_release_begins_at_the_live_cut_and_is_followed_from_there(tables: Tables, writer: Writer) -> None:
    applied(tables, 2, stage="applied")
    assert followed(tables) == [1, 2]
    other = claim(tables, 2)
    assert (other.end, cut_of(tables, 2, SOURCE)) == (at(5, 5), at(5, 5))
    assert promotion.ready(StandingReleases(tables), days=DAYS, at=AT) == {}
    with pytest.raises(NotReady, match="release 2 is being built; ready: none"):
        promote(tables, 2)
    with pytest.raises(NotReady, match="no release is ready; `tandem apply`"):
        promote(tables)


def test_a_promotion_waits_for_the_realtime_views(tables: Tables, writer: Writer) -> None:
    applied(tables, 2)
    other = claim(tables, 2)
    live = Publications(tables).latest()
    assert live is not None
    assert promotion.lags(tables, promotion.ready(StandingReleases(tables), days=DAYS, at=AT)[2], live) == {SOURCE: 8}
    with pytest.raises(NotReady, match="release 2 are 8 offsets of source 'numbers' behind the live ones, more than 7"):
        promote(tables, max_lag=7)
    commit_each(other, at(8, 9))
    promoted = promote(tables, max_lag=1)
    assert (promoted.number, promoted.parent, promoted.release, promoted.kind, promoted.why) == (3, 2, 2, "promote", "because")
    assert promoted.cut(SOURCE) == at(5, 5)
    assert answer(tables) == (17, at(8, 9))
    assert followed(tables) == [2, 1]
    with pytest.raises(NotReady, match="release 2 is live already"):
        promote(tables, 2)


def test_a_former_release_comes_back_at_its_current_position(tables: Tables, writer: Writer) -> None:
    applied(tables, 2)
    commit_each(claim(tables, 2), at(9, 9))
    promote(tables)
    commit_each(writer, at(12, 11))
    # A recompute moves the cut of the release that stands beside.
    state = StandingReleases(tables).state_of(1)
    assert state is not None
    StandingReleases(tables).record("built", replace(state, cuts={SOURCE: at(7, 8)}), after=state)
    with pytest.raises(NotPublishable, match="release 1 has changed its state"):
        StandingReleases(tables).record("built", replace(state, cuts={SOURCE: at(9, 9)}), after=state)
    back = rollback(tables, 2)
    assert (back.release, back.kind, back.cut(SOURCE), back.parent) == (1, "rollback", at(7, 8), 3)
    assert answer(tables) == (23, at(12, 11))
    assert followed(tables) == [1, 2]
    assert promote(tables, max_lag=5).release == 2


def test_a_publication_of_the_same_release_comes_back_as_it_was(tables: Tables, writer: Writer) -> None:
    publish_cut(tables, at(9, 9))
    commit_each(writer, at(10, 10))
    before = answer(tables)
    assert rollback(tables).cut(SOURCE) == at(5, 5)
    assert answer(tables) == before
    with pytest.raises(NotReady, match="publication 4 is a rollback; name the publication to roll back to"):
        rollback(tables)
    with pytest.raises(NotReady, match="no publication 9 before the live publication 4"):
        rollback(tables, 9)
    resumed = promotion.resume(StandingReleases(tables), by="test", at=AT)
    assert (resumed.kind, resumed.cut(SOURCE)) == ("resume", at(5, 5))
    with pytest.raises(NotReady, match="publishing is not paused"):
        promotion.resume(StandingReleases(tables), by="test", at=AT)
    # What follows may take the cut that was gone back from.
    assert publish_cut(tables, at(9, 9)).number == 6


def test_a_rollback_undoes_the_newest_change_of_the_release(tables: Tables, writer: Writer) -> None:
    """However many recomputes came after it: the one before the live publication would be of the same release."""
    applied(tables, 2)
    commit_each(claim(tables, 2), at(9, 9))
    assert (promote(tables).number, recompute_to(tables, at(5, 5)), recompute_to(tables, at(9, 9))) == (3, 4, 5)
    back = rollback(tables)
    assert (back.number, back.release, since(tables, back)) == (6, 1, [3, 4, 5])
    promotion.resume(StandingReleases(tables), by="test", at=AT)
    recompute_to(tables, at(9, 9))
    with pytest.raises(NotReady, match="the newest change of the release, publication 6, is a rollback; name the publication or"):
        rollback(tables)
    again = rollback(tables, release=2)
    assert (again.release, again.kind, since(tables, again)) == (2, "rollback", [6, 7, 8])
    inside = rollback(tables, 4)
    assert (inside.release, inside.cut(SOURCE), since(tables, inside)) == (2, at(5, 5), [5, 6, 7, 8, 9])


@pytest.mark.parametrize(
    ("release", "problem"),
    [(1, "release 1 is live already; `tandem rollback N` goes back to a publication"), (2, "release 2 was never live")],
)
def test_a_rollback_to_a_release_needs_one_that_was_live(tables: Tables, writer: Writer, release: int, problem: str) -> None:
    applied(tables, 2)
    with pytest.raises(NotReady, match=problem):
        rollback(tables, release=release)


def test_a_rollback_within_a_release_names_what_it_undoes(tables: Tables, writer: Writer) -> None:
    for _ in range(3):
        publish_cut(tables, at(9, 9))
    back = rollback(tables, 2)
    assert (back.cut(SOURCE), since(tables, back)) == (at(5, 5), [3, 4, 5])


def test_the_reason_of_an_apply_is_that_of_its_promotion(tables: Tables, writer: Writer) -> None:
    """A recompute that moves the release's cut in between loses it no more than a restart; the promotion's own reason wins."""
    standing = StandingReleases(tables)
    state = applied(tables, 2, stage="applied").state
    standing.record("built", replace(state, why="fewer bots"))
    standing.record("built", replace(state, why="", kind="recompute"))
    commit_each(claim(tables, 2), at(9, 9))

    def promoted(release: int, why: str = "") -> str:
        return promotion.promote(standing, release, days=DAYS, max_lag=9, by="test", at=AT, why=why).why

    assert promoted(2) == "fewer bots"
    promotion.rollback(standing, None, days=DAYS, keep=9, since=AT, by="test", at=AT, why="bots again")
    assert promoted(2) == ""
    applied(tables, 3)
    assert promoted(3, "at last") == "at last"


def test_no_rollback_crosses_a_range_without_commits(tables: Tables, writer: Writer) -> None:
    cut_decision.bridge(tables, 1, SOURCE, to=at(20, 20), by="test", at=AT)
    publish_cut(tables, at(20, 20))
    with pytest.raises(NotPublishable, match=r"cannot move back from .* to .*: the realtime views do not cover the range"):
        rollback(tables)
    live = Publications(tables).latest()
    assert live is not None
    assert live.number == 3


def test_no_rollback_goes_to_deleted_batch_views(tables: Tables, writer: Writer) -> None:
    live = Publications(tables).latest()
    assert live is not None
    gone = {"numbers_total": BatchView("f00d", (BatchPart(7, 3, at(5, 5)),))}
    Publications(tables).publish(lambda parent: replace(live, views=gone))
    Publications(tables).publish(lambda parent: live)
    with pytest.raises(NotReady, match="the batch views of publication 3 are no longer retained"):
        rollback(tables, 3)


def test_no_rollback_goes_to_a_publication_that_maintenance_may_delete(tables: Tables, writer: Writer) -> None:
    """It looked before the rollback and takes out after it: then the live publication would have lost its tail."""
    publish_cut(tables, at(9, 9))
    cuts_before = [each.cut(SOURCE) for each in publications.retained(Publications(tables).history(), keep=1, since=AT)]
    with pytest.raises(NotReady, match="the batch views of publication 2 are no longer retained"):
        rollback(tables, 2, keep=1)
    writer.expire(cuts_before, at=AT)
    assert answer(tables)[1] == at(9, 9)


def test_a_release_that_begins_while_one_is_chosen_is_not_ready(
    tables: Tables, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its batch views are still empty."""
    states = Followed.states

    def meanwhile(self: Followed, now: datetime) -> list[Publication]:
        if StandingReleases(tables).newest(2) is None:
            applied(tables, 2, stage="applied")
        return states(self, now)

    monkeypatch.setattr(Followed, "states", meanwhile)
    with pytest.raises(NotReady, match="no release is ready"):
        promote(tables)
    assert followed(tables) == [1, 2]


def test_a_recompute_that_began_before_a_promotion_comes_too_late(
    tables: Tables, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else upkeep would go by its cut, and take out what the publication needs that is on its way."""
    applied(tables, 2)
    commit_each(claim(tables, 2), at(7, 8), at(9, 9))
    began = StandingReleases(tables).state_of(2)
    assert began is not None
    tileable, moved = publications._refuse_untileable, []

    def meanwhile(tables: Tables, candidate: Publication) -> None:
        tileable(tables, candidate)
        with pytest.raises(NotPublishable, match="release 2 has changed its state"):
            StandingReleases(tables).record("built", replace(began, cuts={SOURCE: at(7, 8)}), after=began)
        moved.append(cut_of(tables, 2, SOURCE))

    monkeypatch.setattr(publications, "_refuse_untileable", meanwhile)
    assert promote(tables).cut(SOURCE) == at(5, 5)
    assert moved == [at(5, 5)]


def moved(tables: Tables) -> None:
    state = StandingReleases(tables).state_of(2)
    assert state is not None
    StandingReleases(tables).record("built", replace(state, kind="recompute", cuts={SOURCE: at(7, 8)}), after=state)


def retired(tables: Tables) -> None:
    promotion.retire(StandingReleases(tables), 2, by="test", at=AT)


@pytest.mark.parametrize("becomes", [moved, retired])
def test_maintenance_keeps_states_that_may_go_live(
    tables: Tables, writer: Writer, monkeypatch: pytest.MonkeyPatch, becomes: Callable[[Tables], None]
) -> None:
    """A recompute, or who retires it, may come between what a promotion says and its publication."""
    applied(tables, 2)
    other = claim(tables, 2)
    commit_each(other, at(7, 8), at(9, 9))
    tileable = publications._refuse_untileable

    def needed() -> list[Position]:
        states = Followed(StandingReleases(tables), DAYS).retained(AT, publications=1, since=AT + timedelta(days=1))
        return [state.cut(SOURCE) for state in states if state.release == 2]

    def meanwhile(tables: Tables, candidate: Publication) -> None:
        tileable(tables, candidate)
        becomes(tables)
        assert at(5, 5) in needed()
        other.expire(needed(), at=AT)

    monkeypatch.setattr(publications, "_refuse_untileable", meanwhile)
    assert promote(tables).cut(SOURCE) == at(5, 5)
    assert answer(tables) == (18, at(9, 9))


def test_a_state_that_did_not_go_live_is_kept_until_the_next_publication(
    tables: Tables, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can tell a promotion that takes long from one that was killed; from then on it comes too late."""
    applied(tables, 2)
    commit_each(claim(tables, 2), at(7, 8), at(9, 9))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(publications, "_refuse_untileable", killed)
        with pytest.raises(KeyboardInterrupt):
            promote(tables)
    retired(tables)

    def needed() -> list[tuple[int, Position]]:
        states = Followed(StandingReleases(tables), DAYS).retained(AT, publications=1, since=AT + timedelta(days=1))
        return [(state.release, state.cut(SOURCE)) for state in states]

    assert needed() == [(1, at(5, 5)), (2, at(5, 5))]
    publish_cut(tables, at(7, 8))
    assert needed() == [(1, at(7, 8))]


def test_a_retired_release_is_not_followed_and_does_not_come_back(tables: Tables, writer: Writer) -> None:
    applied(tables, 2)
    with pytest.raises(NotReady, match="release 1 is live"):
        promotion.retire(StandingReleases(tables), 1, by="test", at=AT)
    with pytest.raises(NotReady, match="release 3 was neither live nor applied"):
        promotion.retire(StandingReleases(tables), 3, by="test", at=AT)
    promotion.retire(StandingReleases(tables), 2, by="test", at=AT, why="worse")
    assert followed(tables) == [1]
    with pytest.raises(NotReady, match=r"release 2 is retired \(worse\); ready: none"):
        promote(tables, 2)
    with pytest.raises(NotReady, match="release 2 is already retired"):
        promotion.retire(StandingReleases(tables), 2, by="test", at=AT)
    applied(tables, 3)
    commit_each(claim(tables, 3), at(9, 9))
    promote(tables)
    promotion.retire(StandingReleases(tables), 1, by="test", at=AT)
    assert followed(tables) == [3]
    with pytest.raises(NotReady, match="release 1 is no longer kept up"):
        rollback(tables, 2)


def test_a_release_that_failed_is_not_followed(tables: Tables, writer: Writer) -> None:
    built = applied(tables, 2)
    StandingReleases(tables).record("failed", replace(built.state, why="its code raises"))
    assert followed(tables) == [1]
    with pytest.raises(NotReady, match=r"release 2 is failed \(its code raises\)"):
        promote(tables, 2)


def test_a_former_release_is_kept_up_to_date_for_days(tables: Tables, writer: Writer) -> None:
    applied(tables, 2)
    commit_each(claim(tables, 2), at(9, 9))
    promote(tables)
    before = timedelta(days=DAYS) - timedelta(microseconds=1)
    for passed, expected in ((before, [2, 1]), (timedelta(days=DAYS), [2])):
        assert followed(tables, AT + passed) == expected
    with pytest.raises(NotReady, match="release 1 is no longer kept up"):
        rollback(tables, 2, when=AT + timedelta(days=8))


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), min_size=1, max_size=8), st.integers(0, 12))
def test_the_days_count_from_when_a_release_was_live_last(published: list[tuple[int, int]], since: int) -> None:
    """A release that came back and ended again is kept up from its later end on."""
    history, now = [], AT
    for number, (release, hours) in enumerate(published, 1):
        now += timedelta(hours=hours)
        history.append(Publication(number, number - 1, now, "test", "promote", release, {}, {}))
    last = {each.release: place for place, each in enumerate(history)}
    live, bound = history[-1].release, AT + timedelta(hours=since)
    kept = [release for release, place in sorted(last.items()) if release != live and history[place + 1].at > bound]
    assert standing._standing(history, [], bound) == [live, *kept]


def test_standing_states_are_retained(tables: Tables, writer: Writer) -> None:
    def retained(*, publications: int) -> list[tuple[int, Position]]:
        states = Followed(StandingReleases(tables), DAYS).retained(AT, publications=publications, since=AT + timedelta(days=1))
        return [(state.release, state.cut(SOURCE)) for state in states]

    publish_cut(tables, at(9, 9))
    applied(tables, 2, cut=at(5, 5))
    assert retained(publications=1) == [(1, at(9, 9)), (2, at(5, 5))]
    assert retained(publications=2) == [(1, at(5, 5)), (1, at(9, 9)), (2, at(5, 5))]


def test_a_second_poll_reads_new_records(tables: Tables) -> None:
    known = Followed(StandingReleases(tables), DAYS)
    assert known.states(AT) == []
    first(tables)
    commit_each(claim(tables), at(3, 3))
    dice = random.Random(5)
    for release in range(2, 9):
        steps = dice.sample(("apply", "promote", "publish", "retire"), 4)
        for step in steps:
            live = Publications(tables).latest()
            assert live is not None
            if step == "apply":
                applied(tables, release)
            elif step == "promote" and (ready := promotion.ready(StandingReleases(tables), days=DAYS, at=AT)):
                promote(tables, max(ready), max_lag=99)
            elif step == "publish":
                publish_cut(tables, live.cut(SOURCE), release=live.release)
            elif step == "retire" and (ready := promotion.ready(StandingReleases(tables), days=DAYS, at=AT)):
                promotion.retire(StandingReleases(tables), min(ready), by="test", at=AT)
            assert known.states(AT) == Followed(StandingReleases(tables), DAYS).states(AT)


def test_a_release_that_is_live_is_not_recorded_as_standing(tables: Tables, writer: Writer) -> None:
    live = Publications(tables).latest()
    assert live is not None
    with pytest.raises(NotPublishable, match="release 1 is live now"):
        StandingReleases(tables).record("retired", live)
    assert StandingReleases(tables).records() == []
