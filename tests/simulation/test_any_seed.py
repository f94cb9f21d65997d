"""Whatever starts, stops, fails and overtakes, in any order: what is merged is what the log holds, and no reader steps back.

`./tandem test -- tests/simulation --seed 17 -n 0 -s` replays the schedule of one seed and prints it.
"""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.simulation.simulation import Simulation, Wrong
from tests.simulation.world import surroundings

SCHEDULES = 2000 if settings().max_examples <= settings.get_profile("tandem").max_examples else 20_000
_TOLD = 5


@pytest.fixture(autouse=True)
def _surrounded() -> Iterator[None]:
    with surroundings():
        yield


def run(seed: int) -> Simulation:
    simulation = Simulation(seed)
    simulation.run()
    return simulation


def test_any_seed_gives_what_the_log_holds(request: pytest.FixtureRequest) -> None:
    seed = request.config.getoption("--seed")
    if seed is not None:
        print("\n".join(run(seed).world.trace))  # noqa: T201  # what was asked for
        return
    wrong: list[Wrong] = []
    for seed in range(SCHEDULES):
        try:
            run(seed)
        except Wrong as error:
            wrong.append(error)
            if len(wrong) == _TOLD:
                break
    seeds = ", ".join(str(error.seed) for error in wrong)
    assert not wrong, f"seeds {seeds} are wrong; --seed replays one\n{wrong[0]}"


def test_a_seed_always_gives_the_same_schedule() -> None:
    for seed in range(10):
        assert run(seed).world.trace == run(seed).world.trace
