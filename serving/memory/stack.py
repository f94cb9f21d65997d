"""A stack of layers, the oldest first: for each unit the newest layer that has it is complete.

New states are merged with the stack's states of their units, and become one more layer. A layer is more than twice as large as
the next, so that a commit costs what it changes, and a lookup reads a handful of layers.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from tandem.serving.memory.index import Numbers, spread
from tandem.serving.memory.layer import Layer, MemoryLayout, SortedRows, joined, layer_of, over, shadowed, whole
from tandem.views.arrow import arrays
from tandem.views.arrow.key_hash import Hashes
from tandem.views.kernel.kernel import merge_states

PIECE: Final = 1 << 17
"""States that are merged and presented at once, of whole units: the peak of memory does not grow with the view."""

Stack = tuple[Layer, ...]


def extended(layout: MemoryLayout, stack: Stack, tables: Iterable[pa.Table], *, below: Stack = ()) -> Stack:
    """The stack with new states on top of its own and of those `below` it; no event is in both.

    The new layer is complete for the units of the new states; layers below the stack do not change. The peak of memory is twice
    the new states, if the tables are produced one by one and the caller keeps none.
    """
    states = whole([pa.Table.from_batches([], layout.states), *tables])
    if not states.num_rows:
        return stack
    found = [_merged(layout, (*below, *stack), piece, units) for piece, units in _pieces(layout, states)]
    del states
    newest = joined(layout, found)
    first, rows = len(stack), newest.states.table.num_rows
    while first and stack[first - 1].states.table.num_rows <= 2 * rows:
        first -= 1
        rows += stack[first].states.table.num_rows
    return (*stack[:first], over(layout, [*stack[first:], newest]) if first < len(stack) else newest)


def visible(layout: MemoryLayout, stack: Stack, number: int, places: Numbers) -> Numbers:
    """Those places of answers in a layer that no newer layer replaces."""
    index = stack[number].answers.index
    for newer in stack[number + 1 :]:
        starts = index.starts[places] if layout.by_window and index.starts is not None else None
        low, high = newer.states.index.find(index.hashes[places], starts)
        places = places[low == high]
    return places


def all_visible(layout: MemoryLayout, stack: Stack, number: int) -> arrays.Mask:
    """For all answers of a layer, whether no newer layer replaces them."""
    rows = stack[number].answers
    seen = np.ones(len(rows.index), dtype=bool)
    for newer in stack[number + 1 :]:
        seen[shadowed(layout, rows, newer)] = False
    return seen


def live_states(layout: MemoryLayout, stack: Stack) -> pa.Table:
    """All states, for each unit from the newest layer that has it; in no order."""
    found = [pa.Table.from_batches([], layout.states)]
    for number, layer in enumerate(stack):
        seen = np.ones(len(layer.states.index), dtype=bool)
        for newer in stack[number + 1 :]:
            seen[shadowed(layout, layer.states, newer)] = False
        found.append(layer.states.table if seen.all() else _at(layer.states, np.flatnonzero(seen)))
    return whole(found)


def states_of_keys(layout: MemoryLayout, stack: Stack, hashes: Hashes) -> pa.Table:
    """The states of all units of some keys, for each unit from the newest layer that has it; in no order."""
    states = [pa.Table.from_batches([], layout.states)]
    if not layout.by_window:
        states += _states_of(stack, hashes, None)
    for number, layer in enumerate(stack if layout.by_window else ()):
        # There states and answers are parallel rows.
        states.append(_at(layer.states, visible(layout, stack, number, spread(layer.states.index.find(hashes)))))
    return whole(states)


def _merged(layout: MemoryLayout, stack: Stack, states: pa.Table, units: tuple[Hashes, Numbers | None]) -> Layer:
    """The layer of some whole units: new states, merged with the stored ones."""
    known = [*_states_of(stack, *units)]
    if layout.by_window and not known and len(units[0]) == states.num_rows:
        return layer_of(layout, states)
    return layer_of(layout, merge_states(layout.view, [*known, states]))


def _states_of(stack: Stack, hashes: Hashes, starts: Numbers | None) -> Iterator[pa.Table]:
    """All states of some units, each from the newest layer that has it."""
    for layer in reversed(stack):
        low, high = layer.states.index.find(hashes, starts)
        there = low < high
        if there.any():
            yield _at(layer.states, spread((low[there], high[there])))
            hashes, starts = hashes[~there], None if starts is None else starts[~there]


def _at(rows: SortedRows, places: Numbers) -> pa.Table:
    return rows.table.take(arrays.from_numpy(places, pa.int64()))


def _pieces(layout: MemoryLayout, states: pa.Table) -> Iterator[tuple[pa.Table, tuple[Hashes, Numbers | None]]]:
    """The states by unit, cut between units into tables of about PIECE rows, each with different units."""
    hashes, starts = layout.hashes(states), layout.starts(states) if layout.by_window else None
    order = np.argsort(hashes, kind="stable") if starts is None else np.lexsort((starts, hashes))
    hashes, starts = hashes[order], None if starts is None else starts[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = hashes[1:] != hashes[:-1]
    if starts is not None:
        new[1:] |= starts[1:] != starts[:-1]
    firsts = np.flatnonzero(new)
    start = 0
    while start < len(order):
        cut = int(np.searchsorted(firsts, start + PIECE))
        end = int(firsts[cut]) if cut < len(firsts) else len(order)
        units = firsts[np.searchsorted(firsts, start) : cut]
        piece = states.take(arrays.from_numpy(order[start:end], pa.int64()))
        yield piece, (hashes[units], None if starts is None else starts[units])
        start = end
