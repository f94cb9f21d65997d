"""No command deletes a table, batch version or file that a publication or release names and a reader may need.

Schedules of apply, promote, rollback, retire, recompute and maintain, over definitions whose events gain fields and whose views
are renamed, so that releases share tables under several names.
"""

from dataclasses import replace
from datetime import timedelta

import pytest

from tandem.infra.settings import KeepSettings
from tests.samples import cases
from tests.simulation import programs
from tests.simulation.named import Named
from tests.simulation.numbers import FIELDS, LEAST, NAMES, Choice
from tests.simulation.processes import Process
from tests.simulation.simulation import STEPS, Simulation, Wrong

pytestmark = pytest.mark.usefixtures("surrounded")

SCHEDULES = cases(8, bug=40, longer=1000)
_STEPS = 8 * STEPS


class Evolving(Simulation):
    """Definitions change all the time, and little else happens."""

    LOSSY = 0.0
    _WEIGHTS = (3, 6, 2, 3, 4, 1, 3, 4, 4, 2, 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.world.keep = KeepSettings(publications=self.roll.choice((1, 2)), release_days=self.roll.choice((0, 1)))
        self.weather = self.kept = replace(self.weather, change_over=0.02)
        self.named = Named(self.world)

    def _edit(self) -> None:
        roll, now = self.roll, Choice.of(self.world.definitions)
        fields = min(now.fields + (roll.random() < 0.4), len(FIELDS) - 1)
        least = roll.randrange(len(LEAST)) if roll.random() < 0.1 else now.least
        names = roll.randrange(len(NAMES)) if roll.random() < 0.5 else now.names
        self.world.definitions = Choice(fields, least, names).number

    def _judge(self, process: Process) -> None:
        super()._judge(process)
        if process.done:
            self.named.judge()

    def _settle(self) -> None:
        super()._settle()
        self.world.time += timedelta(days=30)
        self._at_the_end(lambda: programs.maintain(self.world))
        self.named.judge_left()


def test_files_that_may_still_be_read_exist() -> None:
    sharing = 0
    for seed in range(SCHEDULES):
        simulation = Evolving(seed)
        try:
            simulation.run(_STEPS)
        except Wrong as error:
            pytest.fail(f"seed {seed} is wrong\n{error}")
        sharing += bool(simulation.named.shared)
    assert sharing > SCHEDULES // 4, "schedules in which a view has a table that was made under another name"
