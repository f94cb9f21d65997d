"""The speed layer of one machine stands still, that of another takes its lease and counts on, and the first one wakes.

It stands still before each of its I/O calls in turn. Whatever it does then, answers are those of the log, and it commits nothing
once the other one has claimed its table.
"""

from collections import Counter
from collections.abc import Iterator

import pytest

from tandem.ledger.delta.one_writer.refuse_other_writers import Fenced
from tandem.ledger.realtime_writer import NewerEpoch
from tests.samples import cases
from tests.simulation import programs
from tests.simulation.processes import Process
from tests.simulation.simulation import Wrong
from tests.simulation.standing_still import Still, base
from tests.simulation.world import Addresses, Present, surroundings

_MOST = 300


@pytest.fixture(autouse=True)
def _surrounded() -> Iterator[None]:
    with surroundings():
        yield


def overtaken(before: int) -> Process | None:
    """The layer that stood still before its I/O call of this number, after its end; None if it has fewer. Raises Wrong."""
    one = Still(0, _has_a_past=False)
    one.world = world = base().copy()
    one.leased, world.tables, world.machines = True, Addresses(leased=True), 1 << 30
    world.store.io = one
    Present.enter(world)
    try:
        one.stands, one.before, one._step_now = "speed", before, 1
        first = one.first = one._start("speed", lambda: one.speed(None), NewerEpoch)
        while not one.asked and not first.done:
            one._resume(first)
        if not one.asked:
            return None
        one.stands, one._step_now = "", 2
        second = one.go("speed")
        assert second.error is None
        counted = programs.commits(world)
        if not first.done:
            one._resume(first)
        new = [commit for commit in programs.commits(world) if commit not in counted]
        assert first.error is None or not new, f"the overtaken layer committed {new}"
        one._settle()
    except AssertionError as error:
        raise Wrong(before, f"{error}, while the layer stood still before `{one.asked}`", world.trace) from error
    return first


def test_an_overtaken_layer_commits_nothing_more_and_answers_stay_those_of_the_log() -> None:
    ended: Counter[str] = Counter()
    for before in range(0, _MOST, cases(3, bug=1, longer=1)):
        layer = overtaken(before)
        if layer is None:
            break
        ended[type(layer.error).__name__] += 1
    assert set(ended) <= {"NoneType", Fenced.__name__, NewerEpoch.__name__}
    assert ended["NewerEpoch"] > sum(ended.values()) // 2, ended
    assert ended["Fenced"], "it stood still before its claim"
