"""The polls of a process of sinks: each of them costs requests of an object store."""

import time
from contextlib import closing

import pytest

from tandem.serving.connection import EVERY_S, Connection
from tandem.serving.memory.store import Store
from tandem.serving.sinks.polls import SinkPolls
from tests.serving.world import World


@pytest.mark.parametrize("which", ["cold", "hot"])
@pytest.mark.parametrize(("every_s", "polled"), [(EVERY_S, [True, True, True]), (5.0, [True, False, False])])
def test_tables_are_polled_no_sooner_than_is_set(
    world: World, monkeypatch: pytest.MonkeyPatch, which: str, every_s: float, polled: list[bool]
) -> None:
    seconds = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: seconds)
    with closing(SinkPolls(**{which: Connection(Store(world.tables, 1))}, every_s=every_s)) as of_sinks:  # type: ignore[arg-type]
        found = []
        for _ in polled:
            of_sinks._woken.set()  # as by a hot commit: nothing waits until a poll is due
            found.append(of_sinks.wait())
            seconds += 1.0
    assert found == polled
