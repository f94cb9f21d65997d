"""Invalid tokens of a network are bounded in any stretch of time, one network costs no other, and little is remembered."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from tandem.serving.access.invalid_tokens import MOST, Failures, network_of


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@given(st.lists(st.tuples(st.sampled_from(["192.0.2.1", "192.0.2.2"]), st.floats(0, 2)), max_size=60))
def test_in_any_period_a_network_fails_at_most_burst_plus_rate(steps: list[tuple[str, float]]) -> None:
    clock = Clock()
    failures = Failures(rate=2, burst=3, clock=clock)
    seen: dict[str, list[float]] = {"192.0.2.1": [], "192.0.2.2": []}
    for address, later in steps:
        clock.now += later
        wait = failures.failed(address)
        if wait is None:
            seen[address].append(clock.now)
        else:
            assert 0 < wait <= 0.5
            clock.now += wait + 1e-6
            assert failures.failed(address) is None  # what was told was true
            seen[address].append(clock.now)
    for times in seen.values():
        for first, start in enumerate(times):
            for last in range(first, len(times)):
                assert last - first + 1 <= 3 + 2 * (times[last] - start) + 1e-3


def test_a_network_is_refused_however_many_others_fail() -> None:
    failures = Failures(rate=1, burst=1, clock=Clock())
    assert failures.failed("192.0.2.1") is None
    for number in range(3 * MOST):
        failures.failed(f"2001:db8:{number // 65536:x}:{number % 65536:x}::1")
        if number % (MOST // 2) == 0:
            assert failures.failed("192.0.2.1") == 1  # it goes on, so it is not the one that is forgotten
    assert len(failures._buckets) == MOST


def test_addresses_of_one_customer_are_one_network() -> None:
    assert network_of("2001:db8:1:2:3::4") == network_of("2001:db8:1:2:ffff::1") != network_of("2001:db8:1:3::1")
    assert network_of("::ffff:192.0.2.1") == network_of("192.0.2.1") != network_of("192.0.2.2")
    assert network_of("") == ""
    assert network_of("fe80::1%eth0") == network_of("fe80::2%eth0")
