"""A warm-up lasts as many publications and as many seconds as the plan says, whatever a contestant's pace."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tandem.bench.peers import freshness
from tandem.bench.peers.rounds import FULL


@pytest.mark.parametrize(
    ("publishes_s", "caught_up_s", "lasts_s"),
    [(0.05, 0, 20), (0.5, 0, 100), (5.0, 0, 110), (0.05, 60, 60)],
    ids=["fast", "slow", "too slow", "with a backlog"],
)
def test_a_warm_up_has_its_publications_and_its_seconds(
    monkeypatch: pytest.MonkeyPatch, publishes_s: float, caught_up_s: float, lasts_s: float
) -> None:
    clock = SimpleNamespace(now=0.0)

    def slept(seconds: float) -> None:
        clock.now += seconds

    monkeypatch.setattr(freshness, "time", SimpleNamespace(time=lambda: clock.now, sleep=slept))
    output: Any = SimpleNamespace(version=lambda: int(clock.now / publishes_s))
    run: Any = SimpleNamespace(process=SimpleNamespace(poll=lambda: None))
    plan = replace(FULL.plan, warm_up=200, warm_up_s=20, warm_up_limit_s=110)
    triggers = freshness._warm_up(output, run, plan, lambda: clock.now < caught_up_s)
    assert clock.now == pytest.approx(lasts_s, abs=0.5)
    assert triggers == pytest.approx(lasts_s / publishes_s, rel=0.05)
