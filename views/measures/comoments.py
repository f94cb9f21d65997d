"""How two numbers vary together: covariance and correlation.

Integers and decimals: the double nearest to the true covariance, from exact power sums, and a correlation whose square is
the double nearest to the true one's. If either is a double, both are taken as doubles, rounded as they are folded and merged.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

import numpy as np
import pyarrow as pa

from tandem.views.arrow import arrays
from tandem.views.definition_text import call
from tandem.views.measures.filtered import filtered
from tandem.views.measures.measure import Aggregate, Approximation, Measure
from tandem.views.measures.moments import quotient
from tandem.views.measures.states.float_moments import COMOMENTS, FLOAT_COMOMENTS, answers, comoments_state, numbers
from tandem.views.measures.states.power_sums import POWER_SUMS, power_sum_states, power_sums, scale_of
from tandem.views.measures.total import number
from tandem.views.source.source import Source
from tandem.views.source.value_types import ValueType

Statistic = Literal["covariance", "correlation"]

_POWERS: Final = ((1, 0), (0, 1), (2, 0), (0, 2), (1, 1))


@dataclass(frozen=True)
class Comoment:
    """A statistic of pairs of numbers; pairs with a null are ignored, and the answer is null where it is not defined.

    With n pairs and means m, o: covariance is sum((x - m) (y - o)) / (n - 1), of the population / n; correlation is
    Pearson's, null where either number does not vary.
    """

    facts: ClassVar = POWER_SUMS
    facts_of_doubles: ClassVar = FLOAT_COMOMENTS

    first: str
    second: str
    statistic: Statistic
    population: bool = False

    def __str__(self) -> str:
        return call(self.statistic, self.first, self.second, population=self.population and self.statistic == "covariance")

    @property
    def inputs(self) -> tuple[str, ...]:
        """The two expressions."""
        return (self.first, self.second)

    def bind(self, types: Sequence[ValueType]) -> Aggregate:
        """A double."""
        values = [number([type_]) for type_ in types]
        if any(value.kind == "float" for value in values):
            return Aggregate((comoments_state(),), pa.float64(), "float", self._of_doubles, Approximation("order"))
        unit = math.prod(map(scale_of, values))
        return Aggregate(power_sum_states(values, _POWERS), pa.float64(), "float", lambda columns: self._exact(columns, unit))

    def _exact(self, columns: Sequence[pa.Array], unit: int) -> pa.Array:
        return arrays.floats([None if sums is None else self._of_sums(sums, unit) for sums in power_sums(columns)])

    def _of_sums(self, sums: tuple[int, ...], unit: int) -> float | None:
        n, x, y, xx, yy, xy = sums
        together = n * xy - x * y
        if self.statistic == "covariance":
            return quotient(together, n * (n - (0 if self.population else 1)) * unit)
        squared = quotient(together**2, (n * xx - x * x) * (n * yy - y * y))
        return None if squared is None else math.copysign(math.sqrt(squared), together)

    def _of_doubles(self, columns: Sequence[pa.Array]) -> pa.Array:
        (column,) = columns
        n, _, _, xx, yy, xy = numbers(column, COMOMENTS).T
        with np.errstate(all="ignore"):
            if self.statistic == "covariance":
                return answers(xy / (n - (0 if self.population else 1)), n >= (1 if self.population else 2))
            return answers(np.clip(xy / np.sqrt(xx) / np.sqrt(yy), -1, 1), n >= 1)


def covariance(
    first: str,
    second: str,
    *,
    population: bool = False,
    filter: str | None = None,  # noqa: A002  the word of SQL
    of: Source | None = None,
) -> Measure:
    """The covariance of two expressions, of a sample unless `population`."""
    return filtered(Comoment(first, second, "covariance", population), filter, of)


def correlation(first: str, second: str, *, filter: str | None = None, of: Source | None = None) -> Measure:  # noqa: A002  the word of SQL
    """Pearson's correlation of two expressions."""
    return filtered(Comoment(first, second, "correlation", population=True), filter, of)
