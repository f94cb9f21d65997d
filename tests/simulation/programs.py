"""What the processes of a simulation run: the commands of batch, a speed layer, readers. Any I/O call may be their last."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

import batch.archive
import batch.maintain
import batch.recompute
from batch.planning import Request
from ledger import first, publications, releases
from ledger.delta import Unreadable
from ledger.follower import Follower
from ledger.positions import LOG_START, Position, upper
from ledger.publications import Publication
from ledger.realtime import NotContiguous, Writer
from serving.following import Following
from serving.outcome import Failed
from serving.past import Past
from serving.snapshot import Snapshot
from speed.tail import Tail
from speed.upkeep import tend
from tests.simulation.numbers import SOURCE, States, decode, least_by_fingerprint, states, united
from tests.simulation.world import Run, World, of_parts, settings
from views import project
from views.watermark import later, newest


def archive(world: World) -> None:
    batch.archive.run(Run(world, "archive"), world.working_tree)


def recompute(world: World, request: Request) -> None:
    done = batch.recompute.run(Run(world, "recompute"), world.working_tree, request)
    world.say(f"publication {done.publication.number}: {[f'{one.kind} [{one.start}, {one.cut})' for one in done.done]}")


def maintain(world: World) -> None:
    kept = batch.maintain.run(settings(world), now=world.now, say=world.say)
    world.say(f"keeps {kept.retained}, discards {kept.discarded}")


@dataclass(frozen=True)
class Horizon:
    """These events have no identity: nothing is remembered."""

    def extended(self, _: object) -> "Horizon":
        return self


def speed(world: World, *, micro_batches: int, ahead: Callable[[Position], Position], upkeep_every: int) -> None:
    """The speed layer of the live release, for so many micro-batches; `ahead` says how far the next one reaches."""
    live = publications.latest(world.tables) or first.live(world.tables, world.working_tree, by="speed", at=world.now())
    left = iter(range(micro_batches))
    while (moved := _follow(world, live, left, ahead, upkeep_every)) is not None:
        live = moved


def _follow(
    world: World, live: Publication, left: Iterator[int], ahead: Callable[[Position], Position], upkeep_every: int
) -> Publication | None:
    """As speed/follow.py and layer.py: the publication of another release to go on with; None at the end."""
    release = releases.load(world.tables, live.release)
    definitions = project.load_files(release.files)
    history = publications.History(world.tables)
    writer = Writer.claim(world.tables, release.number, SOURCE, by="speed", at=world.now())
    world.say(f"claims release {release.number} with epoch {writer.epoch} at {writer.end}")
    views = {release.views[name]: view for name, view in definitions.views.items()}
    tail = Tail(_Task(), definitions.sources[SOURCE], views, writer, live, "speed", world.now, Horizon())
    for number in left:
        if tail.known != writer.end:
            commits = Follower(world.tables, release.number, SOURCE).poll().commits
            tail.maxima = newest(each.maxima for each in commits)
            tail.watermark = later(*(each.watermark for each in commits))
            tail.known = writer.end
        end = ahead(writer.end)
        if end != writer.end:
            with suppress(NotContiguous):
                tail.extend(world.log, end, still_there=world.schedule.change_over)
                world.say(f"counts up to {end}")
        if number % upkeep_every == upkeep_every - 1:
            tend(writer, world.tables, release, SOURCE, views, history=history, keep=world.keep, at=world.now())
            latest = publications.latest(world.tables) or live
            if latest.release != release.number:
                return latest
            tail.live = latest
    return None


@dataclass(frozen=True)
class _Task:
    """In place of speed.fold.Task: the micro-batch is folded without one."""

    maxima: object = None
    watermark: int | None = None


@dataclass(eq=False)
class Reader:
    """Follows what is published, and holds every answer against the log."""

    world: World
    following: Following = field(init=False)
    position: Position = LOG_START
    watermarks: dict[int, int | None] = field(default_factory=dict)
    failure: str = ""

    def __post_init__(self) -> None:
        self.following = Following(self.world.tables)

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
        fingerprints = {view.fingerprint for view in live.views.values()}
        for commit in tail.commits:
            assert set(commit.partials) == fingerprints, f"release {live.release} is read with a commit of another"
        for view in live.views:
            realtime = [decode(commit.partials[live.views[view].fingerprint]) for commit in tail.commits]
            _equal(world, view, live, united([_below(world, live, view), *realtime]), tail.end)
        events = len(world.log.below(tail.end))
        counted = live.counts[SOURCE].events if SOURCE in live.counts else 0
        assert counted + tail.counts.events == events, f"{counted} + {tail.counts.events} events are told of {events}"
        watermark = found.watermark(SOURCE)
        before = self.watermarks.get(live.release)
        assert later(before, watermark) == watermark, f"the watermark steps back from {before} to {watermark}"
        self.position = upper(self.position, tail.end)
        self.watermarks |= {live.release: watermark}
        world.say(f"publication {live.number} of release {live.release} answers at {tail.end}")


def ask_the_past(world: World, since: datetime) -> None:
    """Every publication that is retained since a time can be asked, and says what the log held below its cut."""
    for publication in publications.retained(publications.history(world.tables), keep=world.keep.publications, since=since):
        found = Past(world.tables, publication.number).refresh()
        assert isinstance(found, Snapshot), found
        for view in publication.views:
            _equal(world, view, publication, _below(world, publication, view), publication.cut(SOURCE))


def _below(world: World, live: Publication, view: str) -> States:
    batch_view = live.views[view]
    return of_parts(world.tables, world.tables.view(view, batch_view.fingerprint), batch_view.parts)


def _equal(world: World, view: str, live: Publication, answer: object, position: Position) -> None:
    expected = states(world.log.below(position), least_by_fingerprint()[live.views[view].fingerprint])
    assert answer == expected, f"{view} of publication {live.number} is {answer} at {position}, where the log holds {expected}"
