"""For any schedule of starts, stops and failures, merged answers equal the log, and no reader steps back.

`./tandem test -- tests/simulation --seed 17 -n 0 -s` replays the schedule of one seed and prints it; if it is wrong, the shortest
that is wrong in the same way. `python -m tests.simulation` runs schedules for as long as one likes.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from tandem.infra.folders import ROOT
from tests.samples import cases
from tests.simulation.running import repeated_by
from tests.simulation.shrinking import shrink
from tests.simulation.simulation import Simulation, Wrong
from tests.stack import PYTHONPATH

pytestmark = pytest.mark.usefixtures("surrounded")

_IN_A_ROW = 1000
SCHEDULES = cases(100, bug=600, longer=20_000)
_OF_THE_DAY = 50
_TOLD = 5


def run(seed: int) -> Simulation:
    simulation = Simulation(seed)
    simulation.run()
    return simulation


@pytest.mark.parametrize("least", range(0, SCHEDULES, _IN_A_ROW))
def test_any_seed_gives_the_answers_of_the_log(least: int, request: pytest.FixtureRequest) -> None:
    seed = request.config.getoption("--seed")
    if seed is not None:
        if least == 0:
            shrunk = shrink(seed)
            print(shrunk or "\n".join(run(seed).world.trace))  # noqa: T201  # what was asked for
            assert not shrunk, f"seed {seed} is wrong"
        return
    refuse_wrong(range(least, min(least + _IN_A_ROW, SCHEDULES)))


def test_seeds_of_the_day_give_the_answers_of_the_log(request: pytest.FixtureRequest) -> None:
    """Others each day, beyond those that run every day."""
    if request.config.getoption("--seed") is None:
        first = datetime.now(UTC).date().toordinal() * 1000
        refuse_wrong(range(first, first + _OF_THE_DAY))


def refuse_wrong(seeds: Sequence[int]) -> None:
    """Fail with the commands that repeat the first wrong ones, and the shortest schedule that one of them becomes."""
    wrong: list[Wrong] = []
    for seed in seeds:
        try:
            run(seed)
        except Wrong as error:
            wrong.append(error)
            if len(wrong) == _TOLD:
                break
    commands = "\n".join(map(repeated_by, (error.seed for error in wrong)))
    assert not wrong, f"wrong schedules, each repeated by its command:\n{commands}\n{shrink(wrong[0].seed) or wrong[0]}"


TRACES = """
from tests.simulation.simulation import Simulation
from tests.simulation.world import surroundings

with surroundings():
    for seed in range(4):
        simulation = Simulation(seed)
        simulation.run()
        print(seed, *simulation.world.trace, sep="\\n")
"""


@pytest.mark.slow
def test_a_seed_always_gives_the_same_schedule() -> None:
    """In another process, and whatever order Python gives to sets: so `--seed` shows what went wrong."""
    shown = {
        subprocess.run(
            [sys.executable, "-c", TRACES],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": str(order), "PYTHONPATH": PYTHONPATH},
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        ).stdout
        for order in (1, 2)
    }
    assert len(shown) == 1
    assert len(shown.pop().splitlines()) > 100
