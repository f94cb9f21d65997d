"""The kernel's present: states to answers."""

import pyarrow as pa

from views import arrays
from views.partial import Partial
from views.view import View, answer_schema, bind, group_columns


def present(view: View, merged: Partial) -> pa.Table:
    """What the states say: one row per key and window, in no order, as answer_schema(view) says.

    Each key and window has to stand in one row, as `partial` and `merge` leave it.
    """
    return present_states(view, merged.states)


def present_states(view: View, states: pa.Table) -> pa.Table:
    """The same for a table of states, such as the few rows that a lookup found."""
    columns = {name: arrays.whole(states.column(name)) for name in group_columns(view)}
    # What is derived comes after what it is derived from.
    for measure in sorted(bind(view).measures, key=lambda measure: measure.derived is not None):
        given = [columns[name] for name in measure.reads] or [arrays.whole(states.column(name)) for name in measure.columns]
        columns[measure.name] = measure.aggregate.present(given)
    schema = answer_schema(view)
    return arrays.table([columns[name] for name in schema.names], schema)
