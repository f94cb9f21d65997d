"""The sum of a number over events."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import pyarrow as pa

from tandem.views.arrow import arrays
from tandem.views.definition_text import call
from tandem.views.errors import DefinitionError
from tandem.views.measures.filtered import filtered
from tandem.views.measures.measure import Aggregate, Approximation, Measure, only
from tandem.views.measures.states.sums import DOUBLE_SUMS, SUMS, exact_sums, float_sums, sum_states
from tandem.views.source.source import Source
from tandem.views.source.value_types import ValueType

_WIDE_DIGITS: Final = 76


@dataclass(frozen=True)
class Total:
    """The sum of a number without nulls; null if there was no value, as in SQL.

    Integers and decimals: exact at any size. Doubles: rounded at each addition, in no fixed order; null where the sum
    overflows a double.
    """

    facts: ClassVar = SUMS
    facts_of_doubles: ClassVar = DOUBLE_SUMS

    expression: str

    def __str__(self) -> str:
        return call("total", self.expression)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The one expression."""
        return (self.expression,)

    def bind(self, types: Sequence[ValueType]) -> Aggregate:
        """Integers give decimal128(38, 0), or decimal256(76, 0) if they have more than 64 bits; decimals keep their scale."""
        value = number(types)
        states = sum_states(value)
        if value.kind == "float":
            return Aggregate(states, pa.float64(), "float", float_sums, Approximation("order"))
        if len(states) == 1:
            return Aggregate(states, states[0].type, value.kind, only)
        wide = pa.decimal256(_WIDE_DIGITS, states[0].type.scale)
        return Aggregate(states, wide, value.kind, lambda columns: arrays.decimals(exact_sums(columns), wide))


def number(types: Sequence[ValueType]) -> ValueType:
    """The one input's type. Raises DefinitionError if it is not a number."""
    (value,) = types
    if not value.number:
        raise DefinitionError(f"is of type {value.sql}; this measure takes numbers")
    return value


def total(expression: str, *, filter: str | None = None, of: Source | None = None) -> Measure:  # noqa: A002  the word of SQL
    """The sum of an expression."""
    return filtered(Total(expression), filter, of)
