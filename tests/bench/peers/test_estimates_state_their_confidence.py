"""A quantile's bounds hold it as often as they say, and a bound that too few values allow is missing."""

import random

import pytest

from tandem.bench.peers.estimates import middle, quantile


def test_the_bounds_hold_the_median_as_often_as_they_say() -> None:
    chance, hits, runs = random.Random(1), 0, 2_000
    for _ in range(runs):
        found = quantile([chance.expovariate(1.0) for _ in range(40)], 0.5, confidence=0.9)
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= 0.6931 <= found.high
    assert 0.89 < hits / runs < 0.97  # order statistics are steps: the true share is 0.92


@pytest.mark.parametrize(("n", "bounded"), [(150, False), (298, False), (299, True), (1_000, True)])
def test_the_99th_percentile_has_an_upper_bound_from_299_values_on(n: int, bounded: bool) -> None:  # noqa: FBT001
    found = quantile([float(value) for value in range(n)], 0.99)
    assert (found.high is not None) == bounded
    assert found.low is not None
    assert found.low < found.value


def test_a_quantile_is_a_value_of_the_sample() -> None:
    values = [float(value) for value in range(1, 101)]
    assert [quantile(values, share).value for share in (0.5, 0.99)] == [50.0, 99.0]
    assert quantile([3.0], 0.99).value == 3.0


def test_few_rounds_are_bounded_by_the_least_and_the_greatest() -> None:
    found = middle([3.0, 1.0, 2.0])
    assert (found.value, found.low, found.high, found.confidence) == (2.0, 1.0, 3.0, 0.75)
    assert middle([5.0]).confidence == 0.0
