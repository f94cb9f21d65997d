"""Whatever others do between two reads or writes of a process, answers stay right and every loss has a name.

Each command stands still before each of its I/O calls in turn, while others run to their end.
"""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tests.samples import LONGER
from tests.simulation.standing_still import MEANWHILE, STANDING, stand
from tests.simulation.world import LOG_CALLS, surroundings

_ONE_IN = 1 if LONGER else 80
"""The test pauses a process before one of this many I/O calls, each day before another one."""
_MOST = 2000


@pytest.fixture(autouse=True)
def _surrounded() -> Iterator[None]:
    with surroundings():
        yield


def _asked(name: str, meanwhile: str, *, first: int = 0, one_in: int = 1) -> list[str]:
    """Let a command stand still before its I/O calls, one schedule for each; what they were. Raises Wrong."""
    asked = []
    for before in range(first, _MOST, one_in):
        call = stand(name, before, meanwhile)
        if call is None:
            return asked
        asked.append(call)
    raise AssertionError(f"{name} does not come to an end")


@pytest.mark.parametrize("meanwhile", MEANWHILE)
@pytest.mark.parametrize("name", STANDING)
def test_any_run_between_two_steps_of_a_process_is_harmless(name: str, meanwhile: str) -> None:
    _asked(name, meanwhile, first=datetime.now(UTC).date().toordinal() % _ONE_IN, one_in=_ONE_IN)


def test_a_cut_stays_a_boundary_while_a_batch_folds_below() -> None:
    one_in = 1 if LONGER else 5
    first = datetime.now(UTC).date().toordinal() % one_in
    asked = _asked("recompute", "the archive and the realtime views go on", first=first, one_in=one_in)
    assert one_in > 1 or any("commit to" in call and "realtime" in call for call in asked), "a cut is reserved"


@pytest.mark.parametrize("name", ["speed", "archive", "archive new"])
def test_no_record_counts_for_an_earlier_topic_of_the_same_name(name: str) -> None:
    """Records are fetched by a topic's name, and positions speak of its id."""
    asked = _asked(name, "the topic is created again, and nobody looks")
    assert {*asked} >= LOG_CALLS
