"""The programs of a simulation: the commands of batch, a speed layer, readers. Any I/O call may be their last."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import tandem.batch.archive.write_archive
import tandem.batch.maintain.maintain
import tandem.batch.recompute.recompute
import tandem.batch.release.apply
from tandem.batch.recompute.plan import RecomputeRequest
from tandem.batch.release.release_plan import Terms
from tandem.infra.settings import SpeedSettings
from tandem.ledger.delta.addresses import SPEED, Tables
from tandem.ledger.delta.errors import Unreadable
from tandem.ledger.log.positions import LOG_START, Position, ranges, upper
from tandem.ledger.publish import adoption, promotion, publications
from tandem.ledger.publish.publications import Publication, Publications
from tandem.ledger.publish.releases import Releases
from tandem.ledger.publish.standing import Followed, StandingReleases
from tandem.ledger.realtime.commits import Commit
from tandem.ledger.realtime.follower import Follower
from tandem.ledger.realtime_writer import Writer
from tandem.serving.read import snapshot
from tandem.serving.read.outcome import Failed
from tandem.serving.read.realtime_tail import RealtimeTail
from tandem.serving.read.snapshot import Snapshot
from tandem.serving.read.snapshot_follower import PastPublication, SnapshotFollower
from tandem.speed.dedup.dedup_window import DedupWindow
from tandem.speed.micro_batch.follower_state import FollowerState
from tandem.speed.micro_batch.log_tail import UncommittedLog as Writing
from tandem.speed.source import follow as speed_follow
from tandem.speed.source.follow import Surroundings
from tandem.speed.source.start_position import beginning, steps
from tandem.views.errors import TandemError
from tandem.views.project import project
from tandem.views.source.offset_ranges import Ranges
from tandem.views.source.watermark import later
from tests.simulation.numbers import SOURCE, Found, States, decode, least_by_fingerprint, states, united
from tests.simulation.world import BROKER, Copied, Fetched, Run, World, of_parts, settings, sleep


def archive(world: World, *, new_topic: bool = False) -> None:
    with Run(world, "archive").releasing() as run:
        tandem.batch.archive.write_archive.run(run, world.working_tree, new_topic=new_topic)


def recompute(world: World, request: RecomputeRequest) -> None:
    with Run(world, "recompute").releasing() as run:
        done = tandem.batch.recompute.recompute.run(run, world.working_tree, request)
    world.say(f"publication {done.publication.number}: {[f'{one.kind} [{one.start}, {one.cut})' for one in done.done]}")


def apply(world: World, max_lag: int) -> None:
    with Run(world, "apply").releasing() as run:
        done = tandem.batch.release.apply.run(run, world.working_tree, Terms(max_lag=max_lag), sleep=sleep)
    world.say(f"release {done.release} is ready")


def promote(world: World, release: int | None, max_lag: int) -> None:
    _told(
        world,
        promotion.promote(
            StandingReleases(world.tables),
            release,
            max_lag=max_lag,
            days=world.keep.release_days,
            by="",
            at=world.now(),
        ),
    )


def rollback(world: World, number: int | None) -> None:
    keep, at = world.keep, world.now()
    since = at - timedelta(days=keep.days)
    found = promotion.rollback(
        StandingReleases(world.tables),
        number,
        days=keep.release_days,
        keep=keep.publications,
        since=since,
        by="",
        at=at,
    )
    _told(world, found)


def resume(world: World) -> None:
    _told(world, promotion.resume(StandingReleases(world.tables), by="", at=world.now()))


def retire(world: World, release: int) -> None:
    promotion.retire(StandingReleases(world.tables), release, by="", at=world.now())


def gap_names(world: World) -> tuple[str, ...]:
    """The names of all gaps, as a person reads them off `status`."""
    return tuple(row["name"] for row in world.rows(world.tables.control("gaps")))


def _told(world: World, live: Publication) -> None:
    world.say(f"publication {live.number}: {live.kind} of release {live.release}, cut {live.cut(SOURCE)}")


def maintain(world: World) -> None:
    kept = tandem.batch.maintain.maintain.run(settings(world), now=world.now, say=world.say)
    world.say(f"keeps {kept.retained}, discards {kept.discarded}")


Ahead = Callable[[Position], Position]


def speed(
    world: World,
    *,
    micro_batches: int,
    which: Callable[[Sequence[Publication]], Publication],
    ahead: Ahead,
    upkeep_every: int,
    alone: bool = False,
) -> None:
    """A worker of the speed layer, for so many micro-batches: it follows `which` of the releases that are kept up.

    `ahead` says how far the next micro-batch reaches. A micro-batch that fails is followed by a new query where the layer's own
    thread would start one. A worker that is `alone` is the whole layer of a machine, which takes the lease.
    """
    run = Run(world, "speed")
    with run.releasing():
        if alone:
            run.hold(SPEED)
        _count(world, run.tables, micro_batches=micro_batches, which=which, ahead=ahead, upkeep_every=upkeep_every)


def _count(
    world: World,
    tables: Tables,
    *,
    micro_batches: int,
    which: Callable[[Sequence[Publication]], Publication],
    ahead: Ahead,
    upkeep_every: int,
) -> None:
    if Publications(tables).latest() is None:
        adoption.live(tables, world.working_tree, by="speed", at=world.now())
    followed = Followed(StandingReleases(tables), world.keep.release_days)
    state = which(followed.states(world.now()))
    release = Releases(tables).load(state.release)
    definitions = project.load_files(release.files)
    one = speed_follow.follow(
        _around(world, tables, upkeep_every), release, definitions.sources[SOURCE], definitions.views, state
    )
    writer = one.tail.writer
    world.say(f"claims release {release.number} with epoch {writer.epoch} at {writer.end}")
    for number in range(micro_batches):
        query: Any = one._query
        ends = ahead(writer.end)
        query.checkpoint = Position.of({partition: ends.get(partition, 0) for partition in query.log.partitions})
        try:
            folded = _triggered(world, query, number)
            assert folded is None or folded[1] == list(world.log.remembered(folded[0])), "a commit lacks what the log had"
            world.say(f"counts up to {writer.end}")
        except TandemError:
            one._streaming = SimpleNamespace(isActive=False)  # type: ignore[assignment]
            one.check()
        if number % upkeep_every == upkeep_every - 1:
            states = {each.release: each for each in followed.states(world.now())}
            if release.number not in states:
                return
            one.tail.live = states[release.number]


def _triggered(world: World, query: Any, number: int) -> tuple[Ranges, list[Found]] | None:
    """Run a micro-batch; what it committed and of which records, None if nothing was new."""
    fetched = Noted(world)
    query.trigger(fetched, number)
    return fetched.found[-1] if fetched.found else None


@dataclass(frozen=True)
class Noted(Fetched):
    """Records of the log, of which is noted what was fetched."""

    found: list[tuple[Ranges, list[Found]]] = field(default_factory=list)

    def within(self, covered: Ranges) -> list[Found]:
        self.found.append((covered, super().within(covered)))
        return self.found[-1][1]


def _around(world: World, tables: Tables, upkeep_every: int) -> Surroundings:
    """What a speed layer's worker shares with others, without Spark and broker."""
    chosen = settings(world)
    chosen.speed = SpeedSettings(max_events=3, compact_every=upkeep_every)
    nothing: Any = SimpleNamespace(follows=lambda *_: None, heart=SimpleNamespace(looked=lambda *_: None))
    connection: Any = BROKER.connect(None)
    folder, now, say = Path(chosen.state), world.now, world.say
    return Surroundings(nothing, chosen, tables, connection, folder, "speed", now, say, nothing, lambda: False, nothing)


