"""A view whose expressions are checked and typed."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from tandem.views.lookup.lookup import BoundLookup, reading_events
from tandem.views.measures.measure import Aggregate, State
from tandem.views.sql.expressions import Expression
from tandem.views.windows.placement import Placement


@dataclass(frozen=True)
class BoundMeasure:
    """A measure of a bound view: its aggregate, its inputs and the names of its state columns.

    A derived measure has no inputs and states, but an expression over the answers of the measures in `reads`.
    """

    name: str
    aggregate: Aggregate
    inputs: tuple[Expression, ...] = ()
    columns: tuple[str, ...] = ()
    derived: Expression | None = None

    @property
    def reads(self) -> tuple[str, ...]:
        """The measures that it is derived from, in order of name."""
        return () if self.derived is None else tuple(sorted(self.derived.fields))

    @property
    def states(self) -> Iterator[tuple[str, State]]:
        """The state columns' names with their states."""
        return zip(self.columns, self.aggregate.states, strict=True)


@dataclass(frozen=True)
class BoundView:
    """A view whose every expression is checked and typed; `earlier` are state columns of earlier definitions alone.

    `lookups_of_filter` are the names of the look-ups that the filter reads, and of those by which these find their rows.
    `lookups_of_rows` decide which events count, and in which row: they reject, or filter, keys or window read them.
    """

    keys: tuple[tuple[str, Expression], ...]
    where: Expression | None
    measures: tuple[BoundMeasure, ...]
    placement: Placement
    window_inputs: tuple[Expression, ...] = ()
    earlier: tuple[tuple[str, pa.DataType], ...] = ()
    lookups: tuple[BoundLookup, ...] = ()
    lookups_of_filter: frozenset[str] = frozenset()
    lookups_of_rows: frozenset[str] = frozenset()

    @property
    def states(self) -> list[tuple[str, pa.DataType]]:
        """The names and types of all columns of states."""
        return [*((name, state.type) for measure in self.measures for name, state in measure.states), *self.earlier]

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The expressions of keys, look-ups, window and measures, equal ones once."""
        used = [expression for _, expression in self.keys]
        used += [reading_events(key, self.lookups) for lookup in self.lookups for key in lookup.keys]
        used += self.window_inputs
        used += [expression for measure in self.measures for expression in measure.inputs]
        return tuple({expression.canonical: expression for expression in used}.values())
