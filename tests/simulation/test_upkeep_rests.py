"""Maintenance reads the ledger several times: a publication between two of its reads stays readable."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import pytest

from tandem.batch.recompute.plan import RecomputeRequest
from tandem.infra.settings import KeepSettings
from tandem.ledger.log.positions import Position
from tandem.ledger.publish import publications
from tandem.ledger.publish.publications import Publications
from tandem.ledger.publish.releases import Releases
from tandem.ledger.publish.standing import Followed, StandingReleases
from tandem.ledger.realtime.follower import Follower
from tandem.ledger.realtime_writer import Writer
from tandem.serving.read import snapshot
from tandem.speed.micro_batch.maintenance import tend
from tandem.views.project.project import load_files
from tests.simulation import programs
from tests.simulation.numbers import SOURCE, Event
from tests.simulation.simulation import Simulation, Weather
from tests.simulation.world import Present, World, surroundings

_MICRO_BATCHES = 9
_MOST_STEPS = 200


@dataclass
class Resting(Simulation):
    """Processes run one after the other; the one that is told to rests before its I/O call of this number."""

    rests_at: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.weather = self.kept = Weather(change_over=0)
        self.world.keep = KeepSettings(publications=4)
        Present.enter(self.world)

    def step(self, what: str) -> None:
        super().step(what)
        if self.rests_at is not None and self.world.schedule.current is not None:
            self.rests_at -= 1
            if self.rests_at < 0:
                self.rests_at = None
                self.world.schedule.change_over()

    def whole(self, program: Callable[..., object], *arguments: object) -> None:
        self._at_the_end(lambda: program(self.world, *arguments))

    def count(self, micro_batches: int) -> None:
        """New events on both partitions for each micro-batch; no upkeep."""

        def ahead(_: Position) -> Position:
            world = self.world
            for partition in (0, 1):
                appended = int(world.now().timestamp() * 1_000_000)
                world.log.partitions[partition].append(Event(partition, 1, appended, world.number()))
            return world.log.end

        self._at_the_end(
            lambda: programs.speed(
                self.world, micro_batches=micro_batches, which=lambda states: states[0], ahead=ahead, upkeep_every=1000
            )
        )

    def publish_below(self, micro_batches: int) -> None:
        """Archive what the log held after this many micro-batches, and publish a cut there."""
        with _shortened(self.world, micro_batches):
            self.whole(programs.archive)
        self.whole(programs.recompute, RecomputeRequest())


@contextmanager
def _shortened(world: World, length: int) -> Iterator[None]:
    """The log as it was when each of both partitions had this many records."""
    whole = world.log.partitions
    world.log.partitions = [whole[0][:length], whole[1][:length], *whole[2:]]
    yield
    world.log.partitions = whole


def _keep_up(world: World, writer: Writer) -> None:
    """What a worker of the speed layer does after some of its commits."""
    release = Releases(world.tables).load(1)
    views = {release.views[name]: view for name, view in load_files(release.files).views.items()}
    followed = Followed(StandingReleases(world.tables), world.keep.release_days)
    tend(writer, world.tables, release, SOURCE, views, followed=followed, keep=world.keep, at=world.now())


def _rests(at: int, published: tuple[int, ...]) -> bool:
    """Whether upkeep gets as far as its I/O call of this number, before which these cuts are published."""
    one = Resting(0, _has_a_past=False)
    world = one.world
    one.count(_MICRO_BATCHES)
    one.publish_below(1)
    writer = Writer.claim(world.tables, 1, SOURCE, by="speed", at=world.now())
    one.rests_at = at
    upkeep = one._start("upkeep", lambda: _keep_up(world, writer))
    rested = not upkeep.done
    one.rests_at = None
    for micro_batches in published:
        one.publish_below(micro_batches)
    if rested:
        one._resume(upkeep)
    assert upkeep.done
    commits = Follower(world.tables, 1, SOURCE).poll()
    keep = world.keep
    since = world.time - timedelta(days=keep.days)
    kept = publications.retained(Publications(world.tables).history(), keep=keep.publications, since=since)
    for publication in kept:
        cut = publication.cut(SOURCE)
        assert snapshot.tail(commits, cut).problem is None, f"{at}: publication {publication.number} cannot be read from {cut}"
    programs.ask_the_past(world, world.time)
    return rested


@pytest.mark.each_run("published0", "published2")
@pytest.mark.parametrize("published", [(3,), (3, 6), (2, 3, 5), (3, 5, 9)])
def test_a_publication_between_two_reads_of_maintenance_is_readable(published: tuple[int, ...]) -> None:
    with surroundings():
        rested = 0
        while _rests(rested, published):
            rested += 1
            assert rested < _MOST_STEPS
    assert rested > len(("live cut", "archive's end", "retained", "table", "commit"))
