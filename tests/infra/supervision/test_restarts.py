"""The laws of restarts: pauses double up to a bound, failures in a row end in giving up, a long run resets them."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tandem.infra.settings import SupervisorSettings
from tandem.infra.supervision import restarts
from tandem.infra.supervision.restarts import RestartBounds, RestartState

TERMS = st.builds(
    RestartBounds,
    first_s=st.integers(1, 60),
    longest_s=st.integers(1, 600),
    failures=st.integers(1, 12),
    settled_s=st.integers(1, 600),
)


def up(standing: RestartState, *, now: float) -> RestartState:
    assert restarts.may_start(standing, now=now)
    return restarts.ready(restarts.started(standing, now=now), now=now)


@given(TERMS, st.integers(1, 5000))
def test_pauses_double_up_to_the_bound(terms: RestartBounds, failures: int) -> None:
    here, before = restarts.pause(failures, terms), restarts.pause(failures - 1, terms) if failures > 1 else None
    assert 0 < here <= terms.longest_s
    assert here == min(terms.longest_s, terms.first_s if before is None else 2 * before)


@given(TERMS)
def test_a_part_that_always_fails_is_given_up_after_exactly_the_limit(terms: RestartBounds) -> None:
    standing, now, starts = RestartState(), 0.0, []
    while standing.state != "given up":
        now = max(now, standing.due)
        starts.append(now)
        standing = restarts.failed(restarts.started(standing, now=now), terms, now=now)
    assert len(starts) == terms.failures == standing.failures
    assert [b - a for a, b in pairwise(starts)] == [restarts.pause(n, terms) for n in range(1, terms.failures)]
    assert not restarts.may_start(standing, now=now + 10**9)


@given(TERMS, st.integers(1, 200))
def test_a_part_that_runs_long_each_time_is_never_given_up(terms: RestartBounds, times: int) -> None:
    standing, now = RestartState(), 0.0
    for _ in range(times):
        now = max(now, standing.due)
        standing = up(standing, now=now)
        now += terms.settled_s
        standing = restarts.failed(standing, terms, now=now)
        assert standing.failures == 1
        assert (standing.state == "given up") == (terms.failures == 1)
        if standing.state == "given up":
            return


@given(TERMS, st.lists(st.tuples(st.floats(0, 1000), st.booleans()), max_size=30))
def test_consecutive_failures_are_counted_exactly(terms: RestartBounds, runs: list[tuple[float, bool]]) -> None:
    """Against an oracle: the run lengths, of which the last ones that did not settle are in a row."""
    standing, now, row = RestartState(), 0.0, 0
    for seconds, became_ready in runs:
        now = max(now, standing.due)
        standing = restarts.started(standing, now=now)
        if became_ready:
            standing = restarts.ready(standing, now=now)
        end = now + seconds
        for look in (now, now + seconds / 2, end):  # how often somebody looked meanwhile changes nothing
            standing = restarts.settled(standing, terms, now=look)
        standing = restarts.failed(standing, terms, now=end)
        row = 1 if became_ready and end - now >= terms.settled_s else row + 1
        now = end
        assert standing.failures == row
        if row >= terms.failures:
            assert standing.state == "given up"
            return
        assert (standing.state, standing.due) == ("waiting", now + restarts.pause(row, terms))


def test_a_new_request_retries_only_failed_parts_at_once() -> None:
    terms = RestartBounds(first_s=50, longest_s=50, failures=2, settled_s=10)
    waits = restarts.failed(restarts.started(RestartState(), now=0), terms, now=1)
    gone = restarts.failed(restarts.started(waits, now=60), terms, now=61)
    assert (waits.state, gone.state) == ("waiting", "given up")
    for one in (waits, gone):
        assert restarts.asked(one, at=one.since - 1, now=70) == one
        again = restarts.asked(one, at=65, now=70)
        assert restarts.may_start(again, now=70)
        assert again.failures == 0
        assert restarts.asked(again, at=65, now=71) == again
    runs = up(RestartState(), now=5)
    assert restarts.asked(runs, at=65, now=70) == runs


def test_the_settings_are_used() -> None:
    assert restarts.terms(SupervisorSettings()) == RestartBounds(first_s=1, longest_s=60, failures=5, settled_s=120)