def commits(world: World) -> Sequence[Commit]:
    """What the realtime table of the live release holds."""
    live = Publications(world.tables).latest()
    return () if live is None else Follower(world.tables, live.release, SOURCE).poll()


def follow(world: World, ends: Iterable[Ahead], *, meanwhile: Callable[[], object]) -> None:
    """A worker of the speed layer on a log that loses records: it begins as `follow` does, then a micro-batch for each end.

    `meanwhile` comes between a micro-batch's fetch and its commit, which then does not come if the log is another.
    """
    tables = world.tables
    adoption.live(tables, world.working_tree, by="speed", at=world.now())
    state = Followed(StandingReleases(tables), world.keep.release_days).states(world.now())[0]
    release = Releases(tables).load(state.release)
    definitions = project.load_files(release.files)
    source, writer = definitions.sources[SOURCE], Writer.claim(tables, release.number, SOURCE, by="speed", at=world.now())
    there = beginning(tables, source, writer.end, BROKER.connect(None), at=world.now())
    views = {release.views[name]: view for name, view in definitions.views.items()}
    task: Any = _Task()
    known = FollowerState(DedupWindow(0), end=writer.end, firsts=there.firsts, epoch=writer.epoch, by="speed", idle=source.idle)
    tail = Writing(task, source, views, writer, state, world.now, known)
    for position in steps(writer.end, there.archived, there.firsts, most=3):
        if ranges(writer.end, position, there.firsts).length:
            tail.extend(cast("Any", Copied(tables)), position, still_there=lambda: None)
    for end in ends:
        start = writer.end
        reached = upper(start, end(start))
        if reached != start:

            def look(start: Position = start) -> Position:
                meanwhile()
                return there.log.require(start, there.firsts)

            tail.extend(cast("Any", Fetched(world)), reached, still_there=look)
            world.say(f"counts up to {reached}")


