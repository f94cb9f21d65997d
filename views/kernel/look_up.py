"""The kernel's look-ups: for each event the rows that its view reads, as columns of structs.

A hash join finds the key's versions, which are neighbours; a binary search among them, over all events at once, finds the version
of the event's time. An ASOF JOIN of DuckDB would partition both sides by key, which takes seconds for 100 000 keys.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tandem.views.arrow import arrays
from tandem.views.file_table import FileTable
from tandem.views.kernel.versions import IS_GONE, Numbers, after_last_until, first_rows, times
from tandem.views.lookup import BoundLookup
from tandem.views.source.source import Source
from tandem.views.source.value_types import normalised
from tandem.views.sql import engine
from tandem.views.sql.engine import quoted
from tandem.views.sql.syntax import enclosed
from tandem.views.table import Table
from tandem.views.view import View, bind

Versions = Mapping[str, pa.Table]
"""By name of a view of versions what `tandem.views.kernel.versions` makes of its states."""

NO_VERSIONS: Final[Versions] = {}

_EVENTS: Final = "_events"
_KEYS: Final = "_keys"
_ROW: Final = "_row"
_GROUP: Final = "_group"
_NONE: Final = -1


def with_rows(view: View, events: pa.Table, versions: Versions) -> pa.Table:
    """The events with a column for each look-up of the view: the row, or NULL, or the constants of an event without a row.

    Raises KeyError if the versions of a table are missing.
    """
    joined = events
    for bound in bind(view).lookups:
        joined = joined.append_column(bound.name, _rows(bound, view.source, events, _table_of(bound, versions)))
    return joined


def _table_of(bound: BoundLookup, versions: Versions) -> pa.Table:
    table = bound.lookup.table
    if isinstance(table, FileTable):
        return table.table
    assert isinstance(table, Table)  # there are no other tables
    if table.parent.name not in versions:
        raise KeyError(f"look-up {bound.name!r} reads {table.parent.name}; there are versions of {sorted(versions)}")
    return versions[table.parent.name]


def _rows(bound: BoundLookup, source: Source, events: pa.Table, table: pa.Table) -> pa.Array:
    begins = first_rows(table, [*bound.lookup.table.lookup_keys])
    ends = np.append(begins[1:], table.num_rows).astype(np.int64)
    groups = _groups(bound, events, table, begins)
    keyed = groups != _NONE
    first, end = begins[groups[keyed]], ends[groups[keyed]]
    if bound.lookup.how == "as_of":
        at = arrays.integers(arrays.whole(events[source.time_column]))[keyed]
        end = after_last_until(times(table), at, first, end)
    numbers = np.full(events.num_rows, _NONE, dtype=np.int64)
    numbers[keyed] = np.where(end > first, end - 1, _NONE)
    if IS_GONE in table.column_names and table.num_rows:
        gone = arrays.truths(pc.fill_null(arrays.whole(table[IS_GONE]), False))
        numbers[(numbers != _NONE) & gone[numbers]] = _NONE
    return _structs(bound, table, numbers)


def _groups(bound: BoundLookup, events: pa.Table, table: pa.Table, begins: Numbers) -> Numbers:
    """For each event the number of its key among the table's keys."""
    names, numbers = [*bound.lookup.table.lookup_keys], arrays.from_numpy(begins, pa.int64())
    keys = table.select(names).take(numbers).append_column(_GROUP, arrays.from_numpy(np.arange(len(begins)), pa.int64()))
    read = sorted({field for key in bound.keys for field in key.fields})
    rows = events.select(read).append_column(_ROW, arrays.from_numpy(np.arange(events.num_rows), pa.int64()))
    texts = [f"TRY({normalised(enclosed(key.text), key.type)}) AS k{number}" for number, key in enumerate(bound.keys)]
    equal = " AND ".join(f"e.k{number} = t.{quoted(name)}" for number, name in enumerate(names))
    keyed = f"(SELECT {', '.join([_ROW, *texts])} FROM {_EVENTS})"
    sql = f"SELECT e.{_ROW}, t.{_GROUP} FROM {keyed} AS e JOIN {_KEYS} AS t ON {equal}"
    groups = np.full(events.num_rows, _NONE, dtype=np.int64)
    for _, matched in engine.halved(sql, _EVENTS, rows, {_KEYS: keys}):
        if matched is not None:  # else the event's key fails, and the fold rejects the event
            groups[arrays.integers(arrays.whole(matched[_ROW]))] = arrays.integers(arrays.whole(matched[_GROUP]))
    return groups


def _structs(bound: BoundLookup, table: pa.Table, numbers: Numbers) -> pa.Array:
    """The rows with these numbers."""
    matched, type_ = numbers != _NONE, bound.lookup.table.row_type
    taken = arrays.from_numpy(numbers, pa.int64(), matched)
    columns = [arrays.whole(table[name]).cast(type_.field(name).type).take(taken) for name in type_.names]
    if not bound.defaults:
        return pa.StructArray.from_arrays(columns, fields=list(type_), mask=arrays.booleans(~matched))
    is_row = arrays.booleans(matched)
    for name, default in bound.defaults:
        number = type_.get_field_index(name)
        columns[number] = pc.if_else(is_row, columns[number], default[0])
    return pa.StructArray.from_arrays(columns, fields=list(type_))
