"""The shape of a distribution: variance, standard deviation, skewness and kurtosis.

Integers and decimals: the double nearest to the true answer, from exact power sums. Doubles: central moments, rounded as
they are folded and merged.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

import numpy as np
import pyarrow as pa

from tandem.views.arrow import arrays
from tandem.views.definition_text import call
from tandem.views.measures.filtered import filtered
from tandem.views.measures.measure import Aggregate, Approximation, Measure
from tandem.views.measures.states.float_moments import FLOAT_MOMENTS, MOMENTS, Doubles, answers, moments_state, numbers
from tandem.views.measures.states.power_sums import POWER_SUMS, power_sum_states, power_sums, scale_of
from tandem.views.measures.total import number
from tandem.views.source.source import Source
from tandem.views.source.value_types import ValueType

Statistic = Literal["variance", "stddev", "skewness", "kurtosis"]

_HIGHEST_POWER: Final[dict[Statistic, int]] = {"variance": 2, "stddev": 2, "skewness": 3, "kurtosis": 4}


@dataclass(frozen=True)
class Moment:
    """A statistic of a number without nulls; null where it is not defined.

    With n values, mean m and central moments m_k = sum((x - m)^k) / n: variance is m_2 n / (n - 1), of the population m_2;
    stddev is its root; skewness is m_3 / m_2^1.5 and kurtosis m_4 / m_2^2 - 3, both of the population, as in Spark.
    """

    facts: ClassVar = POWER_SUMS
    facts_of_doubles: ClassVar = FLOAT_MOMENTS

    expression: str
    statistic: Statistic
    population: bool = False

    def __str__(self) -> str:
        return call(self.statistic, self.expression, population=self.population and _HIGHEST_POWER[self.statistic] == 2)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The one expression."""
        return (self.expression,)

    def bind(self, types: Sequence[ValueType]) -> Aggregate:
        """A double."""
        value = number(types)
        if value.kind == "float":
            return Aggregate((moments_state(),), pa.float64(), "float", self._of_doubles, Approximation("order"))
        powers = [(power,) for power in range(1, _HIGHEST_POWER[self.statistic] + 1)]
        scale = scale_of(value)
        return Aggregate(power_sum_states([value], powers), pa.float64(), "float", lambda columns: self._exact(columns, scale))

    def _exact(self, columns: Sequence[pa.Array], scale: int) -> pa.Array:
        statistic = _EXACT[self.statistic]
        values = [None if sums is None else statistic(sums, scale, 0 if self.population else 1) for sums in power_sums(columns)]
        return arrays.floats(values)

    def _of_doubles(self, columns: Sequence[pa.Array]) -> pa.Array:
        (column,) = columns
        n, _, *sums = numbers(column, MOMENTS).T
        least = 1 if self.population or self.statistic in ("skewness", "kurtosis") else 2
        with np.errstate(all="ignore"):
            found = _of_moments(self.statistic, n, sums, 0 if self.population else 1)
        return answers(found, n >= least)


def variance(expression: str, *, population: bool = False, filter: str | None = None, of: Source | None = None) -> Measure:  # noqa: A002  the word of SQL
    """The variance of an expression, of a sample unless `population`."""
    return filtered(Moment(expression, "variance", population), filter, of)


def stddev(expression: str, *, population: bool = False, filter: str | None = None, of: Source | None = None) -> Measure:  # noqa: A002  the word of SQL
    """The standard deviation of an expression, of a sample unless `population`."""
    return filtered(Moment(expression, "stddev", population), filter, of)


def skewness(expression: str, *, filter: str | None = None, of: Source | None = None) -> Measure:  # noqa: A002  the word of SQL
    """The skewness of an expression: 0 for a symmetric distribution, positive for a long tail of large values."""
    return filtered(Moment(expression, "skewness", population=True), filter, of)


def kurtosis(expression: str, *, filter: str | None = None, of: Source | None = None) -> Measure:  # noqa: A002  the word of SQL
    """The excess kurtosis of an expression: how much heavier its tails are than those of a normal distribution."""
    return filtered(Moment(expression, "kurtosis", population=True), filter, of)


def _of_moments(statistic: Statistic, n: Doubles, sums: Sequence[Doubles], less: int) -> Doubles:
    m2, m3, m4 = sums
    if statistic == "skewness":
        return np.sqrt(n) * m3 / m2**1.5
    if statistic == "kurtosis":
        return n * m4 / m2**2 - 3
    spread = m2 / (n - less)
    return np.sqrt(spread) if statistic == "stddev" else spread


# With the sums s_k of the k-th powers, n^k m_k is an integer: what is divided below is exact, and rounded once.


def _exact_variance(sums: tuple[int, ...], scale: int, less: int) -> float | None:
    n, s1, s2 = sums
    return quotient(n * s2 - s1 * s1, n * (n - less) * scale**2)


def _exact_stddev(sums: tuple[int, ...], scale: int, less: int) -> float | None:
    spread = _exact_variance(sums, scale, less)
    return None if spread is None else math.sqrt(spread)


def _exact_skewness(sums: tuple[int, ...], _scale: int, _less: int) -> float | None:
    n, s1, s2, s3 = sums
    m2, m3 = n * s2 - s1**2, n**2 * s3 - 3 * n * s1 * s2 + 2 * s1**3
    squared = quotient(m3**2, m2**3)
    return None if squared is None else math.copysign(math.sqrt(squared), m3)


def _exact_kurtosis(sums: tuple[int, ...], _scale: int, _less: int) -> float | None:
    n, s1, s2, s3, s4 = sums
    m2 = n * s2 - s1**2
    m4 = n**3 * s4 - 4 * n**2 * s1 * s3 + 6 * n * s1**2 * s2 - 3 * s1**4
    return quotient(m4 - 3 * m2**2, m2**2)


def quotient(dividend: int, divisor: int) -> float | None:
    """The double nearest to the quotient; None if there is none."""
    try:
        return dividend / divisor if divisor else None
    except OverflowError:
        return None


_EXACT: Final[dict[Statistic, Callable[[tuple[int, ...], int, int], float | None]]] = {
    "variance": _exact_variance,
    "stddev": _exact_stddev,
    "skewness": _exact_skewness,
    "kurtosis": _exact_kurtosis,
}
