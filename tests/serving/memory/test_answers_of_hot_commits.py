"""With hot commits, memory and reader answer what the log says at their position; where these do not tile, they are left out."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.ledger.hot.chain import HotChange, HotCommits, continued
from tandem.ledger.hot.feed import HotFeed
from tandem.ledger.hot.messages import HotStatus, message_of
from tandem.ledger.log.positions import LOG_START, Position, upper
from tandem.ledger.publish.batch_parts import BatchView
from tandem.ledger.publish.publications import Publication
from tandem.ledger.realtime.commits import Commit
from tandem.serving.changes import watch
from tandem.serving.connection import Connection
from tandem.serving.memory.cached_view import CachedView
from tandem.serving.memory.changes_token import ChangesToken
from tandem.serving.memory.store import USED_S, Store
from tandem.serving.read.outcome import Absent, Value
from tandem.serving.read.realtime_tail import RealtimeTail
from tandem.serving.read.selection import ALWAYS, select
from tandem.serving.read.snapshot import Snapshot
from tandem.serving.read.snapshot_follower import HOLD_S, SnapshotFollower
from tandem.views.arrow.arrays import from_ipc
from tandem.views.composite.rollup import root
from tandem.views.kernel.kernel import arrange, present_arranged, roll
from tandem.views.kernel.rows import ordered, to_rows
from tandem.views.view import View
from tests.samples import just
from tests.serving.memory.test_memory_equals_the_reader import KNOWN, MORE, adopt, events
from tests.serving.world import NOON, SOURCE, World, hit, nine_hits, position

WELL = HotStatus()


@dataclass
class Hot:
    """The work of the process beside a server, over a log in memory: it folds by the kernel, and sends each change.

    Views of the fingerprints in `aside` stand aside. A segment is a range with the fingerprints that it lacks.
    """

    world: World
    feed: HotFeed
    release: int = 1
    epoch: int = 1
    aside: frozenset[str] = frozenset()
    segments: list[tuple[Position, Position, frozenset[str]]] = field(default_factory=list)

    def read(self, to: Position) -> None:
        """Fold up to a position."""
        start = self.segments[-1][1] if self.segments else self.world.writer.end
        if to != start:
            base = self.segments[0][0] if self.segments else start
            self.segments.append((start, to, self.aside))
            self.publish(HotChange(base, self.commit(start, to, self.aside)))

    def hand_over(self) -> None:
        """Start from where commits end."""
        base = self.world.writer.end
        if not self.segments or not base.at_or_below(self.segments[-1][1]):
            return
        above = [segment for segment in self.segments if base.at_or_below(segment[0])]
        end = above[0][0] if above else self.segments[-1][1]
        lacked = [lacks for start, last, lacks in self.segments if not last.at_or_below(base) and not base.at_or_below(start)]
        straddling = [(base, end, frozenset.intersection(*lacked))] if base != end else []
        self.segments = [*straddling, *above]
        self.publish(HotChange(base, self.commit(*straddling[0]) if straddling else None))

    def merge(self, first: int) -> None:
        """Merge a segment and the next one, if they have the same views."""
        pair = self.segments[first : first + 2]
        if len(pair) == 2 and pair[0][2] == pair[1][2]:
            merged = (pair[0][0], pair[1][1], pair[0][2])
            self.segments[first : first + 2] = [merged]
            self.publish(HotChange(self.segments[0][0], self.commit(*merged)))

    def restart(self) -> None:
        """Another process starts where commits end."""
        self.feed.disconnect("it has ended")
        self.epoch += 1
        self.segments.clear()

    def commit(self, start: Position, end: Position, lacks: frozenset[str] = frozenset()) -> Commit:
        folded = self.world.fold(start, end)
        commit = Commit(start, end, self.epoch, "fold", at=NOON, by="hot", **vars(folded))
        return replace(commit, partials={view: states for view, states in commit.partials.items() if view not in lacks})

    def publish(self, change: HotChange | None, *, lost: bool = False) -> None:
        self.feed.apply(message_of(self.release, SOURCE, WELL, change, lost=lost))


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def check(world: World, connection: Connection, position: Position) -> None:
    """Memory and files answer what the kernel says of the log below the position, or below the view's own if it stands aside."""
    now = connection.snapshot()
    assert now.pinned.snapshot.tails[SOURCE].end == position
    for name, view in world.project.every_view.items():
        at = now.view(name)
        folded = world.fold(LOG_START, stands(connection, view))
        assert at.memory is not None
        found, filed = at.scan(), at.files(select(at.view, {}, ALWAYS), "merged", None)
        assert isinstance(filed, Value | Absent)
        assert found.rows() == filed.rows()
        assert (found.total, found.provenance) == (filed.total, filed.provenance)
        assert stands(connection, view) == stands(connection, root(view))
        states = roll(view, from_ipc(folded.partials[world.live.views[root(view).name].fingerprint]))
        rows = ordered(view, present_arranged(view, arrange(view, states)))
        assert unlabelled(found.rows()) == unlabelled(to_rows(view, rows))


