"""A layer: whole units of a view, their states and their answers, sorted by hash and window. It never changes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from serving.memory.index import Index, Numbers, spread
from serving.memory.layout import Layout
from views import arrays
from views.kernel import arrange, present_arranged
from views.windows.placement import BOUNDS, COMPLETE


@dataclass(frozen=True, eq=False)
class Rows:
    """A table, each column in one piece, and the index by which it is sorted."""

    table: pa.Table = field(repr=False)
    index: Index

    @cached_property
    def columns(self) -> dict[str, pa.Array]:
        """The columns by name."""
        return {name: arrays.whole(self.table[name]) for name in self.table.column_names}


@dataclass(frozen=True, eq=False)
class Layer:
    """States and answers of the same units. Where a unit is a window they stand row by row, under one index."""

    states: Rows
    answers: Rows

    @cached_property
    def nbytes(self) -> int:
        """The memory that it holds, what both tables share once."""
        columns = (*self.states.columns.values(), *self.answers.columns.values())
        buffers = {buffer.address: buffer.size for column in columns for buffer in column.buffers() if buffer is not None}
        indexes = {id(rows.index): rows.index.nbytes for rows in (self.states, self.answers)}
        return int(sum(buffers.values()) + sum(indexes.values()))


def layer_of(layout: Layout, states: pa.Table) -> Layer:
    """The layer of merged states, which are all there is of their units."""
    if layout.by_window:
        table, index = _sorted(layout, states, starts=True)
        table = _lean(layout, table)
        return Layer(Rows(table, index), Rows(_presented(layout, table), index))
    arranged, index = _sorted(layout, arrange(layout.view, states), starts=True)
    return Layer(Rows(*_sorted(layout, states, starts=False)), Rows(_presented(layout, arranged), index))


def joined(layout: Layout, layers: Sequence[Layer]) -> Layer:
    """Layers of different units as one, none of whose hashes and windows come before those of the layer before."""
    if len(layers) == 1:
        return layers[0]
    table = _lean(layout, whole([layer.states.table for layer in layers]))
    hashes = np.concatenate([layer.states.index.hashes for layer in layers])
    own = _own(layout)
    answers = whole([layer.answers.table.select(own) for layer in layers])
    if layout.by_window:
        index = Index(hashes, layout.starts(table))
        return Layer(Rows(table, index), Rows(_with_shared(layout, table, answers), index))
    index = Index(np.concatenate([layer.answers.index.hashes for layer in layers]), layout.starts(answers))
    return Layer(Rows(table, Index(hashes, None)), Rows(answers, index))


def over(layout: Layout, older: Layer, newer: Layer) -> Layer:
    """Two layers as one: of units that both have, those of the newer."""
    answers = pa.concat_tables([_left(layout, older.answers, newer), newer.answers.table])
    table = pa.concat_tables([_left(layout, older.states, newer), newer.states.table])
    if not layout.by_window:
        return Layer(Rows(*_sorted(layout, table, starts=False)), Rows(*_sorted(layout, answers, starts=True)))
    index, order = _order(layout, table, starts=True)
    table = _lean(layout, _taken(table, order))
    return Layer(Rows(table, index), Rows(_with_shared(layout, table, _taken(answers.select(_own(layout)), order)), index))


def shadowed(layout: Layout, rows: Rows, newer: Layer) -> Numbers:
    """The places of those rows of an older layer that are of units which a newer one has."""
    units = newer.states.index
    if layout.by_window:
        return np.unique(spread(rows.index.find(units.hashes, units.starts)))
    return spread(rows.index.find(np.unique(units.hashes)))


def _left(layout: Layout, rows: Rows, newer: Layer) -> pa.Table:
    left = np.ones(len(rows.index), dtype=bool)
    left[shadowed(layout, rows, newer)] = False
    return _taken(rows.table, np.flatnonzero(left))


def _sorted(layout: Layout, table: pa.Table, *, starts: bool) -> tuple[pa.Table, Index]:
    index, order = _order(layout, table, starts=starts)
    return _taken(table, order), index


def _order(layout: Layout, table: pa.Table, *, starts: bool) -> tuple[Index, Numbers]:
    """The index over a table once it is put in order, and the order: by hash, and with `starts` by window."""
    hashes, times = layout.hashes(table), layout.starts(table) if starts else None
    order = np.argsort(hashes, kind="stable") if times is None else np.lexsort((times, hashes))
    return Index(hashes[order], None if times is None else times[order]), order


def _presented(layout: Layout, arranged: pa.Table) -> pa.Table:
    presented = present_arranged(layout.view, arranged)
    if layout.in_order:
        presented = presented.append_column(COMPLETE, arranged[COMPLETE.name])
    return _with_shared(layout, arranged, presented)


def _lean(layout: Layout, table: pa.Table) -> pa.Table:
    """The same rows, with one array for both bounds of windows where they have none."""
    if layout.timed:
        return table
    nothing = pa.nulls(table.num_rows, BOUNDS[0].type)
    bounds = {column.name for column in BOUNDS}
    columns = [nothing if field.name in bounds else table[field.name] for field in table.schema]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _own(layout: Layout) -> list[str]:
    """The columns of answers that are not columns of states."""
    return [name for name in layout.kept.names if name not in layout.shared]


def _with_shared(layout: Layout, states: pa.Table, answers: pa.Table) -> pa.Table:
    columns = [(states if field.name in layout.shared else answers)[field.name] for field in layout.kept]
    return pa.Table.from_arrays(columns, schema=layout.kept)


def _taken(table: pa.Table, order: Numbers) -> pa.Table:
    """Rows of a table by place, each column in one piece."""
    places = arrays.from_numpy(order, pa.int64())
    return pa.Table.from_arrays([arrays.whole(column.take(places)) for column in table.columns], schema=table.schema)


def whole(tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of all tables, each column in one piece."""
    table = pa.concat_tables(tables)
    return pa.Table.from_arrays([arrays.whole(column) for column in table.columns], schema=table.schema)
