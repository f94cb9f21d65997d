"""Two machines write the tables of one object store, and every lease may be lost at any moment: answers stay those of the log.

A waiting process takes a lease from a holder that lives, or stands still for hours. The holder goes on: it retries, reopens its
tables, deletes what it has listed, commits what it has written. What it had to do, others have done meanwhile.
"""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.samples import LONGER, cases
from tests.simulation.named import Named
from tests.simulation.processes import Process
from tests.simulation.simulation import STEPS, Simulation, Wrong
from tests.simulation.standing_still import OF_TWO_MACHINES, first_of_day, stand_at_each

pytestmark = pytest.mark.usefixtures("surrounded")

SCHEDULES = cases(40, bug=100, longer=4000)
_STEPS = 3 * STEPS
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


@pytest.mark.parametrize("meanwhile", OF_TWO_MACHINES)
@pytest.mark.parametrize("name", ["archive", "archive new", "recompute", "recompute full", "apply", "maintain"])
def test_any_run_of_another_machine_between_two_steps_is_harmless(name: str, meanwhile: str) -> None:
    first = first_of_day(meanwhile, _ONE_IN, datetime.now(UTC).date().toordinal(), leased=True)
    stand_at_each(name, meanwhile, first=first, one_in=_ONE_IN, leased=True)


def test_no_commit_names_a_file_that_maintain_deletes() -> None:
    """A run was paused for hours after it wrote files, and maintain lists them, whose lease the run has taken."""
    one_in = cases(6, bug=2, longer=2)
    first = datetime.now(UTC).date().toordinal() % (one_in - 1)  # every other call from the first on, or a sample of the day
    meanwhile = "another machine writes files, and hours go by before it commits"
    asked = stand_at_each("maintain", meanwhile, first=first, one_in=one_in, leased=True)
    assert one_in > 2 or any(call.startswith("vacuum") for call in asked)


@pytest.mark.slow
def test_files_that_maintain_has_listed_are_never_committed() -> None:
    """Maintain pauses between its list of a paused run's files and their deletion, and the run goes on meanwhile."""
    one_in = cases(3, bug=1, longer=1)
    first = datetime.now(UTC).date().toordinal() % one_in
    meanwhile = "hours later another machine maintains, and pauses before it deletes"
    asked = stand_at_each("archive", meanwhile, first=first, one_in=one_in, leased=True)
    assert one_in > 1 or any("commit to" in call and "archive" in call for call in asked), "the files join a table"