def stands(connection: Connection, view: View) -> Position:
    """Up to where a view's answers count."""
    return connection.snapshot().pinned.snapshot.of(view).tails[SOURCE].end


def unlabelled(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in ("window_state", "_exactness")} for row in rows]


some = st.lists(events | st.just(b"{"), min_size=1, max_size=3)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("hot"), st.integers(0, 1), some),
        st.tuples(st.just("hot"), st.integers(0, 1), some),
        st.tuples(st.just("merge"), st.integers(0, 2)),
        st.tuples(st.just("aside"), st.sets(st.integers(0, 3))),
        st.tuples(st.just("commit"), st.integers(0, 2)),
        st.tuples(st.just("hand over"), st.just(0)),
        st.tuples(st.just("recompute"), st.just(0)),
        st.tuples(st.just("promote"), st.just(0)),
        st.tuples(st.just("compact"), st.just(0)),
        st.tuples(st.just("lose"), st.just(0)),
        st.tuples(st.just("nobody asks"), st.just(0)),
    ),
    min_size=4,
    max_size=9,
)


@just(40, quick=3)
@given(steps, st.integers(0, 2**64 - 1), st.sampled_from([MORE, KNOWN]))
def test_after_every_step_answers_are_those_of_the_log_at_their_position(
    steps: list[tuple[Any, ...]], seed: int, definitions: str
) -> None:
    with TemporaryDirectory() as folder:
        world, clock = World(Path(folder), definitions=definitions), Clock()
        feed = HotFeed(clock)
        hot, of_store = Hot(world, feed), Clock()
        connection = Connection(Store(world.tables, seed, hot=feed, clock=of_store))
        reached, views = LOG_START, dict[str, Position]()

        def never_back() -> None:
            for name, view in world.project.views.items():
                assert views.get(name, LOG_START).at_or_below(stands(connection, view)), f"answers of {name} step back"
                views[name] = stands(connection, view)

        for step in steps:
            match step:
                case ("hot", int(partition), list(values)):
                    world.append(partition, *values)
                    hot.read(world.end)
                case ("commit", int(back)):
                    start = world.writer.end
                    ends = {place: max(start.get(place, 0), offset - back) for place, offset in world.end.items()}
                    if Position.of(ends) != start:
                        world.trigger(Position.of(ends))
                case ("merge", int(first)):
                    hot.merge(first)
                case ("hand over", _):
                    hot.hand_over()
                case ("recompute", _):
                    world.recompute(world.writer.end)
                case ("aside", set(places)):
                    every = [world.live.views[name].fingerprint for name in world.project.views]
                    hot.aside = frozenset(every[place] for place in places if place < len(every))
                case ("promote", _):
                    adopt(world, world.writer.end, hot.release + 1)
                    hot = Hot(world, feed, hot.release + 1)
                case ("compact", _):
                    world.compact()
                case ("lose", _):
                    hot.restart()
                case ("nobody asks", _):
                    of_store.now += 2 * USED_S
            if (advanced := connection.store.refresh_hot()) is not None:
                now = advanced.snapshot.positions[SOURCE]
                assert reached.at_or_below(now), "answers do not step back"
                check(world, connection, now)
                never_back()
                reached = upper(reached, now)
            connection.refresh()
            now = connection.snapshot().pinned.snapshot.positions[SOURCE]
            assert reached.at_or_below(now), "answers do not step back"
            assert world.writer.end.at_or_below(upper(now, reached))
            reached = now
            check(world, connection, now)
            never_back()
        clock.now += 2 * HOLD_S
        connection.refresh()
        check(world, connection, connection.snapshot().pinned.snapshot.positions[SOURCE])


