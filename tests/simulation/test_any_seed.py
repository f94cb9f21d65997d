"""Whatever starts, stops, fails and overtakes, in any order: what is merged is what the log holds, and no reader steps back.

`./tandem test -- tests/simulation --seed 17 -n 0 -s` replays the schedule of one seed and prints it.
"""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from infra.jars import ROOT
from tests.samples import LONGER
from tests.simulation.simulation import Simulation, Wrong
from tests.simulation.world import surroundings
from tests.stack import PYTHONPATH

_IN_A_ROW = 1000
SCHEDULES = 20_000 if LONGER else 2000
_TOLD = 5


@pytest.fixture(autouse=True)
def _surrounded() -> Iterator[None]:
    with surroundings():
        yield


def run(seed: int) -> Simulation:
    simulation = Simulation(seed)
    simulation.run()
    return simulation


@pytest.mark.parametrize("least", range(0, SCHEDULES, _IN_A_ROW))
def test_any_seed_gives_what_the_log_holds(least: int, request: pytest.FixtureRequest) -> None:
    seed = request.config.getoption("--seed")
    if seed is not None:
        if least == 0:
            print("\n".join(run(seed).world.trace))  # noqa: T201  # what was asked for
        return
    wrong: list[Wrong] = []
    for seed in range(least, least + _IN_A_ROW):
        try:
            run(seed)
        except Wrong as error:
            wrong.append(error)
            if len(wrong) == _TOLD:
                break
    seeds = ", ".join(str(error.seed) for error in wrong)
    assert not wrong, f"seeds {seeds} are wrong; --seed replays one\n{wrong[0]}"


TRACES = """
from tests.simulation.simulation import Simulation
from tests.simulation.world import surroundings

with surroundings():
    for seed in range(10):
        simulation = Simulation(seed)
        simulation.run()
        print(seed, *simulation.world.trace, sep="\\n")
"""


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
