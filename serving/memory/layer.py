"""A layer: whole units of a view, their states and their answers, sorted by hash and window. It is immutable.

How the states and answers of a view are stored in memory, and which of them belong together.

The *unit* is what is replaced as a whole when any part of it changes. Where a state is an answer's row and windows are
independent (tumbling, calendar, all time), it is a key and window; else (hopping, sessions, windows in the order of the log) it
is a key with all its windows. A unit is identified by its hash, so two keys with one hash are one unit: they are merged and
presented together, each for itself, and only answers compare keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tandem.serving.memory.index import Index, Numbers, spread
from tandem.views.arrow import arrays
from tandem.views.arrow.key_hash import Hashes, KeyHash
from tandem.views.composite.dated import DatedView
from tandem.views.kernel.kernel import arrange, present_arranged
from tandem.views.measures.measure import only
from tandem.views.view import View, answer_schema, bind, state_schema
from tandem.views.windows import WINDOW_COLUMNS
from tandem.views.windows.placement import BOUNDS, COMPLETE, WINDOW_STATE


@dataclass(frozen=True)
class MemoryLayout:
    """The layout of one view; `seed` is the key of its hashes."""

    view: View
    seed: int = field(repr=False)

    @cached_property
    def hash(self) -> KeyHash:
        """The hash of the view's keys."""
        return KeyHash(self.seed, tuple(self.states.field(name).type for name in self.view.keys))

    @cached_property
    def states(self) -> pa.Schema:
        """The columns of states."""
        return state_schema(self.view)

    @cached_property
    def answer(self) -> pa.Schema:
        """The columns of an answer."""
        return answer_schema(self.view)

    @cached_property
    def kept(self) -> pa.Schema:
        """The columns of answers as stored: with the columns that decide the label instead of the label, which moves with the
        watermark.
        """
        fields = [column for column in self.answer if column.name != WINDOW_STATE.name]
        return pa.schema([*fields, *([COMPLETE] if self.in_order else [])])

    @cached_property
    def in_order(self) -> bool:
        """Whether windows follow the order of the log."""
        return bind(self.view).placement.in_order

    @cached_property
    def timed(self) -> bool:
        """Whether windows have bounds."""
        return bind(self.view).placement.timing.bounded

    @cached_property
    def by_window(self) -> bool:
        """Whether a unit is a key and window, rather than a key with all its windows."""
        placement = bind(self.view).placement
        return placement.independent and placement.steps.arrange is None

    @cached_property
    def sessions(self) -> bool:
        """Whether a state of a window may start anywhere in it."""
        placement = bind(self.view).placement
        return not placement.independent and not placement.in_order

    @cached_property
    def told_apart(self) -> bool:
        """Whether realtime states may be part of some windows of a unit and not of others."""
        return bool(self.view.source.identity) and not self.by_window and not self.in_order

    @cached_property
    def shared(self) -> frozenset[str]:
        """The columns of answers that are columns of states too, and are stored once; only where both have the same rows."""
        if not self.by_window:
            return frozenset()
        dated = isinstance(self.view, DatedView)  # the answer of a row may be NULL, or of another state
        own = {one.name for one in bind(self.view).measures if dated or one.aggregate.present is not only}
        return frozenset(
            column.name
            for column in self.kept
            if column.name not in own and column.name in self.states.names and self.states.field(column.name).type == column.type
        )

    def fits(self, other: "MemoryLayout") -> bool:
        """Whether data stored by this layout fits the other, whose view means the same with other labels."""
        return self.seed == other.seed and self.states.equals(other.states) and self.kept.equals(other.kept)

    def hashes(self, table: pa.Table) -> Hashes:
        """The hash of each row's key."""
        if not self.view.keys:
            return np.full(table.num_rows, self.hash.of_key(()), np.uint64)
        return self.hash.of_columns([arrays.whole(table[name]) for name in self.view.keys])

    def starts(self, table: pa.Table) -> Numbers | None:
        """The start of each row's window, in microseconds; None if windows have no start time."""
        return arrays.integers(arrays.whole(table[WINDOW_COLUMNS[0]])) if self.timed else None


@dataclass(frozen=True, eq=False)
class SortedRows:
    """A table, each column in one chunk, and the index by which it is sorted."""

    table: pa.Table = field(repr=False)
    index: Index

    @cached_property
    def columns(self) -> dict[str, pa.Array]:
        """The columns by name."""
        return {name: arrays.whole(self.table[name]) for name in self.table.column_names}


@dataclass(frozen=True, eq=False)
class Layer:
    """States and answers of the same units. Where a unit is one window, they are parallel rows under one index."""

    states: SortedRows
    answers: SortedRows

    @cached_property
    def nbytes(self) -> int:
        """The bytes of memory that it uses; arrays that both tables share count once."""
        columns = (*self.states.columns.values(), *self.answers.columns.values())
        buffers = {buffer.address: buffer.size for column in columns for buffer in column.buffers() if buffer is not None}
        indexes = {id(rows.index): rows.index.nbytes for rows in (self.states, self.answers)}
        return int(sum(buffers.values()) + sum(indexes.values()))


def layer_of(layout: MemoryLayout, states: pa.Table) -> Layer:
    """The layer of merged states, which are complete for their units."""
    if layout.by_window:
        table, index = _sorted(layout, states, starts=True)
        table = _lean(layout, table)
        return Layer(SortedRows(table, index), SortedRows(_presented(layout, table), index))
    arranged, index = _sorted(layout, arrange(layout.view, states), starts=True)
    return Layer(SortedRows(*_sorted(layout, states, starts=False)), SortedRows(_presented(layout, arranged), index))


