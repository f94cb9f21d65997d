"""The differences of two snapshots of a view: rows that changed, and rows that no longer exist.

Every change of a view creates a new layer, so only units of layers that one snapshot has and the other has not are compared.
Labels of windows move with time and are not changes; a quantile that another merge estimates differently is one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tandem.serving.memory.answers import rows_at
from tandem.serving.memory.cached_view import CachedView
from tandem.serving.memory.index import spread
from tandem.serving.memory.layer import Layer, MemoryLayout, whole
from tandem.serving.memory.stack import visible
from tandem.serving.read.row_filter import EVERY_ROW, RowFilter
from tandem.serving.read.touched_rows import TOUCHED
from tandem.views.arrow.key_hash import Hashes
from tandem.views.verify.compare import pairs
from tandem.views.view import bind
from tandem.views.windows import WINDOW_COLUMNS
from tandem.views.windows.placement import BOUNDS

PIECE: Final = 1 << 16
"""Keys whose rows are compared at once."""


@dataclass(frozen=True)
class Differences:
    """Rows of the later snapshot, with which are touched, and the identity of rows that no longer exist.

    `before` are the rows of the earlier snapshot that changed or no longer exist. All are in no order, and without labels.
    """

    changed: pa.Table
    gone: pa.Table
    before: pa.Table


def identity(layout: MemoryLayout) -> list[str]:
    """The columns that identify a row of an earlier answer: its key, and its window's start or position in the log."""
    placement = bind(layout.view).placement
    bounds = {column.name for column in BOUNDS}
    own = (
        [column.name for column in placement.columns.answers if column.name not in bounds]
        if layout.in_order
        else [WINDOW_COLUMNS[0]]
    )
    return [*layout.view.keys, *own]


def differences(before: CachedView, after: CachedView, only: RowFilter = EVERY_ROW) -> Differences:
    """How the rows of `after` that a filter takes differ from those of `before`, of views with the same meaning."""
    layout, group = after.layout, identity(after.layout)
    compared = [name for name in layout.kept.names if name not in group and name not in only.left_out]
    changed = [pa.Table.from_batches([], layout.kept.append(TOUCHED))]
    deleted, past = [changed[0].select(group)], [changed[0]]
    for hashes in _keys_of(_alone(before.stack, after.stack)):
        earlier, later = (only.rows(_rows(held, hashes)) for held in (before, after))
        both = pairs(group, earlier, later)
        was, is_ = both.there
        other = pc.and_(is_, pc.invert(was))
        for name in compared:
            other = pc.or_(other, pc.and_(is_, both.unequal(name)))
        changed.append(both.sides[1].filter(other))
        deleted.append(both.sides[0].filter(pc.invert(is_)).select(group))
        past.append(both.sides[0].filter(pc.and_(was, pc.or_(other, pc.invert(is_)))))
    return Differences(whole(changed), whole(deleted), whole(past))


def _alone(one: Sequence[Layer], other: Sequence[Layer]) -> list[Layer]:
    """The layers that only one of two stacks has."""
    ours, theirs = {id(layer) for layer in one}, {id(layer) for layer in other}
    return [layer for layer in (*one, *other) if (id(layer) in ours) != (id(layer) in theirs)]


def _keys_of(layers: Sequence[Layer]) -> Iterator[Hashes]:
    """The hashes of the layers' keys, each once, in pieces."""
    if layers:
        hashes = np.unique(np.concatenate([layer.states.index.hashes for layer in layers]))
        for start in range(0, len(hashes), PIECE):
            yield hashes[start : start + PIECE]


def _rows(held: CachedView, hashes: Hashes) -> pa.Table:
    found = [pa.Table.from_batches([], held.layout.kept.append(TOUCHED))]
    for number, layer in enumerate(held.stack):
        places = visible(held.layout, held.stack, number, spread(layer.answers.index.find(hashes)))
        found.append(rows_at(held, number, places))
    return whole(found)
