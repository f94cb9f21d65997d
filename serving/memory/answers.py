"""Answers from a view in memory: one row in microseconds, the rows of many keys, or all rows of a selection.

They equal `present(merge(...))`, which the layers store. Only the labels of windows are computed for each answer, because the
watermark moves with every commit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tandem.serving.memory.cached_view import CachedView
from tandem.serving.memory.index import Numbers, spread
from tandem.serving.memory.layer import Layer, SortedRows, whole
from tandem.serving.memory.stack import all_visible, live_states, visible
from tandem.serving.read.selection import Selection
from tandem.serving.read.touched_rows import TOUCHED
from tandem.views.arrow import arrays, python_values
from tandem.views.exactness import MARK, Name
from tandem.views.kernel.label_windows import window_state, window_states
from tandem.views.kernel.present import arrange, present_arranged
from tandem.views.kernel.rows import ordered, time_text, writer
from tandem.views.source.watermark import final_until
from tandem.views.view import bind
from tandem.views.windows.placement import COMPLETE, WINDOW_COLUMNS, WINDOW_STATE

Row = dict[str, Any]
Key = tuple[Any, ...]
"""The values of all keys of a view, in its order, as Arrow returns them in Python."""

_ROW = "_row"
_WRITTEN = frozenset({pa.string(), pa.int64(), pa.bool_()})
"""Types whose values rows have as Arrow returns them in Python."""
_written_time = lru_cache(maxsize=1 << 16)(time_text)


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers of a view at a watermark, in microseconds since 1970; None is before every event.

    `marks` are the reasons of rows that realtime states are part of, or that late versions of tables touch.
    """

    held: CachedView
    watermark: int | None
    marks: Sequence[Name] = ()
    _readers: tuple["_AnswerReader", ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        view = self.held.layout.view
        final = None if self.watermark is None else final_until(view.source, self.watermark, bind(view).placement.timing.grace)
        first = len(self.held.below)
        readers = [
            _AnswerReader(self.held, layer, self.watermark, final, self.marks, above=number >= first)
            for number, layer in enumerate(self.held.stack)
        ]
        object.__setattr__(self, "_readers", tuple(reversed(readers)))

    def row(self, key: Key, start: int | None) -> Row | None:
        """The row of a key and of the window that starts then, in microseconds, as `query --json` prints it; None if there is
        none.

        `start` is None where windows have no bounds.
        """
        layout = self.held.layout
        found = layout.hash.of_key(key)
        for reader in self._readers:
            low, high = reader.rows_at(found, start)
            for place in range(low, high):
                if reader.key(place) == key:
                    return reader.row(place)
            if low < high or (not layout.by_window and reader.knows(found)):
                return None
        return None

    def of_keys(self, keys: Sequence[Key]) -> "Labelled":
        """The rows of all windows of some keys, in the order of an answer."""
        layout, view = self.held.layout, self.held.layout.view
        columns = [
            python_values.array(list(values), arrow)
            for values, arrow in zip(zip(*keys, strict=True), layout.hash.types, strict=True)
        ]
        asked = pa.Table.from_arrays(columns, names=[*view.keys])
        hashes, firsts = np.unique(
            layout.hashes(asked) if view.keys else layout.hashes(pa.table({"": [None]})), return_index=True
        )
        wanted = set(keys) if len(hashes) < len(set(keys)) else None
        found = []
        for number, layer in enumerate(self.held.stack):
            low, high = layer.answers.index.find(hashes)
            places = spread((low, high))
            if not len(places):
                continue
            of = np.repeat(firsts, high - low)
            seen = np.isin(places, visible(layout, self.held.stack, number, places), assume_unique=True)
            places, of = places[seen], of[seen]
            same = _same(layer.answers, places, asked, of)
            if wanted is not None:
                same |= np.array([key in wanted for key in _keys(layer.answers, [*view.keys], places)], dtype=bool)
            found.append(rows_at(self.held, number, places[same]))
        return self.labelled(found)

    def select(self, selection: Selection, *, limit: int | None = None) -> "Labelled":
        """The rows of a selection, in order, the first `limit` of them; a range as one window is not supported."""
        layout, stack = self.held.layout, self.held.stack
        expression = replace(selection, reach=timedelta(0)).expression()
        found = []
        for number, layer in enumerate(stack):
            rows, seen = layer.answers, all_visible(layout, stack, number)
            if expression is None:
                found.append(rows_at(self.held, number, None if seen.all() else np.flatnonzero(seen)))
                continue
            numbers = arrays.from_numpy(np.arange(len(rows.index)), pa.int64())
            places = rows.table.append_column(_ROW, numbers).filter(expression)[_ROW]
            chosen = arrays.integers(arrays.whole(places))
            found.append(rows_at(self.held, number, chosen[seen[chosen]]))
        return self.labelled(found, limit=limit)

    def with_states(self, states: Mapping[str, str]) -> pa.Table:
        """All rows in the order of an answer. After its columns come those of the rows' states, each under a name of its own.

        Where windows are made of several states, sketches are merged for this, so a quantile may differ from that of `select`;
        it always agrees with its own state.
        """
        layout, stack = self.held.layout, self.held.stack
        if states and not layout.by_window:
            arranged = ordered(layout.view, arrange(layout.view, live_states(layout, stack)))
            rows = present_arranged(layout.view, arranged, self.watermark)
            for name, column in states.items():
                rows = rows.append_column(name, arranged[column])
            return rows
        found = [_with_columns(pa.Table.from_batches([], layout.kept), pa.Table.from_batches([], layout.states), states)]
        for number, layer in enumerate(stack):
            seen = all_visible(layout, stack, number)
            rows = _with_columns(layer.answers.table, layer.states.table, states)
            found.append(rows if seen.all() else _at(rows, np.flatnonzero(seen)))
        rows = ordered(layout.view, whole(found))
        columns = [*self._columns(rows), *(rows[name] for name in states)]
        return pa.Table.from_arrays(columns, names=[*layout.answer.names, *states])

    def _columns(self, rows: pa.Table) -> list[pa.ChunkedArray]:
        """The columns of an answer, from rows as layers store them."""
        layout = self.held.layout
        labels = window_states(layout.view, rows, self.watermark)
        return [labels if name == WINDOW_STATE.name else rows[name] for name in layout.answer.names]

    def labelled(self, found: Sequence[pa.Table], *, limit: int | None = None) -> "Labelled":
        """The answer of rows that `rows_at` returned: in order, the first `limit`, with their labels."""
        layout = self.held.layout
        rows = whole([pa.Table.from_batches([], layout.kept.append(TOUCHED)), *found])
        some = ordered(layout.view, rows).slice(0, limit)
        return Labelled(pa.Table.from_arrays(self._columns(some), schema=layout.answer), rows.num_rows, some[TOUCHED.name])


class Labelled(NamedTuple):
    """Rows of an answer, their number before a limit, and which of them realtime states are part of."""

    table: pa.Table
    total: int
    touched: pa.ChunkedArray


def rows_at(held: CachedView, number: int, places: Numbers | None) -> pa.Table:
    """Rows of a layer of the stack as it stores them, all without places, and which of them are to be marked."""
    rows = held.stack[number].answers
    table = rows.table if places is None else _at(rows.table, places)
    return table.append_column(TOUCHED, pa.array(_touched(held, number, table, slice(None) if places is None else places)))


def _touched(held: CachedView, number: int, table: pa.Table, places: Numbers | slice) -> arrays.Mask:
    """Whether rows at some places of a layer, which are this table, are late, or realtime states are part of them."""
    late = held.late.overlapping(table)
    return late | _of_tail(held, number, table, places) if held.tail_marked else late


def _of_tail(cached: CachedView, number: int, table: pa.Table, places: Numbers | slice) -> arrays.Mask:
    """Whether realtime states are part of the rows at some places of a layer, which are this table."""
    if number < len(cached.below):
        return np.zeros(table.num_rows, dtype=bool)
    if not cached.layout.told_apart:
        return np.ones(table.num_rows, dtype=bool)
    hashes = cached.stack[number].answers.index.hashes[places]
    if not cached.layout.timed:
        return np.isin(hashes, np.concatenate([hashes[:0], *(layer.answers.index.hashes for layer in cached.touching)]))
    starts, ends = (arrays.integers(arrays.whole(table[name])) for name in WINDOW_COLUMNS)
    ends = ends if cached.layout.sessions else starts + 1
    found = np.zeros(table.num_rows, dtype=bool)
    for layer in cached.touching:
        found |= layer.answers.index.any_within(hashes, starts, ends)
    return found


@dataclass(frozen=True, eq=False)
class _AnswerReader:
    """Reads single rows of a layer."""

    held: CachedView
    layer: Layer
    watermark: int | None
    final: int | None
    marks: Sequence[Name]
    above: bool

    @cached_property
    def rows_at(self) -> Callable[[int, int | None], tuple[int, int]]:
        return self.layer.answers.index.rows_at

    def knows(self, found: int) -> bool:
        """Whether the layer has the whole unit of this hash."""
        low, high = self.layer.states.index.rows(found)
        return low < high

    @cached_property
    def _keys(self) -> tuple[Callable[[int], Any], ...]:
        return tuple(_values(self.layer.answers.columns[name]) for name in self.held.layout.view.keys)

    def key(self, place: int) -> Key:
        return tuple(value(place) for value in self._keys)

    @cached_property
    def _cells(self) -> list[tuple[str, Callable[[int], Any]]]:
        """By name, a function that returns the value of a column in a row."""
        columns = self.layer.answers.columns
        return [
            (one.name, self._label if one.name == WINDOW_STATE.name else _cell(columns[one.name], one))
            for one in self.held.layout.answer
        ]

    def row(self, place: int) -> Row:
        row = {name: cell(place) for name, cell in self._cells}
        if self.marks and (self._of_tail(place) or self._is_late(place)):
            row[MARK] = [*self.marks]
        return row

    def _is_late(self, place: int) -> bool:
        """Whether a late version of a table touches a row."""
        late = self.held.late
        return bool(late.times) and bool(late.overlapping(self.layer.answers.table.slice(place, 1))[0])

    def _of_tail(self, place: int) -> bool:
        """Whether realtime states are part of a row, and that is to be marked."""
        held = self.held
        if not (self.above and held.tail_marked):
            return False
        if not held.layout.told_apart:
            return True
        rows = self.layer.answers
        found = int(rows.index.hashes[place])
        if not held.layout.timed:
            return any(low < high for low, high in (layer.answers.index.rows(found) for layer in held.touching))
        start, end = (rows.columns[name][place].value for name in WINDOW_COLUMNS)
        end = end if held.layout.sessions else start + 1
        return any(layer.answers.index.is_within(found, start, end) for layer in held.touching)

    def _label(self, place: int) -> str:
        columns = self.layer.answers.columns
        if self.held.layout.in_order:
            return "final" if columns[COMPLETE.name][place].as_py() else "open"
        return window_state(columns[WINDOW_COLUMNS[1]][place].value, self.watermark, self.final)


def _cell(column: pa.Array, described: pa.Field) -> Callable[[int], Any]:
    if pa.types.is_timestamp(described.type):

        def time(place: int) -> str | None:
            microseconds = column[place].value
            return None if microseconds is None else _written_time(microseconds)

        return time
    value = _values(column)
    if described.type in _WRITTEN:
        return value
    write = writer(described)
    return lambda place: write(value(place))


def _values(column: pa.Array) -> Callable[[int], Any]:
    """A function that returns a value of a column as Arrow does in Python; numbers without NULL are read from the buffer."""
    if not column.null_count and column.type == pa.int64():
        return arrays.integers(column).data.__getitem__
    if not column.null_count and column.type == pa.float64():
        return arrays.doubles(column).data.__getitem__
    return lambda place: column[place].as_py()


def _same(rows: SortedRows, places: Numbers, asked: pa.Table, of: Numbers) -> arrays.Mask:
    """Whether rows, by place, have requested keys; each key has one row."""
    same = np.ones(len(places), dtype=bool)
    for name in asked.column_names:
        have = rows.columns[name].take(arrays.from_numpy(places, pa.int64()))
        want = arrays.whole(asked[name]).take(arrays.from_numpy(of, pa.int64()))
        equal = pc.fill_null(pc.equal(have, want), False).cast(pa.uint8())
        both_null = ~arrays.validity(have) & ~arrays.validity(want)
        same &= (np.frombuffer(equal.buffers()[1] or b"", np.uint8)[equal.offset : equal.offset + len(equal)] == 1) | both_null
    return same


def _keys(rows: SortedRows, names: Sequence[str], places: Numbers) -> list[Key]:
    taken = (rows.columns[name].take(arrays.from_numpy(places, pa.int64())).to_pylist() for name in names)
    return list(zip(*taken, strict=True))


def _with_columns(table: pa.Table, other: pa.Table, names: Mapping[str, str]) -> pa.Table:
    """A table with columns of another table that has the same rows, under other names."""
    for name, column in names.items():
        table = table.append_column(name, other[column])
    return table


def _at(table: pa.Table, places: Numbers) -> pa.Table:
    return table.take(arrays.from_numpy(places, pa.int64()))
