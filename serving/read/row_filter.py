"""The rows that a reader of changes wants: values of keys, a condition over the columns of an answer, and measures.

A server computes the conditions of strangers in its own process, so these are simple: their cost is bounded by their length. Any
function would break that bound: `len(repeat(page, 100000)) > 3` takes 29 s and 1 GB for 65 536 rows, while the slowest simple
condition of 965 characters takes 0.3 s. SQL of any kind runs in the confined process of `serving/sql` instead. That has one
statement's limits and process, so a stream, which asks again at every commit, would hold one for itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from tandem.serving.read.selection import ALWAYS, BadSelection, Selection, measures_of, select
from tandem.views.errors import DefinitionError
from tandem.views.sql import engine
from tandem.views.sql.expressions import Expression, bind_once
from tandem.views.sql.syntax import enclosed, nodes, parse_once
from tandem.views.view import View, answer_schema
from tandem.views.windows.placement import WINDOW_STATE

LONGEST: Final = 400
"""The most characters of a stranger's condition."""

_CLASSES: Final = frozenset({"BETWEEN", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "FUNCTION", "OPERATOR"})
_FUNCTIONS: Final = frozenset({"+", "-", "*"})
_OPERATORS: Final = frozenset({"COMPARE_IN", "COMPARE_NOT_IN", "OPERATOR_NOT", "OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"})

_ROW: Final = "_row"
_ROWS: Final = "_rows"


@dataclass(frozen=True)
class RowFilter:
    """Takes the rows of a selection for which a condition is true, and not those for which it is NULL or fails.

    Whether it takes a row depends on the row's values alone: labels of windows move with time, so a condition cannot read them.
    It may read the measures `left_out`, which the reader does not want.
    """

    selection: Selection
    condition: Expression | None = None
    left_out: frozenset[str] = frozenset()

    def columns(self, rows: pa.Table) -> pa.Table:
        """Rows without the measures that are left out."""
        return rows.select([name for name in rows.column_names if name not in self.left_out])

    def rows(self, table: pa.Table) -> pa.Table:
        """The rows of a table that the filter takes, in its order."""
        selected = self.selection.filter(table)
        if self.condition is None or not selected.num_rows:
            return selected
        numbered = selected.append_column(_ROW, pa.array(np.arange(selected.num_rows))).select(
            [*sorted(self.condition.fields), _ROW]
        )
        read = numbered.cast(engine.readable(numbered.schema))
        sql = f"SELECT {_ROW} FROM {_ROWS} WHERE TRY({enclosed(self.condition.text)})"
        numbers = [result[_ROW].to_numpy() for _, result in engine.halved(sql, _ROWS, read) if result is not None]
        return selected.take(pa.array(np.sort(np.concatenate([np.empty(0, np.int64), *numbers]))))


EVERY_ROW: Final = RowFilter(Selection())


@dataclass(frozen=True)
class RowsWanted:
    """The rows that a reader of changes wants: these values of keys, those for which `where` is true, these measures.

    A stranger's `where` has to be `simple`. `output` says which changes of them are sent,
    and `late` whether those of rows that an append-only reader has are (tandem.serving.read.outputs). `when` says after which
    commits (tandem.serving.memory.pace).
    """

    keys: Mapping[str, object] = field(default_factory=dict)
    where: str | None = None
    measures: Sequence[str] | None = None
    simple: bool = False
    output: str = "update"
    late: str = "send"
    when: str = "commit"


def row_filter(view: View, wanted: RowsWanted) -> RowFilter:
    """The filter of a view's rows that a reader wants. Raises BadSelection for an invalid one."""
    selection, where = Selection(select(view, wanted.keys, ALWAYS).keys), wanted.where
    named = view.measures if wanted.measures is None else measures_of(view, wanted.measures)
    left_out = frozenset(view.measures) - frozenset(named)
    if where is None:
        return RowFilter(selection, left_out=left_out)
    fields = engine.readable(pa.schema([column for column in answer_schema(view) if column.name != WINDOW_STATE.name]))
    try:
        if wanted.simple:
            _check_simple(where)
        condition = bind_once(where, fields, f"a row of view {view.name!r}")
    except DefinitionError as error:
        raise BadSelection(f"where {where!r} {error}") from error
    except RecursionError:
        raise BadSelection("the condition of `where` is nested too deeply; write it with fewer brackets and operators") from None
    if condition.type.kind != "boolean":
        raise BadSelection(f"where {where!r} has the type {condition.type.kind}; expected a condition, such as n > 100")
    return RowFilter(selection, condition, left_out)


def _check_simple(text: str) -> None:
    """Raise DefinitionError unless a condition is short and has nothing but columns, constants and the operators below."""
    if len(text) > LONGEST:
        raise DefinitionError(f"has {len(text)} characters; a server computes conditions of at most {LONGEST}")
    for node in nodes(parse_once(text)):
        kind, name = node["class"], node.get("function_name", node["type"])
        allowed = {"FUNCTION": _FUNCTIONS, "OPERATOR": _OPERATORS}.get(kind, {name})
        if kind not in _CLASSES or name not in allowed:
            what = f"{name!r}" if kind == "FUNCTION" else kind.replace("_", " ").lower()
            raise DefinitionError(
                f"has {what}, which a server does not compute in conditions; it computes comparisons of columns and constants "
                "with AND, OR, NOT, BETWEEN, IN, IS NULL, +, - and *"
            )
