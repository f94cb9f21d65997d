"""What an append-only reader gets: each row once, when its window is final, and the rows that change later.

A window is final by the platform's own labels (views/kernel/label_windows.py). The rows that a reader has are those whose windows
were final at the watermark up to which it read; that never steps back, also where a rollback shows an earlier watermark.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tandem.serving.memory.answers import rows_at
from tandem.serving.memory.cached_view import CachedView
from tandem.serving.memory.differences import differences, identity
from tandem.serving.memory.layer import whole
from tandem.serving.memory.stack import visible
from tandem.serving.read.row_filter import RowFilter
from tandem.serving.read.touched_rows import TOUCHED
from tandem.views.kernel.label_windows import window_states
from tandem.views.verify.compare import pairs
from tandem.views.view import View


@dataclass(frozen=True)
class Finals:
    """Rows of windows that became final, rows of windows that were final before, and the identity of rows to withdraw."""

    rows: pa.Table
    late: pa.Table
    gone: pa.Table


def finals(before: CachedView, after: CachedView, was: int | None, now: int | None, only: RowFilter) -> Finals:
    """What a reader that has the final rows of `before` at the watermark `was` lacks of those of `after` at `now`."""
    layout = after.layout
    found = differences(before, after, only)
    sent = found.before.filter(_final(layout.view, found.before, was))
    if layout.in_order:
        late, current = None, found.changed.filter(_final(layout.view, found.changed, now))
    else:
        late = found.changed.filter(_final(layout.view, found.changed, was))
        current = whole([late, _newly_final(after, was, now, only)])
    both = pairs(identity(layout), sent, current)
    had, has = both.there
    again = had if late is None else pc.or_(had, _final(layout.view, both.sides[1], was))
    rows = both.sides[1]
    return Finals(
        rows.filter(pc.and_(has, pc.invert(again))),
        rows.filter(pc.and_(has, again)),
        both.sides[0].filter(pc.and_(had, pc.invert(has))).select(identity(layout)),
    )


def _newly_final(held: CachedView, was: int | None, now: int | None, only: RowFilter) -> pa.Table:
    """The rows of windows that are final at one watermark and were not at another."""
    layout, rows = held.layout, [pa.Table.from_batches([], held.layout.kept.append(TOUCHED))]
    for number, layer in enumerate(held.stack if was != now else ()):
        table = layer.answers.table
        fresh = pc.and_not(_final(layout.view, table, now), _final(layout.view, table, was))
        places = np.flatnonzero(fresh.to_numpy(zero_copy_only=False))
        rows.append(only.rows(rows_at(held, number, visible(layout, held.stack, number, places))))
    return whole(rows)


def _final(view: View, rows: pa.Table, watermark: int | None) -> pa.Array:
    """Which rows are of windows that are final at a watermark."""
    return pc.equal(window_states(view, rows, watermark), "final")