@dataclass(frozen=True)
class _Task:
    """In place of `tandem.speed.micro_batch.task.Task`: the micro-batch is folded without one."""

    maxima: object = None
    watermark: int | None = None
    versions: object = None


@dataclass(eq=False)
class Reader:
    """Follows what is published, and holds every answer against the log."""

    world: World
    following: SnapshotFollower = field(init=False)
    position: Position = LOG_START
    watermarks: dict[int, int | None] = field(default_factory=dict)
    failure: str = ""

    def __post_init__(self) -> None:
        self.following = SnapshotFollower(self.world.tables)

    def look(self) -> Snapshot | None:
        """One refresh and the answers of all views, tried once more if files vanished; None if `failure` says why not."""
        for _ in range(2):
            found = self.following.refresh()
            problem = found.reason if isinstance(found, Failed) else found.tails[SOURCE].problem
            if isinstance(found, Failed) or problem:
                self.failure = problem or ""
                break
            try:
                self._judge(found)
            except Unreadable as error:
                self.failure = str(error)
                continue
            return found
        self.world.say(f"no answer: {self.failure}")
        return None

    def _judge(self, found: Snapshot) -> None:
        live, tail, world = found.publication, found.tails[SOURCE], self.world
        assert self.position.at_or_below(tail.end), f"a reader at {self.position} steps back to {tail.end}"
        _answers(world, live, tail)
        watermark = found.watermark(SOURCE)
        before = self.watermarks.get(live.release)
        assert later(before, watermark) == watermark, f"the watermark steps back from {before} to {watermark}"
        self.position = upper(self.position, tail.end)
        self.watermarks |= {live.release: watermark}
        world.say(f"publication {live.number} of release {live.release} answers at {tail.end}")


def ask_the_past(world: World, since: datetime) -> None:
    """Every publication that is retained since a time can be asked, and says what the log held below its cut."""
    for publication in publications.retained(Publications(world.tables).history(), keep=world.keep.publications, since=since):
        found = PastPublication(world.tables, publication.number).refresh()
        assert isinstance(found, Snapshot), found
        for view in publication.views:
            equal(world, view, publication, batch_states(world, publication, view), publication.cut(SOURCE))


def ask_the_standing(world: World) -> None:
    """Every release that could go live now would give the right answers."""
    for state in promotion.ready(StandingReleases(world.tables), days=world.keep.release_days, at=world.time).values():
        tail = snapshot.tail(Follower(world.tables, state.release, SOURCE).poll(), state.cut(SOURCE))
        assert tail.problem is None, f"release {state.release} stands ready, yet {tail.problem}"
        _answers(world, state, tail)


def _answers(world: World, state: Publication, tail: RealtimeTail) -> None:
    """Hold what batch and realtime views of a release come to against the log."""
    fingerprints = {view.fingerprint for view in state.views.values()}
    for commit in tail.commits:
        assert set(commit.partials) == fingerprints, f"release {state.release} is read with a commit of another"
    for view in state.views:
        realtime = united(decode(commit.partials[state.views[view].fingerprint]) for commit in tail.commits)
        below = batch_states(world, state, view)
        equal(world, view, state, below, state.cut(SOURCE))
        equal(world, view, state, united([below, realtime]), tail.end, cut=state.cut(SOURCE))
    if not world.missing:
        events = len({event.id for _, _, event in world.log.below(tail.end)})
        counted = state.counts[SOURCE].events if SOURCE in state.counts else 0
        assert counted + tail.counts.events == events, f"{counted} + {tail.counts.events} events are told of {events}"


def batch_states(world: World, live: Publication, view: str) -> States:
    batch_view = live.views[view]
    return of_parts(world.tables, batch_view.address(world.tables, view), batch_view.parts)


def equal(world: World, view: str, live: Publication, answer: States, position: Position, *, cut: Position | None = None) -> None:
    """What a named gap has counts nowhere below a cut; above it, it counts if it was counted before it was lost."""
    least = least_by_fingerprint()[live.views[view].fingerprint]
    missing = world.missing
    found = list(world.log.below(position))
    expected = states((event for partition, offset, event in found if (partition, offset) not in missing), least)
    if answer == expected:
        return
    may = [
        event
        for partition, offset, event in found
        if (partition, offset) not in missing or (cut is not None and offset >= cut.get(partition, 0))
    ]
    most = states(may, least)
    within = cut is not None and all(
        low <= n <= high
        for minute in {*most, *answer}
        for low, n, high in zip(*(each.get(minute, (0, 0)) for each in (expected, answer, most)), strict=True)
    )
    assert within, (
        f"a wrong answer: {view} of publication {live.number} is {answer} at {position}, where the log holds {expected}"
    )
