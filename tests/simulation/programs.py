"""What the processes of a simulation run: the commands of batch, a speed layer, readers. Any I/O call may be their last."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np

import batch.archive.archive
import batch.maintain.maintain
import batch.recompute.recompute
import batch.release.apply
from batch.recompute.plan import Request
from batch.release.apply import Terms
from ledger.delta.addresses import Tables
from ledger.delta.delta_tables import Unreadable
from ledger.log.positions import LOG_START, Position, ranges, upper
from ledger.publish import first_publication, promotion, publications, releases
from ledger.publish.publications import Publication
from ledger.publish.standing import Followed
from ledger.realtime.commits import Commit
from ledger.realtime.follower import Follower
from ledger.realtime_writer import NotContiguous, Writer
from serving.read import snapshot
from serving.read.outcome import Failed
from serving.read.past_publication import PastPublication
from serving.read.snapshot import Snapshot, Tail
from serving.read.snapshot_follower import SnapshotFollower
from speed.dedup.dedup_window import Horizon
from speed.micro_batch.maintenance import tend
from speed.micro_batch.realtime_writer import Tail as Writing
from speed.source.counted_at import Counted, counted, divided
from speed.source.restore_identities import begun
from speed.source.start_position import beginning, steps
from tests.simulation.numbers import SOURCE, Found, States, decode, identities, least_by_fingerprint, states, united
from tests.simulation.world import BROKER, Run, World, found_in, inside, of_parts, settings, sleep, stored
from views.project import project
from views.source.offset_ranges import Ranges
from views.source.source import Source
from views.source.watermark import later, newest


def archive(world: World, *, new_topic: bool = False) -> None:
    batch.archive.archive.run(Run(world, "archive"), world.working_tree, new_topic=new_topic)


def recompute(world: World, request: Request) -> None:
    done = batch.recompute.recompute.run(Run(world, "recompute"), world.working_tree, request)
    world.say(f"publication {done.publication.number}: {[f'{one.kind} [{one.start}, {one.cut})' for one in done.done]}")


def apply(world: World, max_lag: int) -> None:
    done = batch.release.apply.run(Run(world, "apply"), world.working_tree, Terms(max_lag=max_lag), sleep=sleep)
    world.say(f"release {done.release} is ready")


def promote(world: World, release: int | None, max_lag: int) -> None:
    _told(world, promotion.promote(world.tables, release, max_lag=max_lag, days=world.keep.release_days, by="", at=world.now()))


def rollback(world: World, number: int | None) -> None:
    keep, at = world.keep, world.now()
    since = at - timedelta(days=keep.days)
    found = promotion.rollback(world.tables, number, days=keep.release_days, keep=keep.publications, since=since, by="", at=at)
    _told(world, found)


def resume(world: World) -> None:
    _told(world, promotion.resume(world.tables, by="", at=world.now()))


def retire(world: World, release: int) -> None:
    promotion.retire(world.tables, release, by="", at=world.now())


def _told(world: World, live: Publication) -> None:
    world.say(f"publication {live.number}: {live.kind} of release {live.release}, cut {live.cut(SOURCE)}")


def maintain(world: World) -> None:
    kept = batch.maintain.maintain.run(settings(world), now=world.now, say=world.say)
    world.say(f"keeps {kept.retained}, discards {kept.discarded}")


Ahead = Callable[[Position], Position]


def _recalled(world: World, source: Source, known: Counted) -> Horizon:
    """In place of Spark's jobs that load identities: `speed.source.restore_identities`."""
    stretches = list(divided(known.within(source.horizon), {}, most=3))
    horizon = begun(source, stretches, known, 1)
    for number, one in reversed(list(enumerate(stretches))):
        events = [event for _, _, event in world.log.within(ranges(one.start, one.end))]
        if events:
            horizon = horizon.with_identities(identities(events), np.full(len(events), number, np.int32))
    return horizon


def speed(
    world: World, *, micro_batches: int, which: Callable[[Sequence[Publication]], Publication], ahead: Ahead, upkeep_every: int
) -> None:
    """A worker of the speed layer, for so many micro-batches: it follows `which` of the releases that are kept up.

    `ahead` says how far the next micro-batch reaches.
    """
    tables = world.tables
    if publications.latest(tables) is None:
        first_publication.live(tables, world.working_tree, by="speed", at=world.now())
    followed = Followed(tables, world.keep.release_days)
    state = which(followed.states(world.now()))
    release = releases.load(tables, state.release)
    definitions = project.load_files(release.files)
    writer = Writer.claim(tables, release.number, SOURCE, by="speed", at=world.now())
    world.say(f"claims release {release.number} with epoch {writer.epoch} at {writer.end}")
    views = {release.views[name]: view for name, view in definitions.views.items()}
    tail = Writing(_Task(), definitions.sources[SOURCE], views, writer, state, "speed", world.now)

    def look() -> Position:
        world.schedule.change_over()
        return world.log.end

    for number in range(micro_batches):
        if tail.known != writer.end:
            known = counted(tables, release, SOURCE, writer.end, now=world.now())
            tail.horizon, tail.caught_up = _recalled(world, tail.source, known), known.caught_up
            commits = Follower(tables, release.number, SOURCE).poll()
            tail.maxima = newest(each.maxima for each in commits)
            tail.watermark = later(*(each.watermark for each in commits))
            tail.known = writer.end
        end = ahead(writer.end)
        if end != writer.end:
            with suppress(NotContiguous):
                tail.extend(world.log, end, still_there=look)
                world.say(f"counts up to {end}")
        if number % upkeep_every == upkeep_every - 1:
            tend(writer, tables, release, SOURCE, views, followed=followed, keep=world.keep, at=world.now())
            states = {each.release: each for each in followed.states(world.now())}
            if release.number not in states:
                return
            tail.live = states[release.number]


