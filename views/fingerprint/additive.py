"""A view that gained measures: its states are those that there are, beside those of the new measures over the same events.

Which events count, and in which windows, hangs on the source, the filter, the keys and the window alone, but for one thing: an
event for which a measure's expression fails, or has a value that the measure cannot take, counts in none of the view's measures.
Where there was no such event, neither then nor now, the rows of both tables are the same, and so are the states of a fold of all
measures at once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, TypeVar

import pyarrow as pa

from views.arrow import arrays
from views.errors import TandemError
from views.sql import engine
from views.sql.engine import quoted
from views.view import View, bind, state_schema

_THERE: Final = "_there"
_NEW: Final = "_new"
_WHATEVER: Final = frozenset[str]({"prepare"})
"""Why events are rejected whatever the measures are."""
_Value = TypeVar("_Value")


class Apart(TandemError):
    """States of different events, which no row of one view can hold."""


def with_measures(view: View, names: Iterable[str]) -> View:
    """The view with some of its measures alone: those of them that have states, or the first that has if none of them does."""
    stored = [measure.name for measure in bind(view).measures if measure.derived is None]
    wanted = set(names)
    chosen = [name for name in stored if name in wanted] or stored[:1]
    kept = {*view.keys, *chosen}

    def of(labels: Mapping[str, _Value]) -> dict[str, _Value]:
        return {name: label for name, label in labels.items() if name in kept}

    measures = {name: view.measures[name] for name in chosen}
    return replace(view, measures=measures, docs=of(view.docs), units=of(view.units), tolerances=of(view.tolerances))


def same_events(before: Mapping[str, int], now: Mapping[str, int]) -> bool:
    """Whether folds of other measures over the same events surely counted the same ones, by what each rejected for what reason.

    As many that were rejected for one reason may be others: one has a value that an old measure cannot take, the other a new one.
    """
    return before == now and before.keys() <= _WHATEVER


def joined(view: View, there: pa.Table, new: pa.Table) -> pa.Table:
    """The view's states, of two tables of states of some of its measures each, merged and settled; `there` has precedence.

    Raises Apart if a row of one has none in the other.
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
            f"{found.num_rows} are of the same keys and window; its batch view, or the events table, is not what it was"
        )
    return arrays.table([arrays.whole(found.column(name)) for name in schema.names], schema)
