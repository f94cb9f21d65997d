"""What look-ups find, by going through the versions of each key one at a time."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tandem.views.composite.current_rows import VALID_FROM
from tandem.views.composite.table import Table
from tandem.views.lookup.file_table import FileTable
from tandem.views.lookup.lookup import Lookup
from tandem.views.oracle.expressions import Rejected, evaluated
from tandem.views.oracle.times import event_times
from tandem.views.view import View

_GONE: Final = "_gone"


def lookup_rows(view: View, events: pa.Table, versions: Mapping[str, pa.Table]) -> dict[str, pa.Array]:
    """By name of a look-up the rows that the events find, in `versions` by name of the view of versions."""
    times = event_times(view.source, events) if view.lookup else []
    columns = {}
    for name, lookup in view.lookup.items():
        keys = [*zip(*(evaluated(text, events) for _, text in lookup.key), strict=True)]
        rows, defaults = _by_key(lookup, versions, {key[0] for key in keys}), _defaults(lookup)
        values = []
        for key, at in zip(keys, times, strict=True):
            row = None
            if not any(part is None or isinstance(part, Rejected) for part in key):
                row = _valid([version for version in rows[key] if lookup.how == "now" or version[VALID_FROM] <= at])
            values.append(defaults if row is None else row)
        columns[name] = pa.array(values, lookup.table.row_type)
        events = events.append_column(name, columns[name])  # the next key may read it
    return columns


def _by_key(lookup: Lookup, versions: Mapping[str, pa.Table], wanted: set[Any]) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    """The versions of each key that begins with a wanted value, in the order in which they are valid."""
    table, by_key = lookup.table, defaultdict[tuple[Any, ...], list[dict[str, Any]]](list)
    if isinstance(table, FileTable):
        return by_key | {(key,): [row] for key, row in table.rows.items()}
    assert isinstance(table, Table)  # there are no other tables
    rows, (first, _) = versions[table.parent.name], lookup.key[0]
    values = pa.array([value for value in wanted if not isinstance(value, Rejected)], rows[first].type)
    for row in rows.filter(pc.is_in(rows[first], value_set=values)).to_pylist():
        by_key[tuple(row[name] for name, _ in lookup.key)].append(row)
    return by_key


def _valid(versions: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The last of these versions, unless its key is gone with it."""
    return None if not versions or versions[-1].get(_GONE) is True else versions[-1]


def _defaults(lookup: Lookup) -> dict[str, Any] | None:
    """The row of an event that finds none."""
    nothing = pa.table({"_": pa.array([True])})
    values = {name: evaluated(text, nothing)[0] for name, text in lookup.defaults}
    return values or None
