"""Nobody gets more than the rate allows, everybody gets all that it allows, and nobody pays for another."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from tandem.serving.access.limits import PrincipalLimits


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.floats(0, 3)), max_size=60))
def test_in_any_period_a_principal_begins_at_most_burst_plus_rate(steps: list[tuple[str, float]]) -> None:
    clock = Clock()
    limits = PrincipalLimits(rate=2, burst=3, concurrent=100, clock=clock)
    begun: dict[str, list[float]] = {"a": [], "b": []}
    for name, later in steps:
        clock.now += later
        wait = limits.enter(name)
        if wait is None:
            begun[name].append(clock.now)
            limits.leave(name)
        else:
            clock.now += wait + 1e-6
            assert limits.enter(name) is None  # what was told was true
            begun[name].append(clock.now)
            limits.leave(name)
    for times in begun.values():
        for first, start in enumerate(times):
            for last in range(first, len(times)):
                assert last - first + 1 <= 3 + 2 * (times[last] - start) + 1e-3


def test_concurrent_requests_are_bounded_and_released() -> None:
    limits = PrincipalLimits(rate=100, burst=100, concurrent=2, clock=Clock())
    assert [limits.enter("a") for _ in range(3)] == [None, None, 1.0]
    assert limits.enter("b") is None
    limits.leave("a")
    assert limits.enter("a") is None


def test_idle_principals_are_forgotten_and_active_ones_are_not() -> None:
    clock = Clock()
    limits = PrincipalLimits(rate=1, burst=1, concurrent=1, clock=clock)
    assert limits.enter("running") is None
    for n in range(10_000):
        limits.enter(f"{n}")
        limits.leave(f"{n}")
    clock.now += 2
    limits.enter("another")
    assert len(limits._uses) <= 2
    assert limits.enter("running") == 1.0
