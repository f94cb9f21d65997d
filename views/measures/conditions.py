"""Whether a condition held for any event, or for all."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import pyarrow as pa

from tandem.views.definition_text import call
from tandem.views.errors import DefinitionError
from tandem.views.measures.filtered import filtered
from tandem.views.measures.measure import Aggregate, Facts, Measure, State, only
from tandem.views.source.source import Source
from tandem.views.source.value_types import ValueType


@dataclass(frozen=True)
class FilterCondition:
    """Whether the condition was true at least once, or never false; nulls are ignored, and no value gives null."""

    facts: ClassVar = Facts(
        merge="one boolean operation",
        inverse="no",
        source="boolean algebra",
    )

    expression: str
    which: Literal["or", "and"]

    def __str__(self) -> str:
        return call("bool_or" if self.which == "or" else "bool_and", self.expression)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The one expression."""
        return (self.expression,)

    def bind(self, types: Sequence[ValueType]) -> Aggregate:
        """Exact, a boolean. Raises DefinitionError for an expression of another type."""
        (value,) = types
        if value.kind != "boolean":
            raise DefinitionError(f"is of type {value.sql}; this measure takes conditions")
        state = State(self.which, pa.bool_(), fold=f"bool_{self.which}({{0}})", merge=f"bool_{self.which}({{0}})")
        return Aggregate((state,), pa.bool_(), "boolean", only)


def bool_or(expression: str, *, filter: str | None = None, of: Source | None = None) -> Measure:  # noqa: A002  the word of SQL
    """Whether a condition held for at least one event."""
    return filtered(FilterCondition(expression, "or"), filter, of)


def bool_and(expression: str, *, filter: str | None = None, of: Source | None = None) -> Measure:  # noqa: A002
    """Whether a condition held for every event."""
    return filtered(FilterCondition(expression, "and"), filter, of)