@pytest.fixture
def world(tmp_path: Path) -> World:
    return nine_hits(tmp_path)


@pytest.fixture
def feed() -> HotFeed:
    return HotFeed(Clock())


def test_provenance_says_where_the_hot_part_begins(world: World, feed: HotFeed) -> None:
    connection = Connection(Store(world.tables, 1, hot=feed))
    world.append(0, hit("/", 10))
    Hot(world, feed).read(world.end)
    told = connection.view("per_page").now().provenance
    assert (told.hot, told.realtime) == (position(9), position(10))
    assert told.to_json(now=NOON)["hot"] == {"T": {"0": 9}}
    world.trigger()
    connection.refresh()
    told = connection.view("per_page").now().provenance
    assert (told.hot, told.realtime) == (position(9), position(10)), "until the process starts from there"


def test_a_view_that_stands_aside_says_how_far_its_own_answers_count(world: World, feed: HotFeed) -> None:
    """Its answers stay at the last hot commit that has it until commits pass that; those of other views go on."""
    connection, hot = Connection(Store(world.tables, 1, hot=feed)), Hot(world, feed)
    heavy = world.live.views["per_page"].fingerprint
    light = next(name for name in world.project.views if name != "per_page")

    def told() -> list[tuple[Position | None, Position]]:
        connection.refresh()
        check(world, connection, world.end)
        found = [connection.view(name).now().provenance for name in ("per_page", light)]
        return [(one.hot, one.realtime) for one in found]

    for number, aside in ((10, ()), (11, (heavy,)), (12, ())):
        hot.aside = frozenset(aside)
        world.append(0, hit("/", number))
        hot.read(world.end)
    assert told() == [(position(9), position(10)), (position(9), position(12))]
    world.trigger(position(11))
    hot.hand_over()
    assert told() == [(position(11), position(12))] * 2, "the first hot commit has it again"
    hot.aside = frozenset([heavy])
    hot.restart()
    world.append(0, hit("/", 13))
    hot.read(world.end)
    connection.refresh()
    check(world, connection, position(12))
    world.trigger(position(12))
    hot.hand_over()
    assert told() == [(None, position(12)), (position(12), position(13))], "a new process lacks the view"


def test_hot_commits_of_a_release_with_other_definitions_continue_the_answers(world: World, feed: HotFeed) -> None:
    """Its commits need not have come as far as the former release's hot commits; what has another meaning has another mark."""
    first = world.live
    second = replace(first, number=first.number + 1, release=2, views={name: renamed(view) for name, view in first.views.items()})
    hot = Hot(world, feed)
    world.append(0, hit("/", 10))

    def at(publication: Publication) -> Snapshot:
        commit = hot.commit(position(9), world.end)
        marks = {view.fingerprint: commit.partials[first.views[name].fingerprint] for name, view in publication.views.items()}
        cut = publication.cuts[SOURCE]
        cold, hot_commit = RealtimeTail(cut, position(9)), replace(commit, partials=marks)
        return Snapshot(publication, {SOURCE: replace(cold, end=commit.end, hot=(hot_commit,), cold=cold)})

    following = SnapshotFollower(world.tables, feed)
    following._hold(at(first), first.release, 0)
    assert not following._behind(at(second))


