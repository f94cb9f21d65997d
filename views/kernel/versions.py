"""The versions of a table's rows as look-ups read them, made of the states of its view of versions."""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tandem.views.arrow import arrays
from tandem.views.composite.current_rows import VALID_FROM
from tandem.views.measures.filtered import bare
from tandem.views.measures.first_last import GONE, NewestVersion
from tandem.views.source.event import TIMESTAMP
from tandem.views.view import View, bind, state_schema

IS_GONE: Final = "_gone"
"""The column that says whether the key is gone with a version; no field of a table begins with an underscore."""

Numbers = npt.NDArray[np.int64]
_PLACE: Final = ("generation", "partition", "offset")


def versions(view: View, states: pa.Table) -> pa.Table:
    """Of merged states of a view of versions: the key's columns, `valid_from`, the fields, and `_gone` where keys can be gone.

    Rows are sorted by key, NULL last, then by `valid_from`. In a table in the order of the log a row is what is valid from its
    time on: the version last in the log of those with a time at or before it.
    """
    names = [name for name in view.keys if name != VALID_FROM]
    bound, ordered = bind(view), states.take(pc.sort_indices(states, [(name, "ascending") for name in (*names, VALID_FROM)]))
    newest = [(measure.name, arrays.whole(ordered[measure.columns[0]])) for measure in bound.measures]
    columns = {name: arrays.whole(ordered[name]) for name in (*names, VALID_FROM)}
    columns |= {name: pc.struct_field(state, "value") for name, state in newest}
    measure = bare(view.measures[newest[0][0]])
    assert isinstance(measure, NewestVersion)  # of a view of versions
    if measure.gone is not None:
        columns[IS_GONE] = pc.struct_field(newest[0][1], GONE)
    table = pa.table(columns)
    if measure.order == "time":
        return table
    valid = table.take(_last_in_log(table, names, newest[0][1]))
    return valid.set_column(table.schema.get_field_index(VALID_FROM), VALID_FROM, table[VALID_FROM])


def no_versions(view: View) -> pa.Table:
    """The versions of a table without events."""
    return versions(view, pa.Table.from_batches([], schema=state_schema(view)))


def first_rows(table: pa.Table, names: list[str]) -> Numbers:
    """The numbers of the rows that begin another key, in a table sorted by key."""
    begins = np.zeros(table.num_rows, dtype=bool)
    begins[:1] = True
    for name in names:
        column = arrays.whole(table[name])
        before, after = column.slice(0, max(len(column) - 1, 0)), column.slice(1)
        differs = pc.fill_null(pc.not_equal(before, after), False)
        differs = pc.or_(differs, pc.xor(pc.is_null(before), pc.is_null(after)))
        begins[1:] |= arrays.truths(differs)
    return np.flatnonzero(begins).astype(np.int64)


def _last_in_log(table: pa.Table, names: list[str], states: pa.StructArray) -> pa.Array:
    """For each row the number of the row of its key that is last in the log, of those up to it."""
    places = pa.table({name: pc.struct_field(states, name) for name in _PLACE})
    rows = arrays.integers(pc.sort_indices(places, [(name, "ascending") for name in _PLACE]).cast(pa.int64()))
    ranks = np.empty(table.num_rows, dtype=np.int64)
    ranks[rows] = np.arange(table.num_rows)
    begins = first_rows(table, names)
    # A key's ranks are lifted above those of the keys before, so that a running maximum of all starts again at each key.
    lifted = ranks + np.repeat(np.arange(len(begins)), np.diff([*begins, table.num_rows])) * table.num_rows
    last = np.maximum.accumulate(lifted) % max(table.num_rows, 1)
    return arrays.from_numpy(rows[last], pa.int64())


def times(table: pa.Table) -> Numbers:
    """When each version is valid from, in microseconds since 1970."""
    return arrays.integers(arrays.whole(table[VALID_FROM]).cast(TIMESTAMP))


def after_last_until(valid_from: Numbers, at: Numbers, first: Numbers, end: Numbers) -> Numbers:
    """In each `[first, end)` of ascending times, the number after the last row whose time is at or before `at`."""
    low, high = first.copy(), end.copy()
    while (searching := np.flatnonzero(low < high)).size:
        middle = (low[searching] + high[searching]) // 2
        before = valid_from[middle] <= at[searching]
        low[searching] = np.where(before, middle + 1, low[searching])
        high[searching] = np.where(before, high[searching], middle)
    return low
