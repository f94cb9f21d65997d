"""The kernel's look-ups: for each event the rows that its view reads, as columns of structs.

A hash join finds the key's versions, which are neighbours; a binary search among them, over all events at once, finds the version
of the event's time. An ASOF JOIN of DuckDB would partition both sides by key, which takes seconds for 100 000 keys.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tandem.views.arrow import arrays
from tandem.views.composite.table import Table
from tandem.views.kernel.versions import IS_GONE, Numbers, after_last_until, first_rows, times
from tandem.views.lookup.file_table import FileTable
from tandem.views.lookup.lookup import BoundLookup
from tandem.views.source.source import Source
from tandem.views.source.value_types import normalised
from tandem.views.sql import engine
from tandem.views.sql.engine import quoted
from tandem.views.sql.syntax import enclosed
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
    return _join(bind(view).lookups, view.source, events, versions)


def _join(lookups: Iterable[BoundLookup], source: Source, events: pa.Table, versions: Versions) -> pa.Table:
    joined = events
    for bound in lookups:
        joined = joined.append_column(bound.name, _rows(bound, source, joined, _table_of(bound, versions)))
    return joined


def lookup_keys_of(view: View, events: pa.Table, versions: Versions, depth: int) -> Iterator[tuple[str, pa.Table]]:
    """The keys that a view looks up for these events, in the types of the table's key, by the name of the view of versions.

    Those of the look-ups of this depth alone; `versions` has what look-ups of smaller depths find. A key that cannot be
    computed, or does not fit these types, matches no version: it is left out, or NULL.
    """
    lookups = bind(view).lookups
    of_depth = [each for each in lookups if each.depth == depth and isinstance(each.lookup.table, Table)]
    if of_depth and depth:
        events = _join([each for each in lookups if each.depth < depth], view.source, events, versions)
    for bound in of_depth:
        assert isinstance(bound.lookup.table, Table)
        yield bound.lookup.table.parent.name, _keys(bound, events)


def _keys(bound: BoundLookup, events: pa.Table) -> pa.Table:
    types = bound.lookup.table.lookup_keys
    schema = pa.schema([(name, type_.arrow) for name, type_ in types.items()])
    texts = [
        f"TRY_CAST(TRY({normalised(enclosed(key.text), key.type)}) AS {type_.sql}) AS {quoted(name)}"
        for key, (name, type_) in zip(bound.keys, types.items(), strict=True)
    ]
    rows = events.select(sorted({field for key in bound.keys for field in key.fields}) or events.column_names[:1])
    sql = f"SELECT DISTINCT {', '.join(texts)} FROM {_EVENTS}"
    pieces = [keys.cast(schema) for _, keys in engine.halved(sql, _EVENTS, rows) if keys is not None]
    return pa.concat_tables([pa.Table.from_batches([], schema), *pieces])


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
    rows = events.select(read).append_column(_ROW, arrays.row_numbers(events.num_rows))
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
