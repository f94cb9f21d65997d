"""Two machines write the tables of one object store, and every lease may be lost at any moment: answers stay those of the log.

A waiting process takes a lease from a holder that lives, or stands still for hours. The holder goes on: it retries, reopens its
tables, deletes what it has listed, commits what it has written. What it had to do, others have done meanwhile.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.samples import LONGER
from tests.simulation.named import Named
from tests.simulation.processes import Process
from tests.simulation.simulation import STEPS, Simulation, Wrong
from tests.simulation.standing_still import OF_TWO_MACHINES, stand
from tests.simulation.world import surroundings

SCHEDULES = 4000 if LONGER else 100
_STEPS = 3 * STEPS
_MOST = 2000
_ONE_IN = 1 if LONGER else 80
"""The test pauses a process before one of this many I/O calls, each day before another one."""


class TwoMachines(Simulation):
    """Batch commands above all, and time goes by while they are paused."""

    LOSSY = 0.3
    LEASED = 1.0
    _WEIGHTS = (5, 3, 6, 4, 6, 1, 6, 1.5, 1, 0.5, 0.3)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.weather = self.kept = replace(self.weather, rest=max(self.weather.rest, 0.2))
        self.named = Named(self.world)

    def _judge(self, process: Process) -> None:
        super()._judge(process)
        if process.done:
            self.named.judge()


@pytest.fixture(autouse=True)
def _surrounded() -> Iterator[None]:
    with surroundings():
        yield


def test_lost_leases_paused_holders_and_late_writers_change_no_answer() -> None:
    stopped = 0
    for seed in range(SCHEDULES):
        simulation = TwoMachines(seed)
        try:
            simulation.run(_STEPS)
        except Wrong as error:
            pytest.fail(f"seed {seed} is wrong\n{error}")
        stopped += simulation.stopped["Fenced"] + simulation.stopped["LeaseLost"]
    assert stopped > SCHEDULES // 5, "runs that lost their lease and tried to go on"


def _asked(name: str, meanwhile: str, *, first: int = 0, one_in: int = 1) -> list[str]:
    """Let a run stand still before its I/O calls, one schedule for each; what they were. Raises Wrong."""
    asked = []
    for before in range(first, _MOST, one_in):
        call = stand(name, before, meanwhile, leased=True)
        if call is None:
            return asked
        asked.append(call)
    raise AssertionError(f"{name} does not come to an end")


@pytest.mark.parametrize("meanwhile", OF_TWO_MACHINES)
@pytest.mark.parametrize("name", ["archive", "archive new", "recompute", "recompute full", "apply", "maintain"])
def test_any_run_of_another_machine_between_two_steps_is_harmless(name: str, meanwhile: str) -> None:
    _asked(name, meanwhile, first=datetime.now(UTC).date().toordinal() % _ONE_IN, one_in=_ONE_IN)


def test_no_commit_names_a_file_that_maintain_deletes() -> None:
    """A run was paused for hours after it wrote files, and maintain lists them, whose lease the run has taken."""
    asked = _asked("maintain", "another machine writes files, and hours go by before it commits", one_in=2)
    assert any(call.startswith("vacuum") for call in asked)


def test_files_that_maintain_has_listed_are_never_committed() -> None:
    """Maintain pauses between its list of a paused run's files and their deletion, and the run goes on meanwhile."""
    asked = _asked("archive", "hours later another machine maintains, and pauses before it deletes", one_in=1)
    assert any("commit to" in call and "archive" in call for call in asked), "the files join a table"