def joined(layout: MemoryLayout, layers: Sequence[Layer]) -> Layer:
    """Layers of different units as one; the hashes and windows of each come after those of the one before."""
    if len(layers) == 1:
        return layers[0]
    table = _lean(layout, whole([layer.states.table for layer in layers]))
    hashes = np.concatenate([layer.states.index.hashes for layer in layers])
    own = _own(layout)
    answers = whole([layer.answers.table.select(own) for layer in layers])
    if layout.by_window:
        index = Index(hashes, layout.starts(table))
        return Layer(SortedRows(table, index), SortedRows(_with_shared(layout, table, answers), index))
    index = Index(np.concatenate([layer.answers.index.hashes for layer in layers]), layout.starts(answers))
    return Layer(SortedRows(table, Index(hashes, None)), SortedRows(answers, index))


def over(layout: MemoryLayout, layers: Sequence[Layer]) -> Layer:
    """Layers as one, the oldest first: of each unit, the rows of the newest layer that has it."""
    table = pa.concat_tables([layer.states.table for layer in layers])
    index, order, units = _newest([layer.states.index for layer in layers])
    if layout.by_window:
        table = _lean(layout, _taken(table, order))
        own = pa.concat_tables([layer.answers.table.select(_own(layout)) for layer in layers])
        return Layer(SortedRows(table, index), SortedRows(_with_shared(layout, table, _taken(own, order)), index))
    answers = pa.concat_tables([layer.answers.table for layer in layers])
    hashes, starts, numbers = _together([layer.answers.index for layer in layers])
    places = _by_hash(hashes, starts)
    places = places[numbers[places] == units.layers[np.searchsorted(units.hashes, hashes[places])]]
    return Layer(SortedRows(_taken(table, order), index), SortedRows(_taken(answers, places), _index(hashes, starts, places)))


def shadowed(layout: MemoryLayout, rows: SortedRows, newer: Layer) -> Numbers:
    """The places of rows of an older layer whose units a newer layer has; some more than once."""
    units = newer.states.index
    if layout.by_window:
        return spread(rows.index.find(units.hashes, units.starts))
    return spread(rows.index.find(np.unique(units.hashes)))


class _Units(NamedTuple):
    """Units in order, each once, and for each the number of the newest layer that has it."""

    hashes: Hashes
    layers: Numbers


def _newest(indexes: Sequence[Index]) -> tuple[Index, Numbers, _Units]:
    """Of the rows of all layers, one layer after the other, those that count of each unit: index, places, and the units."""
    hashes, starts, numbers = _together(indexes)
    order = _by_hash(hashes, starts)
    ends = np.ones(len(order), dtype=bool)
    ends[:-1] = np.diff(hashes[order]) != 0
    if starts is not None:
        ends[:-1] |= np.diff(starts[order]) != 0
    # The order is stable, so the last row of a unit is of the newest layer.
    last = np.flatnonzero(ends)
    layers = numbers[order[last]]
    places = order[numbers[order] == np.repeat(layers, np.diff(last, prepend=-1))]
    return _index(hashes, starts, places), places, _Units(hashes[order[last]], layers)


def _together(indexes: Sequence[Index]) -> tuple[Hashes, Numbers | None, Numbers]:
    """The hashes, starts and layers of all rows, one layer after the other."""
    starts = [index.starts for index in indexes if index.starts is not None]
    numbers = np.repeat(np.arange(len(indexes)), [len(index) for index in indexes])
    return np.concatenate([index.hashes for index in indexes]), np.concatenate(starts) if starts else None, numbers


def _sorted(layout: MemoryLayout, table: pa.Table, *, starts: bool) -> tuple[pa.Table, Index]:
    """A table by hash, with `starts` by window too, and its index."""
    hashes, times = layout.hashes(table), layout.starts(table) if starts else None
    order = _by_hash(hashes, times)
    return _taken(table, order), _index(hashes, times, order)


def _by_hash(hashes: Hashes, starts: Numbers | None) -> Numbers:
    """The places of rows by hash, then by start, then as they come."""
    return np.argsort(hashes, kind="stable") if starts is None else np.lexsort((starts, hashes))


def _index(hashes: Hashes, starts: Numbers | None, places: Numbers) -> Index:
    """Over the rows at these places, which are in order."""
    return Index(hashes[places], None if starts is None else starts[places])


def _presented(layout: MemoryLayout, arranged: pa.Table) -> pa.Table:
    presented = present_arranged(layout.view, arranged)
    if layout.in_order:
        presented = presented.append_column(COMPLETE, arranged[COMPLETE.name])
    return _with_shared(layout, arranged, presented)


def _lean(layout: MemoryLayout, table: pa.Table) -> pa.Table:
    """The same rows, with one array for both bounds of windows where they have none."""
    if layout.timed:
        return table
    nothing = pa.nulls(table.num_rows, BOUNDS[0].type)
    bounds = {column.name for column in BOUNDS}
    columns = [nothing if field.name in bounds else table[field.name] for field in table.schema]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _own(layout: MemoryLayout) -> list[str]:
    """The columns of answers that are not columns of states."""
    return [name for name in layout.kept.names if name not in layout.shared]


def _with_shared(layout: MemoryLayout, states: pa.Table, answers: pa.Table) -> pa.Table:
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
