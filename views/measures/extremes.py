"""The smallest and the largest value."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from tandem.views.definition_text import call
from tandem.views.measures.filtered import filtered
from tandem.views.measures.measure import Aggregate, Facts, Measure, State, only
from tandem.views.source.source import Source
from tandem.views.source.value_types import ValueType


@dataclass(frozen=True)
class Extreme:
    """The smallest or the largest value without nulls; null if there was no value.

    Texts (in UTF-8) and bytes are ordered byte by byte; for texts that is the order of their code points.
    """

    facts: ClassVar = Facts(
        merge="one comparison",
        inverse="no",
        source="order",
        varying="one value",
    )

    expression: str
    which: Literal["min", "max"]

    def __str__(self) -> str:
        return call(f"{self.which}imum", self.expression)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The one expression."""
        return (self.expression,)

    def bind(self, types: Sequence[ValueType]) -> Aggregate:
        """Exact, of the expression's type."""
        (value,) = types
        aggregate = f"{self.which}({{0}})"
        state = State(self.which, value.arrow, fold=aggregate, merge=aggregate)
        return Aggregate((state,), value.arrow, value.kind, only)


def minimum(expression: str, *, filter: str | None = None, of: Source | None = None) -> Measure:  # noqa: A002  the word of SQL
    """The smallest value of an expression."""
    return filtered(Extreme(expression, "min"), filter, of)


def maximum(expression: str, *, filter: str | None = None, of: Source | None = None) -> Measure:  # noqa: A002  the word of SQL
    """The largest value of an expression."""
    return filtered(Extreme(expression, "max"), filter, of)
