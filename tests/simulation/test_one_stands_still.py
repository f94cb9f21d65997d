"""Whatever others do between two reads or writes of a process, answers stay right and every loss has a name.

Each command stands still before each of its I/O calls in turn, while others run to their end.
"""

from datetime import UTC, datetime

import pytest

from tests.samples import LONGER, cases
from tests.simulation.standing_still import MEANWHILE, STANDING, first_of_day, stand_at_each
from tests.simulation.world import LOG_CALLS

pytestmark = pytest.mark.usefixtures("surrounded")

_ONE_IN = 1 if LONGER else 200
"""The test pauses a process before one of this many I/O calls, each day before another one."""


def _today() -> int:
    """Another number each day."""
    return datetime.now(UTC).date().toordinal()


@pytest.mark.parametrize("meanwhile", MEANWHILE)
@pytest.mark.parametrize("name", STANDING)
def test_any_run_between_two_steps_of_a_process_is_harmless(name: str, meanwhile: str) -> None:
    first = first_of_day(meanwhile, _ONE_IN, _today())
    stand_at_each(name, meanwhile, first=first, one_in=_ONE_IN)


def test_a_command_with_few_calls_stands_still_on_each_day() -> None:
    few = 16  # retire's; only a reader has fewer
    for day in range(200):
        assert any(first_of_day(meanwhile, 200, day) < few for meanwhile in MEANWHILE), day
        assert len({first_of_day("a cut moves", 200, other) for other in range(day, day + 200)}) == 200


def test_a_cut_stays_a_boundary_while_a_batch_folds_below() -> None:
    one_in = cases(12, bug=5, longer=1)
    first = _today() % one_in
    asked = stand_at_each("recompute", "the archive and the realtime views go on", first=first, one_in=one_in)
    assert one_in > 1 or any("commit to" in call and "realtime" in call for call in asked), "a cut is reserved"


@pytest.mark.each_run("speed")
@pytest.mark.parametrize("name", ["speed", "archive", "archive new"])
def test_no_record_counts_for_an_earlier_topic_of_the_same_name(name: str) -> None:
    """Records are fetched by a topic's name, and positions speak of its id."""
    one_in = cases(3, bug=1, longer=1)
    asked = stand_at_each(name, "the topic is created again, and nobody looks", first=_today() % one_in, one_in=one_in)
    assert one_in > 1 or {*asked} >= LOG_CALLS
