"""A view that gained measures: its existing states are joined with states of the new measures over the same events.

Source, filter, keys and window decide which events count, and in which windows. There is one exception: an event for which a
measure's expression fails, or has a value that the measure cannot take, counts in none of the view's measures. If there was no
such event, then or now, both tables have the same rows, and their states are those that one fold of all measures gives.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, TypeVar

import pyarrow as pa

from tandem.views.arrow import arrays
from tandem.views.errors import TandemError
from tandem.views.sql import engine
from tandem.views.sql.engine import quoted
from tandem.views.view import View, bind, state_schema

_THERE: Final = "_there"
_NEW: Final = "_new"
_WHATEVER: Final = frozenset[str]({"prepare"})
"""Reasons of rejects that do not depend on the measures."""
_Value = TypeVar("_Value")


class Apart(TandemError, code="measures-apart"):
    """The two tables have states of different events, so they cannot be joined."""


def with_measures(view: View, names: Iterable[str]) -> View:
    """The view with only these measures that have states; if none of them has, with the view's first measure that has."""
    stored = [measure.name for measure in bind(view).measures if measure.derived is None]
    wanted = set(names)
    chosen = [name for name in stored if name in wanted] or stored[:1]
    kept = {*view.keys, *chosen}

    def of(labels: Mapping[str, _Value]) -> dict[str, _Value]:
        return {name: label for name, label in labels.items() if name in kept}

    measures = {name: view.measures[name] for name in chosen}
    return replace(view, measures=measures, docs=of(view.docs), units=of(view.units), tolerances=of(view.tolerances))


def same_events(before: Mapping[str, int], now: Mapping[str, int]) -> bool:
    """Whether folds of different measures over the same events certainly counted the same ones, by the rejects of each by reason.

    Equal numbers of rejects for a measure's reason are not enough: an old measure and a new one may have rejected different
    events.
    """
    return before == now and before.keys() <= _WHATEVER


def joined(view: View, there: pa.Table, new: pa.Table) -> pa.Table:
    """The view's states, joined from two tables that each have some of its measures, merged and settled.

    A state that both have is taken from `there`. Raises Apart if a row of one table has no row in the other.
    """
    schema = state_schema(view)
    common = [*view.keys, *(column.name for column in bind(view).placement.columns.states)]
    if not there.num_rows and not new.num_rows:
        return pa.Table.from_batches([], schema=schema)
    chosen = ", ".join(
        f"{quoted(_THERE if name in there.schema.names else _NEW)}.{quoted(name)} AS {quoted(name)}" for name in schema.names
    )
    same = " AND ".join(f"{quoted(_THERE)}.{quoted(name)} IS NOT DISTINCT FROM {quoted(_NEW)}.{quoted(name)}" for name in common)
    found = engine.query(f"SELECT {chosen} FROM {_THERE} JOIN {_NEW} ON {same or 'true'}", {_THERE: there, _NEW: new})
    if not found.num_rows == there.num_rows == new.num_rows:
        raise Apart(
            f"view {view.name!r}: of {there.num_rows} rows that were published and {new.num_rows} of its new measures only "
            f"{found.num_rows} are of the same keys and window; its batch view or the events table has changed"
        )
    return arrays.table([arrays.whole(found.column(name)) for name in schema.names], schema)
