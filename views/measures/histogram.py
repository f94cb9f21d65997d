"""How many values lie between edges."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from itertools import pairwise
from typing import ClassVar, Final

import pyarrow as pa

from tandem.views.definition_text import call
from tandem.views.errors import DefinitionError
from tandem.views.measures.filtered import filtered
from tandem.views.measures.measure import Aggregate, Facts, Measure, State
from tandem.views.measures.total import number
from tandem.views.source.source import Source
from tandem.views.source.value_types import ValueType
from tandem.views.value_forms import members

_TOO_LARGE: Final = 10**38
_WIDE: Final = Context(prec=40)


@dataclass(frozen=True)
class Histogram:
    """The number of values below the first edge, in `[edge, next edge)`, and from the last edge on; nulls are ignored."""

    facts: ClassVar = Facts(
        merge="one addition per column",
        inverse="yes",
        source="counting",
    )

    expression: str
    edges: tuple[int | float | Decimal, ...]

    def __post_init__(self) -> None:
        """Raises DefinitionError if the edges are not finite numbers in ascending order."""
        numbers = all(isinstance(edge, int | float | Decimal) and not isinstance(edge, bool) for edge in self.edges)
        if not self.edges or not numbers or not all(low < high for low, high in pairwise((*self.edges, float("inf")))):
            raise DefinitionError(f"edges {self.edges!r} are not numbers in ascending order, such as (10, 100, 1000)")
        if self.edges[0] == float("-inf"):
            raise DefinitionError(f"edges {self.edges!r} begin at minus infinity, and no value is below it")

    def __str__(self) -> str:
        return call("histogram", self.expression, self.edges)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The one expression."""
        return (self.expression,)

    def bind(self, types: Sequence[ValueType]) -> Aggregate:
        """One 64-bit count per interval; the answer is a struct of them, named by their lower edges, the first "<EDGE"."""
        value = number(types)
        below = [_below(edge, value) for edge in self.edges]
        within = [below[0], *(f"NOT ({low}) AND {high}" for low, high in pairwise(below)), f"NOT ({below[-1]})"]
        states = tuple(
            State(f"bucket{place}", pa.int64(), f"count(*) FILTER ({condition})", "CAST(sum({0}) AS BIGINT)")
            for place, condition in enumerate(within)
        )
        names = [f"<{self.edges[0]}", *map(str, self.edges)]
        answer = pa.struct([(name, pa.int64()) for name in names])
        return Aggregate(states, answer, "struct", lambda columns: pa.StructArray.from_arrays(list(columns), names=names))


def histogram(
    expression: str,
    edges: Sequence[int | float | Decimal],
    *,
    filter: str | None = None,  # noqa: A002  the word of SQL
    of: Source | None = None,
) -> Measure:
    """How the values of an expression lie between edges: `histogram("ms", (10, 100, 1000))`."""
    return filtered(Histogram(expression, members("edges", edges, "(10, 100, 1000)")), filter, of)


def _below(edge: float | Decimal, value: ValueType) -> str:
    """SQL for "below the edge", exact in the value's own type: the edge is rounded up to the next value that the type has."""
    if value.kind == "float":
        return f"{{0}} < CAST('{float(edge)!r}' AS DOUBLE)"
    scale = getattr(value.arrow, "scale", 0)
    units = math.ceil(Fraction(str(edge)) * 10**scale)  # 0.1 means one tenth, not the double nearest to it
    if abs(units) >= _TOO_LARGE:
        return f"CASE WHEN {{0}} IS NOT NULL THEN {str(units > 0).lower()} END"
    return f"{{0}} < CAST('{Decimal(units).scaleb(-scale, _WIDE):f}' AS DECIMAL(38, {scale}))"
