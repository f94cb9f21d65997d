"""Whether an estimate is as near to the exact answer as its measure states.

The stated error of a random sketch holds with a confidence of 95 or 99 %: among a hundred right answers some are beyond
it. Three times it, six standard deviations and more, no one meets by chance.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tandem.views.measures.approx_quantiles import K
from tandem.views.measures.approx_top_k import ROOM

_BY_CHANCE: Final = 3
_WRITTEN: Final = 1e-12
"""DuckDB and Python make the same double of a large decimal but for its last digit."""


def near_number(published: Any, exact: int, error: float) -> bool:
    """Of a number of different values."""
    return published is not None and abs(published - exact) <= _BY_CHANCE * error * max(published, exact)


def ranked(values: Sequence[Any], fractions: Sequence[float]) -> dict[str, float | None]:
    """The smallest value that at least each fraction of all values do not exceed."""
    ordered = sorted(float(value) for value in values)
    return {repr(fraction): _at(ordered, fraction) if ordered else None for fraction in fractions}


def near_ranks(
    published: Mapping[str, float | None] | None, values: Sequence[Any], fractions: Sequence[float], error: float
) -> bool:
    """Of quantiles, by rank: how many values lie below what is published, and how many not above; None is of a missing row."""
    ordered = sorted(float(value) for value in values)
    if published is None:
        return False
    return all(_near_rank(published.get(repr(fraction)), ordered, fraction, error) for fraction in fractions)


def _near_rank(published: float | None, ordered: Sequence[float], fraction: float, error: float) -> bool:
    if published is None or not ordered:
        return published is None and not ordered
    if len(ordered) <= K:
        return math.isclose(published, _at(ordered, fraction), rel_tol=_WRITTEN)
    slack = abs(published) * _WRITTEN
    below = sum(value < published - slack for value in ordered) / len(ordered)
    not_above = sum(value <= published + slack for value in ordered) / len(ordered)
    return below - _BY_CHANCE * error <= fraction <= not_above + _BY_CHANCE * error


def _at(ordered: Sequence[float], fraction: float) -> float:
    return ordered[max(0, math.ceil(fraction * len(ordered)) - 1)]


def most_frequent(values: Sequence[Any], k: int) -> list[dict[str, Any]]:
    """The k most frequent values, each with its number, which is every bound of it."""
    found = sorted(Counter(values).items(), key=lambda one: (-one[1], one[0]))
    return [{"value": value, "estimate": n, "lower": n, "upper": n} for value, n in found[:k]]


def near_counts(published: Sequence[Mapping[str, Any]] | None, values: Sequence[Any], k: int, error: float) -> bool:
    """Of the most frequent values: every bound holds, and none is missing that occurs more often than it may be missing.

    None is of a missing row.
    """
    if published is None:
        return False
    counts = Counter(values)
    if len(counts) <= ROOM:
        return list(published) == most_frequent(values, k)
    allowed = error * len(values)
    listed = {one["value"]: one for one in published}
    held = all(
        one["lower"] <= min(counts[value], one["estimate"]) <= max(counts[value], one["estimate"]) <= one["upper"]
        for value, one in listed.items()
    )
    held = held and all(one["upper"] - one["lower"] <= allowed for one in published)
    least = max(allowed, published[-1]["upper"] if len(published) == k else 0.0)
    return held and len(listed) == len(published) <= k and all(n <= least for value, n in counts.items() if value not in listed)