def renamed(view: BatchView) -> BatchView:
    return replace(view, fingerprint=f"another {view.fingerprint}")


def test_hot_commits_of_another_release_are_not_counted(world: World, feed: HotFeed) -> None:
    connection = Connection(Store(world.tables, 1, hot=feed))
    world.append(0, hit("/", 10))
    Hot(world, feed, release=2).read(world.end)
    connection.refresh()
    assert connection.snapshot().pinned.snapshot.positions[SOURCE] == position(9)


def test_lost_hot_commits_stay_in_answers_until_commits_reach_them_or_for_a_while(world: World) -> None:
    clock = Clock()
    feed = HotFeed(clock)
    connection = Connection(Store(world.tables, 1, hot=feed))
    world.append(0, hit("/", 10))
    Hot(world, feed).read(world.end)
    connection.refresh()
    feed.disconnect("it has ended")
    clock.now += HOLD_S / 2
    connection.refresh()
    check(world, connection, position(10))
    clock.now += HOLD_S
    connection.refresh()
    check(world, connection, position(9))
    world.trigger()
    connection.refresh()
    check(world, connection, position(10))


def test_a_process_that_starts_again_divides_the_log_in_other_places(world: World, feed: HotFeed) -> None:
    """Its hot commits begin where those of the former one did, and none of them is the same."""
    connection, hot = Connection(Store(world.tables, 1, hot=feed)), Hot(world, feed)
    for number in (10, 11):
        world.append(0, hit("/", number))
        hot.read(world.end)
        connection.refresh()
        check(world, connection, world.end)
    feed.disconnect("it has ended")
    world.append(0, hit("/", 12))
    Hot(world, feed).read(world.end)
    connection.refresh()
    check(world, connection, world.end)


def test_merged_hot_commits_add_nothing_to_a_view_that_counts_them(world: World, feed: HotFeed) -> None:
    connection, hot = Connection(Store(world.tables, 1, hot=feed)), Hot(world, feed)

    def held() -> CachedView:
        connection.refresh()
        check(world, connection, world.end)
        memory = connection.snapshot().view("per_page").memory
        assert memory is not None
        return memory.answers.held

    for number in range(10, 14):
        world.append(0, hit("/", number))
        hot.read(world.end)
        held()
    before = held()
    assert len(before.hot_commits) == 4
    for left in (3, 2, 1):
        hot.merge(0)
        after = held()
        assert len(after.hot_commits) == left
        assert after.hot is before.hot, "no layer is built again"
    world.append(0, hit("/", 14))
    hot.read(world.end)
    assert len(held().hot_commits) == 2


def test_hot_commits_of_another_process_are_added_to_none_of_the_former(world: World, feed: HotFeed) -> None:
    hot = Hot(world, feed)
    for number in (10, 11):
        world.append(0, hit("/", number))
        hot.read(world.end)
    earlier = feed.commits(1, SOURCE)
    hot.merge(0)
    merged = feed.commits(1, SOURCE)
    assert continued(earlier, merged) == 1
    assert continued(merged, earlier) == 2
    assert continued(earlier[:1], merged) is None
    assert continued((), earlier) == 0
    assert continued(earlier, earlier[1:]) is None
    hot.epoch += 1
    assert continued(earlier, (hot.commit(position(9), position(11)),)) is None


def test_hot_commits_are_answered_without_a_poll_until_they_are_lost_or_do_not_continue(world: World, feed: HotFeed) -> None:
    connection, hot = Connection(Store(world.tables, 1, hot=feed)), Hot(world, feed)
    store = connection.store
    assert store.refresh_hot() is None, "nothing was polled yet"
    connection.refresh()
    world.append(0, hit("/", 10))
    hot.read(world.end)
    assert store.refresh_hot() is not None
    check(world, connection, position(10))
    world.trigger()
    hot.hand_over()
    world.append(0, hit("/", 11))
    hot.read(world.end)
    assert store.refresh_hot() is None, "the commit below the hot commits was not polled yet"
    check(world, connection, position(10))
    connection.refresh()
    check(world, connection, position(11))
    hot.restart()
    assert store.refresh_hot() is None, "nobody knows whether they come back"
    hot.publish(None, lost=True)
    assert store.refresh_hot() is None, "records may be lost"
    connection.refresh()
    check(world, connection, position(10))


