"""A worker of the speed layer uses the newest state of its release, which may cover records it never read."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tandem.batch.recompute.plan import RecomputeRequest
from tandem.infra.lineage.runs import Reporter
from tandem.infra.settings import KeepSettings
from tandem.ledger.publish import standing
from tandem.ledger.publish.publications import Publications
from tandem.ledger.publish.standing import Followed, StandingReleases
from tandem.speed.process import speed_layer
from tandem.speed.process.speed_layer import _LOOKS_PER_PUBLICATION, _follow_all, _Team
from tandem.speed.progress import ProgressRecorder
from tandem.speed.source.follow import Follow, Surroundings
from tests.simulation import programs
from tests.simulation.numbers import SOURCE, Choice, Event
from tests.simulation.world import Present, World, settings, surroundings

_PATIENCE_S = 60.0


@dataclass
class Layer:
    """A speed layer whose workers follow their releases, without Spark's queries."""

    world: World
    team: _Team

    def look(self) -> int:
        """Look as often as it takes to see a new publication."""
        live = 0
        for _ in range(_LOOKS_PER_PUBLICATION):
            live = self.team.look()
        self.wait_for(*{release for release, _ in self.team._workers})
        return live

    def wait_for(self, *releases: int) -> None:
        """Wait until every source of these releases is followed."""
        until = time.monotonic() + _PATIENCE_S
        while not all(map(self.team.ready, releases)):
            assert time.monotonic() < until, f"not all of releases {releases} are followed"
            time.sleep(0.001)

    def live_of(self, release: int) -> object:
        """The state that the tail of a release's worker goes by."""
        follow: Any = self.team._workers[release, SOURCE]._follow
        return follow.tail.live

    def run(self, *meanwhile: Callable[[], object]) -> list[int]:
        """The releases that the layer was ready for, in order; each of `meanwhile` happens some looks later."""
        looks, ready = 0, []

        def wait(_: float) -> bool:
            """In place of a wait between two looks: whether the layer is to stop."""
            nonlocal looks
            looks += 1
            number, rest = divmod(looks, 3 * _LOOKS_PER_PUBLICATION)
            if rest == 0 and number <= len(meanwhile):
                meanwhile[number - 1]()
            self.wait_for(self.team._live)
            return number > len(meanwhile)

        stop: Any = SimpleNamespace(wait=wait)
        _follow_all(self.team.around, stop, say=self.world.say, ready=lambda: ready.append(self.team._live))
        return ready

    def bridge(self) -> None:
        """Archive new events and publish a batch that covers them; nobody follows the log."""
        world = self.world
        appended = int(world.now().timestamp() * 1_000_000)
        world.log.partitions[0].append(Event(0, 1, appended, world.number()))
        programs.archive(world)
        programs.recompute(world, RecomputeRequest())


@pytest.fixture
def layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Layer]:
    monkeypatch.setattr(Follow, "begin", lambda _: None)
    with surroundings():
        world = World()
        Present.enter(world)
        chosen = settings(world)
        java = SimpleNamespace(lang=SimpleNamespace(System=SimpleNamespace(nanoTime=lambda: 0)))
        context = SimpleNamespace(setLocalProperty=lambda *_: None, _jvm=SimpleNamespace(java=java))
        spark: Any = SimpleNamespace(sparkContext=context)
        recorder = ProgressRecorder(tmp_path, 1, lambda *_: None)
        connection: Any = None
        reporter = Reporter(chosen, now=world.now, warn=world.say)
        around = Surroundings(
            *(spark, chosen, world.tables, connection, tmp_path, "speed", world.now, world.say, reporter, lambda: False, recorder)
        )
        team = _Team(around)
        monkeypatch.setattr(speed_layer, "_Team", lambda _: team)
        one = Layer(world, team)
        one.bridge()
        yield one
        team.stop()


def test_workers_get_the_state_that_a_batch_published(layer: Layer) -> None:
    live = layer.look()
    workers = dict(layer.team._workers)
    for _ in range(3):
        layer.bridge()
        assert layer.look() == live
        assert layer.team._workers == workers, "the same ones go on"
        newest = Publications(layer.world.tables).latest()
        assert newest is not None
        assert layer.live_of(live) == newest, "maxima and watermark below the cut"
        assert layer.team._workers[live, SOURCE].state == newest


def test_every_followed_release_uses_its_own_state(layer: Layer) -> None:
    world = layer.world
    world.keep = KeepSettings(release_days=1)
    world.definitions = Choice(fields=0, least=1, names=0).number
    programs.apply(world, 1000)
    live = layer.look()
    layer.bridge()
    layer.look()
    states = {
        state.release: state for state in Followed(StandingReleases(world.tables), world.keep.release_days).states(world.now())
    }
    assert len(states) == 2
    for release, state in states.items():
        assert layer.live_of(release) == state
        assert state.cut(SOURCE) == standing.cut_of(world.tables, release, SOURCE)
    assert live in states


def test_the_layer_is_ready_once_for_each_release_that_goes_live(layer: Layer) -> None:
    world = layer.world
    world.definitions = Choice(fields=0, least=1, names=0).number
    programs.apply(world, 1000)
    ready = layer.run(
        layer.bridge, lambda: programs.promote(world, 2, 1000), layer.bridge, lambda: programs.promote(world, 1, 1000)
    )
    assert ready == [1, 2, 1]
