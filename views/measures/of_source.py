"""A measure over the events of one of a view's sources."""

from collections.abc import Sequence
from dataclasses import dataclass

from tandem.views.errors import DefinitionError
from tandem.views.measures.measure import Aggregate, Measure
from tandem.views.source.source import Source
from tandem.views.source.value_types import ValueType


@dataclass(frozen=True)
class OfSource:
    """`measure` over the events of `source` alone, in a view over several sources."""

    measure: Measure
    source: Source

    def __str__(self) -> str:
        inner = str(self.measure)
        return f"{inner[:-1]}{'' if inner.endswith('()') else ', '}of={self.source.name})"

    @property
    def inputs(self) -> tuple[str, ...]:
        """The measure's inputs, over events of the source."""
        return self.measure.inputs

    def bind(self, types: Sequence[ValueType]) -> Aggregate:  # noqa: ARG002  whatever they are
        """Always raises DefinitionError: the part of a view that reads the source has the measure itself."""
        raise DefinitionError(f"has of={self.source.name}, which is for a view over several sources; leave it out")
