"""Chunks of an answer from files: its rows in the requested order, some at a time, so that memory never has all of them.

Each chunk reads all states. The pages of a cursor within it cost nothing more.
"""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tandem.serving.read.touched_rows import split
from tandem.views.kernel.rows import ordered
from tandem.views.view import View, group_columns

Order = tuple[tuple[str, bool], ...]
"""Columns of an answer, each with whether it ascends."""

CHUNK_ROWS: Final = 1 << 17
_BOUNDARY: Final = "_boundary"


def in_order(order: Order, rows: pa.Table) -> pa.Table:
    """Rows, which come by window and keys, in the requested order: the sort is stable, null comes last."""
    if not order:
        return rows
    keys = [(name, "ascending" if ascends else "descending") for name, ascends in order]
    return rows.take(pc.sort_indices(rows, sort_keys=keys))


def chunk(view: View, order: Order, boundary: pa.Table | None, rows: pa.Table) -> pa.Table:
    """The first rows of some rows of an answer, or the first ones after a row of it."""
    if boundary is None:
        return in_order(order, ordered(view, rows)).slice(0, CHUNK_ROWS)
    first = split(boundary)[0].append_column(_BOUNDARY, pa.array([True]))  # a chunk without touched rows lacks their column
    both = pa.concat_tables([first, rows.append_column(_BOUNDARY, pa.nulls(len(rows), pa.bool_()))], promote_options="default")
    both = in_order(order, ordered(view, both))
    after = both.slice(pc.index(both[_BOUNDARY], pa.scalar(value=True)).as_py() + 1).drop_columns([_BOUNDARY])
    names = group_columns(view)
    if after.slice(0, 1).select(names).to_pylist() == boundary.select(names).to_pylist():
        after = after.slice(1)
    return after.slice(0, CHUNK_ROWS)
