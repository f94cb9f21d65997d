"""Micro-batches are rarer only while a hot tail is healthy, and never by more than the setting."""

from dataclasses import dataclass, field
from threading import Event

import pytest

from tandem.ledger.hot.report import pause


@dataclass
class Waits(Event):
    """An event whose waits take the time of a clock that they move; `sets_at` is when it is set."""

    now: float = 0.0
    sets_at: float = float("inf")
    waits: list[float] = field(default_factory=list)

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.now += timeout
        self.waits.append(timeout)
        return self.now >= self.sets_at


@pytest.mark.parametrize(
    ("longest", "fails_at", "sets_at", "low", "high"),
    [
        pytest.param(2.05, 99, 99, 2.05, 2.05, id="as long as the setting while the hot tail is healthy"),
        pytest.param(10, 0, 99, 0, 0.1, id="not at all while it is not"),
        pytest.param(10, 0.75, 99, 0.75, 0.85, id="until it is not"),
        pytest.param(10, 99, 0.35, 0.35, 0.45, id="until the query ends"),
    ],
)
def test_it_lasts_while_the_hot_tail_is_healthy_and_the_query_runs(
    longest: float, fails_at: float, sets_at: float, low: float, high: float
) -> None:
    ended = Waits(sets_at=sets_at)
    pause(longest, healthy=lambda: ended.now < fails_at, ended=ended, clock=lambda: ended.now)
    assert low - 1e-9 <= ended.now <= high + 1e-9
