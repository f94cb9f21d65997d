"""A measure over those events of a view that meet a condition."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tandem.views.definition_text import literal
from tandem.views.measures.measure import Aggregate, Measure
from tandem.views.measures.of_source import OfSource
from tandem.views.source.source import Source
from tandem.views.source.value_types import ValueType
from tandem.views.sql.syntax import enclosed


@dataclass(frozen=True)
class Filtered:
    """`measure` over the events for which `filter` is true; its expressions are not evaluated for other events."""

    measure: Measure
    filter: str

    def __str__(self) -> str:
        inner, condition = str(self.measure), literal(self.filter)
        if hasattr(self.measure, "filtered"):  # a project's own is not a call with such an option
            return f"{inner}.filtered({condition})"
        return f"{inner[:-1]}{'' if inner.endswith('()') else ', '}filter={condition})"

    @property
    def inputs(self) -> tuple[str, ...]:
        """The filter, then the measure's inputs, which are null where the filter is not true: every measure ignores nulls."""
        guarded = (f"CASE WHEN {enclosed(self.filter)} THEN {enclosed(text)} END" for text in self.measure.inputs)
        return (self.filter, *guarded)

    def bind(self, types: Sequence[ValueType]) -> Aggregate:
        """The measure's aggregate over the filtered inputs. Raises DefinitionError if the filter is not a condition."""
        values = types[1:]
        aggregate = self.measure.bind(values)
        # The filter is the first input, so the measure's first one is the second here.
        shifted = [f"{{{number}}}" for number in range(1, len(types))]
        # A measure without inputs counts events, so no null would leave an event out.
        only_where = "" if values else " FILTER ({0})"
        states = tuple(replace(state, fold=state.fold.format(*shifted) + only_where) for state in aggregate.states)
        return replace(aggregate, states=states)


def filtered(measure: Measure, filter_: str | None, of: Source | None = None) -> Measure:
    """The measure, over the events for which the filter is true if there is one, and of that source alone if one is named."""
    over = measure if filter_ is None else Filtered(measure, filter_)
    return over if of is None else OfSource(over, of)


def bare(measure: Measure) -> Measure:
    """The measure without its filter and its source."""
    while isinstance(measure, Filtered | OfSource):
        measure = measure.measure
    return measure
