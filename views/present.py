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
    columns = [arrays.whole(states.column(name)) for name in group_columns(view)]
    columns += [
        measure.aggregate.present([arrays.whole(states.column(name)) for name in measure.columns])
        for measure in bind(view).measures
    ]
    return arrays.table(columns, answer_schema(view))