def test_records_that_the_log_may_have_lost_leave_answers_at_once(world: World, feed: HotFeed) -> None:
    """The topic was created again: no commit will ever count what the process had read."""
    connection, hot = Connection(Store(world.tables, 1, hot=feed)), Hot(world, feed)
    world.append(0, hit("/", 10))
    hot.read(world.end)
    connection.refresh()
    check(world, connection, position(10))
    hot.publish(None)
    connection.refresh()
    check(world, connection, position(10))
    hot.publish(None, lost=True)
    connection.refresh()
    check(world, connection, position(9))


class LostMeanwhile(HotFeed):
    """A feed whose process reports that records are lost, just after a reader got the hot commits that count them."""

    def commits(self, release: int, source: str) -> HotCommits:
        found = super().commits(release, source)
        if found:
            self.apply(message_of(release, source, HotStatus("the topics have changed"), None, lost=True))
        return found


def test_a_reader_that_got_lost_records_just_before_leaves_them_at_its_next_poll(world: World) -> None:
    feed = LostMeanwhile(Clock())
    connection = Connection(Store(world.tables, 1, hot=feed))
    world.append(0, hit("/", 10))
    Hot(world, feed).read(world.end)
    connection.refresh()
    check(world, connection, position(10))
    connection.refresh()
    check(world, connection, position(9))


def test_the_reason_of_a_tail_that_stands_aside_counts_as_one_loss(feed: HotFeed) -> None:
    """A tail that stands aside retries each second; the other sources' answers stay as they are meanwhile."""
    for source in ("hits", "hits", "others", "hits"):
        feed.apply(message_of(1, source, HotStatus("no topic"), None, lost=True))
        feed.apply(message_of(1, source, HotStatus("no broker"), None))
    assert feed.losses == 2


def test_a_tail_that_followed_again_may_lose_records_again(world: World, feed: HotFeed) -> None:
    hot = Hot(world, feed)
    for said in (None, HotChange(position(9)), None):
        hot.publish(said, lost=True)
    assert feed.losses == 2
    hot.release = 2
    hot.publish(None, lost=True)
    hot.release = 1
    hot.publish(None, lost=True)
    assert feed.losses == 4, "a release that is live again may lose records as any other"


def test_comparisons_add_up_over_all_processes_and_sources(feed: HotFeed) -> None:
    """A process counts from 0, whether the one before it was lost or stood aside."""
    apply = feed.apply
    for compared, mismatched, expected in ((2, 0, (2, 0)), (5, 3, (5, 3)), (5, 3, (5, 3)), (1, 1, (6, 4)), (2, 1, (7, 4))):
        apply(message_of(1, SOURCE, HotStatus(compared=compared, mismatched=mismatched), None))
        assert (feed.compared, feed.mismatched) == expected
    feed.disconnect("it has ended")
    apply(message_of(1, SOURCE, HotStatus(compared=3, mismatched=2), None))
    apply(message_of(1, "others", HotStatus(compared=1, mismatched=1), None))
    assert (feed.compared, feed.mismatched) == (11, 7)


def test_each_change_wakes_and_a_lost_process_is_the_reason_of_every_source() -> None:
    woken = list[int]()
    feed = HotFeed(Clock(), lambda: woken.append(1))
    for source in ("others", SOURCE):
        feed.apply(message_of(1, source, HotStatus(compared=1), HotChange(position(9))))
    feed.disconnect("it has ended")
    assert len(woken) == 3
    assert feed.statuses == {(1, "others"): HotStatus("it has ended"), (1, SOURCE): HotStatus("it has ended")}


