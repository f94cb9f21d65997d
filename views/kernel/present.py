"""The kernel's present: turns states into answers."""

from datetime import datetime

import pyarrow as pa

from tandem.views.arrow import arrays
from tandem.views.instant import microseconds
from tandem.views.kernel.merge import regrouped
from tandem.views.kernel.partial import Partial
from tandem.views.kernel.window_states import window_states
from tandem.views.view import View, answer_schema, arranged_schema, bind, group_columns
from tandem.views.windows.placement import WINDOW_COLUMNS, WINDOW_STATE, timestamp
from tandem.views.windows.step import Step


def present(view: View, merged: Partial, watermark: int | None = None) -> pa.Table:
    """The answer of states: one row per key and window, in no order, with the columns of answer_schema(view).

    The states have to be merged, as `partial` and `merge` return them. `watermark` is the source's watermark at their end,
    in microseconds since 1970, and labels windows (tandem.views.kernel.window_states); None is before every event.
    """
    return present_arranged(view, arrange(view, merged.states), watermark)


def arrange(view: View, states: pa.Table) -> pa.Table:
    """Merged states as the rows of an answer, one per key and window, with the columns of arranged_schema(view)."""
    step = bind(view).placement.steps.arrange
    return states if step is None else regrouped(view, step, states, arranged_schema(view))


def arrange_as_one(view: View, states: pa.Table, start: datetime, end: datetime) -> pa.Table:
    """Merged states of slices in `[start, end)` as one window from start to end, one row per key."""
    bounds = (timestamp(str(microseconds(bound))) for bound in (start, end))
    step = Step({}, finish=dict(zip(WINDOW_COLUMNS, bounds, strict=True)))
    return regrouped(view, step, states, arranged_schema(view))


def present_arranged(view: View, arranged: pa.Table, watermark: int | None = None) -> pa.Table:
    """The answer of arranged states, or of some of them, at a watermark as `present` takes it."""
    columns = {name: arrays.whole(arranged.column(name)) for name in group_columns(view)}
    columns[WINDOW_STATE.name] = window_states(view, arranged, watermark)
    # A derived measure comes after those that it is derived from.
    for measure in sorted(bind(view).measures, key=lambda measure: measure.derived is not None):
        given = [columns[name] for name in measure.reads] or [arrays.whole(arranged.column(name)) for name in measure.columns]
        columns[measure.name] = measure.aggregate.present(given)
    schema = answer_schema(view)
    return arrays.table([columns[name] for name in schema.names], schema)
