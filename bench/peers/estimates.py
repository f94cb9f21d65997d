"""Medians and percentiles with bounds that assume nothing about how the values are distributed.

Of n independent values the number at or below the q-quantile is binomial(n, q). So an order statistic lies beyond the quantile
with a probability that depends on n and q alone.
Source: https://en.wikipedia.org/wiki/Order_statistic#Confidence_intervals_for_quantiles
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, exp, lgamma, log
from statistics import median
from typing import Final

CONFIDENCE: Final = 0.90
"""With 299 values and more the greatest one is an upper bound of the 99th percentile."""


@dataclass(frozen=True)
class EstimateError:
    """A quantile of n values, and bounds that hold that of the population with this confidence.

    A bound is None if the sample is too small for one.
    """

    value: float
    low: float | None
    high: float | None
    confidence: float
    n: int


def middle(values: Sequence[float]) -> EstimateError:
    """The median of a few values; the bounds are the least and the greatest. Raises ValueError without values."""
    if not values:
        raise ValueError("a median needs values")
    number = len(values)
    return EstimateError(median(values), min(values), max(values), 1 - 2 * 0.5**number, number)


def quantile(values: Sequence[float], share: float, confidence: float = CONFIDENCE) -> EstimateError:
    """The least value at or below which this share, between 0 and 1, of the values is. Raises ValueError without values.

    Each of the two bounds fails in at most half of what the confidence leaves.
    """
    if not values:
        raise ValueError("a quantile needs values")
    ordered, number, left = sorted(values), len(values), (1 - confidence) / 2
    low: float | None = None
    high: float | None = None
    at_most = 0.0
    for below, value in enumerate(ordered):
        # The chance that at most `below` of the values are at or below the quantile, so that this one is above it.
        at_most += _binomial(number, below, share)
        if at_most <= left:
            low = value
        if high is None and at_most >= 1 - left:
            high = value
    return EstimateError(ordered[max(ceil(share * number) - 1, 0)], low, high, confidence, number)


def _binomial(number: int, hits: int, share: float) -> float:
    """The probability of this number of hits; by logarithms, because the coefficients exceed a float's range."""
    chosen = lgamma(number + 1) - lgamma(hits + 1) - lgamma(number - hits + 1)
    return exp(chosen + hits * log(share) + (number - hits) * log(1 - share))