def commits(world: World) -> Sequence[Commit]:
    """What the realtime table of the live release holds."""
    live = publications.latest(world.tables)
    return () if live is None else Follower(world.tables, live.release, SOURCE).poll()


@dataclass(frozen=True)
class Copied:
    """The archive's records, as the speed layer reads those that the log has no longer."""

    tables: Tables

    def within(self, covered: Ranges) -> Iterable[Found]:
        return (found_in(row) for row in stored(self.tables.archive(SOURCE)) if inside(row, covered))


def follow(world: World, ends: Iterable[Ahead], *, meanwhile: Callable[[], object]) -> None:
    """A worker of the speed layer on a log that loses records: it begins as `follow` does, then a micro-batch for each end.

    `meanwhile` comes between a micro-batch's fetch and its commit, which then does not come if the log is another.
    """
    tables = world.tables
    first_publication.live(tables, world.working_tree, by="speed", at=world.now())
    state = Followed(tables, world.keep.release_days).states(world.now())[0]
    release = releases.load(tables, state.release)
    definitions = project.load_files(release.files)
    source, writer = definitions.sources[SOURCE], Writer.claim(tables, release.number, SOURCE, by="speed", at=world.now())
    there = beginning(tables, source, writer.end, BROKER.connect(None), at=world.now())
    views = {release.views[name]: view for name, view in definitions.views.items()}
    tail = Writing(_Task(), source, views, writer, state, "speed", world.now, firsts=there.firsts)
    for position in steps(writer.end, there.archived, there.firsts, most=3):
        if ranges(writer.end, position, there.firsts).length:
            tail.extend(Copied(tables), position, still_there=lambda: None)
    for end in ends:
        start = writer.end
        reached = upper(start, end(start))
        if reached != start:

            def look(start: Position = start) -> Position:
                meanwhile()
                return there.log.require(start, tail.firsts)

            tail.extend(world.log, reached, still_there=look)
            world.say(f"counts up to {reached}")


@dataclass(frozen=True)
class _Task:
    """In place of `speed.micro_batch.task.Task`: the micro-batch is folded without one."""

    maxima: object = None
    watermark: int | None = None


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
    for publication in publications.retained(publications.history(world.tables), keep=world.keep.publications, since=since):
        found = PastPublication(world.tables, publication.number).refresh()
        assert isinstance(found, Snapshot), found
        for view in publication.views:
            _equal(world, view, publication, _below(world, publication, view), publication.cut(SOURCE))


def ask_the_standing(world: World) -> None:
    """Every release that could go live now would give the right answers."""
    for state in promotion.ready(world.tables, days=world.keep.release_days, at=world.time).values():
        tail = snapshot.tail(Follower(world.tables, state.release, SOURCE).poll(), state.cut(SOURCE))
        assert tail.problem is None, f"release {state.release} stands ready, yet {tail.problem}"
        _answers(world, state, tail)


def _answers(world: World, state: Publication, tail: Tail) -> None:
    """Hold what batch and realtime views of a release come to against the log."""
    fingerprints = {view.fingerprint for view in state.views.values()}
    for commit in tail.commits:
        assert set(commit.partials) == fingerprints, f"release {state.release} is read with a commit of another"
    for view in state.views:
        realtime = [decode(commit.partials[state.views[view].fingerprint]) for commit in tail.commits]
        _equal(world, view, state, united([_below(world, state, view), *realtime]), tail.end)
    events = len({event.id for event in world.log.below(tail.end)})
    counted = state.counts[SOURCE].events if SOURCE in state.counts else 0
    assert counted + tail.counts.events == events, f"{counted} + {tail.counts.events} events are told of {events}"


def _below(world: World, live: Publication, view: str) -> States:
    batch_view = live.views[view]
    return of_parts(world.tables, batch_view.address(world.tables, view), batch_view.parts)


def _equal(world: World, view: str, live: Publication, answer: object, position: Position) -> None:
    expected = states(world.log.below(position), least_by_fingerprint()[live.views[view].fingerprint])
    assert answer == expected, f"{view} of publication {live.number} is {answer} at {position}, where the log holds {expected}"
