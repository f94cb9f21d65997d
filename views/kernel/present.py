"""The kernel's present: turns states into answers, and labels their windows (`tandem.views.kernel.label_windows`)."""

from collections import Counter
from dataclasses import replace
from datetime import datetime
from typing import Final

import numpy as np
import pyarrow as pa

from tandem.views.arrow import arrays
from tandem.views.composite.current_rows import OFFSET, PARTITION, VALID_FROM, RowsView, folding
from tandem.views.composite.dated import DatedView, pieces
from tandem.views.instant import microseconds
from tandem.views.kernel.label_windows import window_states
from tandem.views.kernel.merge import regrouped
from tandem.views.kernel.partial import Partial, partial
from tandem.views.source.log_order import GENERATION
from tandem.views.source.offset_ranges import EMPTY
from tandem.views.source.prepare import prepared_schema
from tandem.views.view import View, answer_schema, arranged_schema, bind, group_columns
from tandem.views.windows import Current
from tandem.views.windows.placement import WINDOW_COLUMNS, WINDOW_STATE, Step, timestamp

_PLACE: Final = {VALID_FROM: "time", GENERATION.name: "generation", PARTITION: "partition", OFFSET: "offset"}
"""By column of a table's row, the part of the table's states that has it."""


def present(view: View, merged: Partial, watermark: int | None = None) -> pa.Table:
    """The answer of states: one row per key and window, in no order, with the columns of answer_schema(view).

    The states have to be merged, as `partial` and `merge` return them. `watermark` is the source's watermark at their end,
    in microseconds since 1970, and labels windows; None is before every event.
    """
    return present_arranged(view, arrange(view, merged.states), watermark)


def arrange(view: View, states: pa.Table) -> pa.Table:
    """Merged states as the rows of an answer, one per key and window, with the columns of arranged_schema(view)."""
    if isinstance(view, RowsView):
        return current(view, Partial(states)).states
    step = bind(view).placement.steps.arrange
    if step is not None and isinstance(view, DatedView):
        schema = arranged_schema(view)
        return pa.concat_tables(
            [piece.among(piece.rows(arrange(piece.view, piece.select(states))), schema) for piece in pieces(view)]
        ).combine_chunks()
    return states if step is None else regrouped(view, step, states, arranged_schema(view))


def current(view: View, merged: Partial) -> Partial:
    """A view's own states, of merged ones: of a view of a table's rows these are folded, and those that it rejects count, too."""
    if not isinstance(view, RowsView):
        return merged
    table, inner = view.parent, folding(view)
    arranged = table.window.remaining(merged.states) if isinstance(table.window, Current) else merged.states
    answer = present_arranged(table, arranged)
    state = arrays.whole(arranged[bind(table).measures[0].columns[0]])
    columns = {name: state.field(part) for name, part in _PLACE.items()}
    columns |= {name: answer[name] for name in (*table.keys, *table.measures)}
    schema = prepared_schema(inner.source).append(GENERATION)
    rows = pa.table({name: columns[name] for name in schema.names}).cast(schema)
    folded = partial(inner, rows, EMPTY)
    return replace(merged, states=folded.states, rejected=dict(Counter(merged.rejected) + Counter(folded.rejected)))


def arrange_as_one(view: View, states: pa.Table, start: datetime, end: datetime) -> pa.Table:
    """Merged states of slices in `[start, end)` as one window from start to end, one row per key.

    Of a dated view the range lies in one piece.
    """
    if isinstance(view, DatedView):
        piece = next(piece for piece in reversed(pieces(view)) if piece.start is None or piece.start <= start)
        return piece.among(arrange_as_one(piece.view, piece.select(states), start, end), arranged_schema(view))
    bounds = (timestamp(str(microseconds(bound))) for bound in (start, end))
    step = Step({}, finish=dict(zip(WINDOW_COLUMNS, bounds, strict=True)))
    return regrouped(view, step, states, arranged_schema(view))


def present_arranged(view: View, arranged: pa.Table, watermark: int | None = None) -> pa.Table:
    """The answer of arranged states, or of some of them, at a watermark as `present` takes it."""
    if isinstance(view, DatedView):
        return _of_pieces(view, arranged, watermark)
    columns = {name: arrays.whole(arranged.column(name)) for name in group_columns(view)}
    columns[WINDOW_STATE.name] = window_states(view, arranged, watermark)
    # A derived measure comes after those that it is derived from.
    for measure in sorted(bind(view).measures, key=lambda measure: measure.derived is not None):
        given = [columns[name] for name in measure.reads] or [arrays.whole(arranged.column(name)) for name in measure.columns]
        columns[measure.name] = measure.aggregate.present(given)
    schema = answer_schema(view)
    return arrays.table([columns[name] for name in schema.names], schema)


def _of_pieces(view: View, arranged: pa.Table, watermark: int | None) -> pa.Table:
    """The answers of all pieces, in the order of the rows."""
    schema, starts = answer_schema(view), arrays.integers(arrays.whole(arranged[WINDOW_COLUMNS[0]]))
    times = [microseconds(piece.start) for piece in pieces(view) if piece.start is not None]
    numbers = np.searchsorted(np.array(times, dtype=np.int64), starts, side="right")
    order = np.argsort(numbers, kind="stable")
    answers = []
    for piece in pieces(view):
        rows = arranged.take(arrays.from_numpy(order[numbers[order] == piece.number], pa.int64()))
        answer = present_arranged(piece.view, piece.rename(rows, arranged_schema(piece.view)), watermark)
        answers.append(_with_columns_of(schema, answer))
    return pa.concat_tables(answers).take(arrays.from_numpy(np.argsort(order, kind="stable"), pa.int64())).combine_chunks()


def _with_columns_of(schema: pa.Schema, answer: pa.Table) -> pa.Table:
    """An answer with these columns, NULL where it lacks one."""
    there = answer.column_names
    columns = [answer[field.name] if field.name in there else pa.nulls(answer.num_rows, field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)
