"""A promotion pauses between its last check and its publication while a recompute, a retirement or maintenance runs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest

from tandem.batch.recompute.plan import RecomputeRequest
from tandem.infra.settings import KeepSettings
from tandem.ledger.publish import standing
from tandem.ledger.publish.publications import Publication, Publications
from tests.simulation import programs
from tests.simulation.numbers import MINUTES, SOURCE, Choice, Event
from tests.simulation.programs import Reader
from tests.simulation.simulation import Simulation, Weather
from tests.simulation.world import ROOT, Present, surroundings

PUBLICATIONS = f"{ROOT}/control/publications"


@dataclass
class Directed(Simulation):
    """Processes run to their end one after the other, but where they are told to rest or are killed."""

    LEASED = 0.0
    rests_before: str = ""
    killed_after: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.weather = self.kept = Weather(change_over=0)
        self.world.keep = KeepSettings(publications=1)
        Present.enter(self.world)

    def step(self, what: str) -> None:
        super().step(what)
        if what == self.rests_before:
            self.rests_before = ""
            self.world.schedule.change_over()

    def landed(self, address: str, version: int) -> None:
        super().landed(address, version)
        process = self.world.schedule.current
        if process is not None and address == self.killed_after:
            self.killed_after = ""
            self._kill(process, "killed")

    def whole(self, program: Callable[..., object], *arguments: object) -> None:
        self._at_the_end(lambda: program(self.world, *arguments))

    def count(self, release: int) -> None:
        """More events, then the speed layer up to the log's end, with its upkeep."""

        def which(states: Sequence[Publication]) -> Publication:
            return next(state for state in states if state.release == release)

        world = self.world
        for number in range(6):
            appended = int(world.now().timestamp() * 1_000_000)
            world.log.partitions[number % 2].append(Event(number % MINUTES, 1 + number, appended, world.number()))
        self._at_the_end(
            lambda: programs.speed(world, micro_batches=1, which=which, ahead=lambda _: world.log.end, upkeep_every=1)
        )


@pytest.fixture
def directed() -> Iterator[Directed]:
    """Release 1 is live; release 2 stands at an older cut, for the recompute that moved the live one's did not get to it."""
    with surroundings():
        one = Directed(0, _has_a_past=False)
        one.whole(programs.archive)
        one.count(1)
        one.whole(programs.archive)
        one.whole(programs.recompute, RecomputeRequest())
        one.world.definitions = Choice(fields=0, least=1, names=0).number
        one.whole(programs.apply, 1000)
        for release in (2, 1, 2, 1, 2):
            one.count(release)
        one.count(1)
        one.whole(programs.archive)
        one.killed_after = PUBLICATIONS
        one.whole(programs.recompute, RecomputeRequest())
        yield one


def moved(one: Directed) -> None:
    before = standing.cut_of(one.world.tables, 2, SOURCE)
    one.whole(programs.recompute, RecomputeRequest())
    assert standing.cut_of(one.world.tables, 2, SOURCE) != before


def retired(one: Directed) -> None:
    one.whole(programs.retire, 2)


def replaced(one: Directed) -> None:
    """Other definitions are applied in its place."""
    one.world.definitions = Choice(fields=1, least=1, names=0).number
    one.whole(programs.apply, 1000)


def kept_up(one: Directed) -> None:
    one.count(2)


def maintained(one: Directed) -> None:
    one.whole(programs.maintain)


@pytest.mark.parametrize(
    ("becomes", "upkeep"), [(moved, kept_up), (moved, maintained), (retired, maintained), (replaced, maintained)]
)
def test_every_file_of_a_promoted_release_exists(
    directed: Directed, becomes: Callable[[Directed], None], upkeep: Callable[[Directed], None]
) -> None:
    world = directed.world
    began = standing.cut_of(world.tables, 2, SOURCE)
    directed.rests_before = f"commit to {PUBLICATIONS}"
    promotion = directed._start("promote", lambda: programs.promote(world, 2, 1000))
    becomes(directed)
    upkeep(directed)
    directed._resume(promotion)
    live = Publications(world.tables).latest()
    assert live is not None
    assert (promotion.done, live.kind, live.release, live.cut(SOURCE)) == (True, "promote", 2, began)
    reader = Reader(world)
    assert reader.look() is not None, reader.failure
