"""The mean of a number: states are its sum and count, divided once when the answer is presented."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from tandem.views.arrow import arrays
from tandem.views.definition_text import call
from tandem.views.measures.filtered import filtered
from tandem.views.measures.measure import Aggregate, Approximation, Measure, State
from tandem.views.measures.states.sums import DOUBLE_SUMS, SUMS, exact_sums, float_sums, sum_states
from tandem.views.measures.total import number
from tandem.views.source.source import Source
from tandem.views.source.value_types import ValueType

_EXACT_IN_DOUBLE: Final = 2**53


@dataclass(frozen=True)
class Mean:
    """The mean of a number without nulls; null if there was no value.

    Integers and decimals: the double nearest to the true mean. Doubles: as exact as their sum.
    """

    facts: ClassVar = replace(SUMS, inverse="yes", source="sum / count, divided once and rounded once")
    facts_of_doubles: ClassVar = DOUBLE_SUMS

    expression: str

    def __str__(self) -> str:
        return call("mean", self.expression)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The one expression."""
        return (self.expression,)

    def bind(self, types: Sequence[ValueType]) -> Aggregate:
        """A double, from a sum and a count."""
        value = number(types)
        states = (
            *sum_states(value),
            State("count", pa.int64(), fold="count({0})", merge="CAST(sum({0}) AS BIGINT)"),
        )
        if value.kind == "float":
            return Aggregate(states, pa.float64(), "float", _mean_of_doubles, Approximation("order"))
        unit = 10 ** getattr(states[0].type, "scale", 0)
        return Aggregate(states, pa.float64(), "float", lambda columns: _exact_mean(columns, unit))


def mean(expression: str, *, filter: str | None = None, of: Source | None = None) -> Measure:  # noqa: A002  the word of SQL
    """The mean of an expression."""
    return filtered(Mean(expression), filter, of)


def _mean_of_doubles(columns: Sequence[pa.Array]) -> pa.Array:
    *sums, counts = columns
    return float_sums(sums, arrays.integers(counts).astype(np.float64))


def _exact_mean(columns: Sequence[pa.Array], unit: int) -> pa.Array:
    """The sum / (count * unit) rounded once; dividing Python's integers does that at any size."""
    *sums, counts = columns
    divisors = arrays.integers(counts)
    present = divisors > 0
    quotients = np.zeros(len(counts))
    words = arrays.decimal_words(sums[0])
    alone = len(sums) == 1 or sums[1].null_count == len(counts)
    # Integers below 2^53 are exact as doubles, whose division rounds once, too: the usual case, without a loop.
    if alone and int(divisors.max(initial=0)) * unit < _EXACT_IN_DOUBLE and _below(words[present], _EXACT_IN_DOUBLE):
        np.divide(words[:, 0], divisors * float(unit), out=quotients, where=present)
    else:
        for row, total in enumerate(exact_sums(sums)):
            if total is not None:
                quotients[row] = total / (int(divisors[row]) * unit)
    return arrays.from_numpy(quotients, pa.float64(), present)


def _below(words: np.ndarray[tuple[int, int], np.dtype[np.int64]], bound: int) -> bool:
    low, high = words[:, 0], words[:, 1]
    return bool(((high == low >> 63) & (low > -bound) & (low < bound)).all())