def test_merged_neighbours_wake_nobody_and_answers_stay_right(world: World) -> None:
    woken = list[int]()
    feed = HotFeed(Clock(), lambda: woken.append(1))
    connection = Connection(Store(world.tables, 1, hot=feed))
    connection.refresh()
    hot = Hot(world, feed)
    for number in (10, 11):
        world.append(0, hit("/", number))
        hot.read(world.end)
        connection.refresh()
    heard = len(woken)
    feed.apply(message_of(1, SOURCE, HotStatus(nbytes=1), HotChange(position(9), hot.commit(position(9), position(11)))))
    assert (len(feed.commits(1, SOURCE)), len(woken)) == (1, heard)
    world.append(0, hit("/", 12))
    hot.read(world.end)
    assert len(woken) == heard + 1
    connection.refresh()
    check(world, connection, position(12))


def test_a_source_that_a_new_release_lacks_has_no_state(world: World, feed: HotFeed) -> None:
    world.append(0, hit("/", 10))
    Hot(world, feed).read(world.end)
    feed.apply(message_of(2, "others", WELL, None))
    assert [*feed.statuses] == [(2, "others")]
    assert feed.commits(1, SOURCE) == ()


def test_a_broker_that_is_away_leaves_the_hot_commits(world: World, feed: HotFeed) -> None:
    connection, hot = Connection(Store(world.tables, 1, hot=feed)), Hot(world, feed)
    world.append(0, hit("/", 10))
    hot.read(world.end)
    feed.apply(message_of(1, SOURCE, HotStatus("no broker"), HotChange(position(9))))
    assert [state.aside for state in feed.statuses.values()] == ["no broker"]
    connection.refresh()
    check(world, connection, position(10))


def test_a_client_that_continues_from_a_token_misses_no_change_of_hot_commits(world: World, feed: HotFeed) -> None:
    connection, hot = Connection(Store(world.tables, 1, hot=feed)), Hot(world, feed)
    now = connection.view("per_page").now()
    world.append(0, hit("/", 10), hit("/new", 11))
    hot.read(world.end)
    connection.refresh()
    store = connection.store
    pinned = store.pinned()
    changed = watch(store, pinned, "per_page", ChangesToken.parse(now.token)).look(pinned)
    assert changed is not None
    assert {row["page"] for row in changed.rows.rows()} == {"/", "/new"}
    token = ChangesToken.parse(changed.token)
    assert (token.end, token.hot) == (position(9), (1, position(11)))
    assert str(token) == changed.token


def test_only_hot_commits_in_a_row_are_taken(world: World, feed: HotFeed) -> None:
    hot = Hot(world, feed)
    hot.publish(HotChange(position(9), hot.commit(position(6), position(9))))
    assert feed.commits(1, SOURCE) == ()


def test_hot_commits_advance_the_views_in_use_alone_and_the_others_when_they_are_asked(tmp_path: Path) -> None:
    world, clock = nine_hits(tmp_path), Clock()
    feed = HotFeed(Clock())
    hot, connection = Hot(world, feed), Connection(Store(world.tables, 1, hot=feed, clock=clock))
    for name in world.project.every_view:
        connection.view(name).rows()
    clock.now += 2 * USED_S
    connection.view("per_page").rows()

    def hot_hit() -> None:
        world.append(0, hit("/hot", 1))
        hot.read(world.end)
        connection.store.refresh_hot()

    hot_hit()
    began = connection.snapshot()
    assert set(began.pinned.views) == {"per_page"}
    hot_hit()
    for name, view in world.project.every_view.items():
        at = began.view(name)
        assert at.memory is not None
        filed = at.files(select(view, {}, ALWAYS), "merged", None)
        assert isinstance(filed, Value)
        # A question that began before the second hot commit is answered without it.
        assert at.scan().rows() == filed.rows()
    check(world, connection, world.end)
