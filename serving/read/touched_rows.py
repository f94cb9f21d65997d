"""Touched rows: rows of an answer that realtime states are part of, or that a late version of a table may change. Their reasons
need not hold of other rows.

A row of windows in time is touched if one of its own states is in the tail; a row of windows in the order of the log, if any
state of its key is, since an event may come before others there.
"""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tandem.serving.read.late_tables import LateTables
from tandem.views.arrow import arrays
from tandem.views.exactness import MARK, Exactness, Name
from tandem.views.sql import engine
from tandem.views.sql.engine import quoted
from tandem.views.view import View, bind
from tandem.views.windows.placement import WINDOW_COLUMNS

TOUCHED: Final = pa.field("_touched", pa.bool_())
"""The column that marks touched rows inside the reader; no answer has it."""

_ROW: Final = "_row"


def with_touched(view: View, rows: pa.Table, tail: pa.Table, late: LateTables, *, one: bool = False) -> pa.Table:
    """Arranged rows, and which of them the tail's rows or late versions touch; with `one` a range is a window for each key."""
    start, end = (quoted(name) for name in WINDOW_COLUMNS)
    placement = bind(view).placement
    terms = [f"_tail.{quoted(name)} IS NOT DISTINCT FROM _rows.{quoted(name)}" for name in view.keys]
    if placement.independent and not one:
        terms.append(f"_tail.{start} IS NOT DISTINCT FROM _rows.{start}")
    elif not one and not placement.in_order:
        terms.append(f"_tail.{start} >= _rows.{start} AND _tail.{start} < _rows.{end}")
    columns = [*view.keys, *WINDOW_COLUMNS]
    numbers = arrays.row_numbers(rows.num_rows)
    tables = {"_rows": rows.select(columns).append_column(_ROW, numbers), "_tail": tail.select(columns)}
    sql = f"SELECT {_ROW} FROM _rows SEMI JOIN _tail ON {' AND '.join(terms) or 'true'}"
    found = late.overlapping(rows)
    if tail.num_rows and rows.num_rows:
        found[engine.query(sql, tables)[_ROW].to_numpy()] = True
    return rows.append_column(TOUCHED, pa.array(found))


def marks_tail(exactness: Exactness) -> bool:
    """Whether some reason is one of all rows that realtime states are part of."""
    return any(reason.name != "late_table" for reason in exactness.marked)


def split(rows: pa.Table) -> tuple[pa.Table, pa.ChunkedArray | None]:
    """Rows without the column, and the column if they have it."""
    if TOUCHED.name not in rows.column_names:
        return rows, None
    return rows.drop_columns([TOUCHED.name]), rows[TOUCHED.name]


def any_touched(touched: pa.ChunkedArray | None) -> bool:
    """Whether any row is touched."""
    return touched is not None and bool(pc.any(touched).as_py())


def marked(rows: list[dict[str, Any]], touched: pa.ChunkedArray | None, marks: Sequence[Name]) -> list[dict[str, Any]]:
    """Rows, with the reasons of the touched ones."""
    if not marks or touched is None:
        return rows
    return [{**row, MARK: [*marks]} if is_ else row for row, is_ in zip(rows, touched.to_pylist(), strict=True)]
