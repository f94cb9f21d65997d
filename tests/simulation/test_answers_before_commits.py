"""Whatever a hot tail, batch and speed do between each other's steps: answers before a commit are those of the log there."""

from collections.abc import Iterator

import pytest

from tests.samples import LONGER
from tests.simulation.hot_tails import HotSimulation, hot_surroundings
from tests.simulation.simulation import STEPS, Wrong

SCHEDULES = 5000 if LONGER else 25
_STEPS = 3 * STEPS


@pytest.fixture(autouse=True)
def _surrounded() -> Iterator[None]:
    with hot_surroundings():
        yield


def test_answers_count_the_log_up_to_their_position_and_never_step_back() -> None:
    hot = compared = 0
    for seed in range(SCHEDULES):
        simulation = HotSimulation(seed)
        try:
            simulation.run(_STEPS)
        except Wrong as error:
            pytest.fail(f"seed {seed} is wrong\n{error}")
        hot += simulation.server.hot_answers
        compared += simulation.server.feed.compared
    assert hot > 3 * SCHEDULES, "answers that counted hot commits"
    assert compared > SCHEDULES // 5, "views that the hot tail compared with commits"
