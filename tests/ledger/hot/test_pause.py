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


def test_it_lasts_as_long_as_the_setting_while_the_hot_tail_is_healthy() -> None:
    ended = Waits()
    pause(2.05, healthy=lambda: True, ended=ended, clock=lambda: ended.now)
    assert ended.now == pytest.approx(2.05)


@pytest.mark.parametrize("fails_at", [0.0, 0.75])
def test_it_ends_as_soon_as_the_hot_tail_is_not_healthy(fails_at: float) -> None:
    ended = Waits()
    pause(10, healthy=lambda: ended.now < fails_at, ended=ended, clock=lambda: ended.now)
    assert fails_at <= ended.now <= fails_at + 0.1


def test_it_ends_with_the_query() -> None:
    ended = Waits(sets_at=0.35)
    pause(10, healthy=lambda: True, ended=ended, clock=lambda: ended.now)
    assert ended.now <= 0.45
