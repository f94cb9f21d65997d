"""A filter of a view's rows: the values of keys, and a condition over the columns of an answer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from tandem.serving.read.selection import ALWAYS, BadSelection, Selection, select
from tandem.views.errors import DefinitionError
from tandem.views.sql import engine
from tandem.views.sql.expressions import Expression, bind_expression
from tandem.views.sql.syntax import enclosed
from tandem.views.view import View, answer_schema
from tandem.views.windows.placement import WINDOW_STATE

_ROW: Final = "_row"
_ROWS: Final = "_rows"


@dataclass(frozen=True)
class RowFilter:
    """Takes the rows of a selection for which a condition is true, and not those for which it is NULL or fails.

    Whether it takes a row depends on the row's values alone: labels of windows move with time, so a condition cannot read them.
    """

    selection: Selection
    condition: Expression | None = None

    def rows(self, table: pa.Table) -> pa.Table:
        """The rows of a table that the filter takes, in its order."""
        selected = self.selection.filter(table)
        if self.condition is None or not selected.num_rows:
            return selected
        numbered = selected.append_column(_ROW, pa.array(np.arange(selected.num_rows))).select(
            [*sorted(self.condition.fields), _ROW]
        )
        read = numbered.cast(_readable(numbered.schema))
        sql = f"SELECT {_ROW} FROM {_ROWS} WHERE TRY({enclosed(self.condition.text)})"
        numbers = [result[_ROW].to_numpy() for _, result in engine.halved(sql, _ROWS, read) if result is not None]
        return selected.take(pa.array(np.sort(np.concatenate([np.empty(0, np.int64), *numbers]))))


EVERY_ROW: Final = RowFilter(Selection())


def row_filter(view: View, keys: Mapping[str, object], where: str | None) -> RowFilter:
    """The filter of these values of keys and of a condition in SQL. Raises BadSelection for an invalid one."""
    selection = Selection(select(view, keys, ALWAYS).keys)
    if where is None:
        return RowFilter(selection)
    fields = _readable(pa.schema([column for column in answer_schema(view) if column.name != WINDOW_STATE.name]))
    try:
        condition = bind_expression(where, fields, f"a row of view {view.name!r}")
    except DefinitionError as error:
        raise BadSelection(f"where {where!r} {error}") from error
    if condition.type.kind != "boolean":
        raise BadSelection(f"where {where!r} has the type {condition.type}; expected a condition, such as n > 100")
    return RowFilter(selection, condition)


def _readable(columns: pa.Schema) -> pa.Schema:
    """The columns as a condition reads them: doubles for totals of more than 38 digits, which DuckDB lacks."""
    return pa.schema([column.with_type(pa.float64()) if pa.types.is_decimal256(column.type) else column for column in columns])
