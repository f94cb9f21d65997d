"""Nobody gets more than the rate allows, everybody gets all that it allows, and nobody pays for another.

Principals begin requests; networks send invalid tokens.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.serving.access import limits
from tandem.serving.access.limits import Failures, PrincipalLimits, network_of

CALLERS = ("192.0.2.1", "192.0.2.2")


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def requests(clock: Clock) -> Callable[[str], float | None]:
    principals = PrincipalLimits(rate=2, burst=3, concurrent=100, clock=clock)

    def begin(name: str) -> float | None:
        wait = principals.enter(name)
        if wait is None:
            principals.leave(name)
        return wait

    return begin


def invalid_tokens(clock: Clock) -> Callable[[str], float | None]:
    return Failures(rate=2, burst=3, clock=clock).failed


@pytest.mark.parametrize("bounded", [requests, invalid_tokens])
@given(st.lists(st.tuples(st.sampled_from(CALLERS), st.just(0.0) | st.floats(0, 3)), max_size=60))
def test_in_any_period_a_caller_begins_at_most_burst_plus_rate(
    bounded: Callable[[Clock], Callable[[str], float | None]], steps: list[tuple[str, float]]
) -> None:
    clock = Clock()
    begin = bounded(clock)
    begun: dict[str, list[float]] = {name: [] for name in CALLERS}
    for name, later in steps:
        clock.now += later
        wait = begin(name)
        if wait is not None:
            assert 0 < wait <= 0.5
            clock.now += wait + 1e-6
            assert begin(name) is None  # what was told was true
        begun[name].append(clock.now)
    for times in begun.values():
        for first, start in enumerate(times):
            for last in range(first, len(times)):
                assert last - first + 1 <= 3 + 2 * (times[last] - start) + 1e-3


def test_concurrent_requests_are_bounded_and_released() -> None:
    principals = PrincipalLimits(rate=100, burst=100, concurrent=2, clock=Clock())
    assert [principals.enter("a") for _ in range(3)] == [None, None, 1.0]
    assert principals.enter("b") is None
    principals.leave("a")
    assert principals.enter("a") is None


def test_idle_principals_are_forgotten_and_active_ones_are_not() -> None:
    clock = Clock()
    principals = PrincipalLimits(rate=1, burst=1, concurrent=1, clock=clock)
    assert principals.enter("running") is None
    for n in range(10_000):
        principals.enter(f"{n}")
        principals.leave(f"{n}")
    clock.now += 2
    principals.enter("another")
    assert len(principals._uses) <= 2
    assert principals.enter("running") == 1.0


def test_a_network_is_refused_however_many_others_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST", 100)
    failures = Failures(rate=1, burst=1, clock=Clock())
    assert failures.failed("192.0.2.1") is None
    for number in range(300):
        failures.failed(f"2001:db8:{number // 65536:x}:{number % 65536:x}::1")
        if number % 50 == 0:
            assert failures.failed("192.0.2.1") == 1  # it goes on, so it is not the one that is forgotten
    assert len(failures._buckets) == 100


def test_addresses_of_one_customer_are_one_network() -> None:
    assert network_of("2001:db8:1:2:3::4") == network_of("2001:db8:1:2:ffff::1") != network_of("2001:db8:1:3::1")
    assert network_of("::ffff:192.0.2.1") == network_of("192.0.2.1") != network_of("192.0.2.2")
    assert network_of("") == ""
    assert network_of("fe80::1%eth0") == network_of("fe80::2%eth0")
