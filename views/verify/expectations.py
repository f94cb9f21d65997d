"""Check the conditions that a view expects of its rows (tandem.views.expectation), of some keys at a time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import nsmallest
from json import dumps
from math import inf, isfinite
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tandem.views.arrow import arrays
from tandem.views.condition_result import ConditionResult
from tandem.views.expectation import BEFORE, ROWS, Condition, conditions
from tandem.views.kernel.rows import written
from tandem.views.sql import engine
from tandem.views.sql.syntax import enclosed
from tandem.views.verify.compare import pairs
from tandem.views.verify.release_diff import comparable
from tandem.views.view import View, answer_schema, group_columns

WORST: Final = 5
"""The most rows that are named of those that do not meet a condition."""

_ROW: Final = "_row"
_TABLE: Final = "_rows"
_FAR: Final = "_far"


def check_rows(view: View, answers: pa.Table, before: tuple[View, pa.Table] | None) -> list[ConditionResult]:
    """Check the conditions over rows for some rows of a version, all of some keys.

    `before` are the rows of these keys in the published version, with its definition of the view; None if there is none.
    """
    of_rows = [condition for condition in conditions(view) if not condition.of_all]
    if not of_rows:
        return []
    rows = _with_before(view, answers, before)
    return [_check(view, condition, rows) for condition in of_rows]


def check_numbers(view: View, rows: int, before: int | None) -> list[ConditionResult]:
    """Check the conditions over the number of rows, here and in the published version."""
    schema = pa.schema([(ROWS, pa.int64()), (BEFORE, pa.struct([(ROWS, pa.int64())]))])
    table = pa.Table.from_pylist([{ROWS: rows, BEFORE: {ROWS: before}}], schema=schema)
    results = [_check(view, condition, table) for condition in conditions(view) if condition.of_all]
    return [replace(each, rows=None) for each in results]


def plus(parts: Iterable[ConditionResult]) -> list[ConditionResult]:
    """The results of conditions over disjoint rows as one of each condition."""
    totals: dict[str, ConditionResult] = {}
    for part in parts:
        other = totals.get(part.condition, replace(part, rows=0, unmet=0, worst=()))
        worst = nsmallest(WORST, (*other.worst, *part.worst), key=_order)
        totals[part.condition] = replace(
            part, rows=(other.rows or 0) + (part.rows or 0), unmet=other.unmet + part.unmet, worst=tuple(worst)
        )
    return [*totals.values()]


def _order(worst: Mapping[str, Any]) -> tuple[float, str]:
    far = worst["far"]
    return -(inf if far is None else far), dumps(worst["row"], sort_keys=True)


def _with_before(view: View, answers: pa.Table, before: tuple[View, pa.Table] | None) -> pa.Table:
    """The rows, each with the measures of the published row."""
    fields = [answer_schema(view).field(name).remove_metadata() for name in view.measures]
    there: Mapping[str, pa.Array] = {}
    if before is not None and comparable(before[0], view):
        paired = pairs(group_columns(view), before[1], answers)
        paired = paired.take(pc.indices_nonzero(paired.there[1]))
        there, answers = ({name: arrays.whole(paired.sides[0][name]) for name in before[0].measures}), paired.sides[1]
    columns = [there.get(field.name, pa.nulls(answers.num_rows, field.type)) for field in fields]
    columns = [
        column if column.type == field.type else pa.nulls(answers.num_rows, field.type)
        for column, field in zip(columns, fields, strict=True)
    ]
    return answers.append_column(BEFORE, pa.StructArray.from_arrays(columns, fields=fields))


def _check(view: View, condition: Condition, rows: pa.Table) -> ConditionResult:
    numbered = rows.append_column(_ROW, arrays.row_numbers(rows.num_rows))
    read = numbered.select([*sorted(condition.bound.fields), _ROW])
    read = read.cast(engine.readable(read.schema))
    far = f"CAST({condition.far or 'NULL'} AS DOUBLE)"
    sql = f"SELECT {_ROW}, {far} AS {_FAR} FROM {_TABLE} WHERE {enclosed(condition.text)} IS FALSE"
    numbers: list[int] = []
    distances: list[float | None] = []
    for piece, result in engine.halved(sql, _TABLE, read) if rows.num_rows else ():
        numbers += piece[_ROW].to_pylist() if result is None else result[_ROW].to_pylist()
        # JSON has no infinite numbers: a row without a distance is the furthest.
        distances += [None] if result is None else [_finite(distance) for distance in result[_FAR].to_pylist()]
    worst = nsmallest(WORST, _rows_of(view, condition, rows, numbers, distances), key=_order)
    return ConditionResult(condition.text, condition.severity, rows.num_rows, len(numbers), tuple(worst))


def _finite(distance: float | None) -> float | None:
    return distance if distance is not None and isfinite(distance) else None


def _rows_of(
    view: View, condition: Condition, rows: pa.Table, numbers: Sequence[int], distances: Sequence[float | None]
) -> Iterator[dict[str, Any]]:
    """The rows of these numbers, those first that are furthest from meeting the condition; enough of them for the worst."""
    order = sorted(range(len(numbers)), key=lambda at: (distances[at] is not None, -(distances[at] or 0.0)))
    least = distances[order[min(len(order), WORST) - 1]] if order else None
    # Among rows that are as far as the last of the worst, the texts of their keys decide.
    chosen = [at for number, at in enumerate(order) if number < WORST or distances[at] == least]
    some, schema = rows.take(pa.array([numbers[at] for at in chosen], pa.int64())), answer_schema(view)
    group = [name for name in group_columns(view) if name in some.column_names]
    places = zip(*(written(arrays.whole(some[name]), schema.field(name)) for name in group), strict=True) if group else iter(())
    values = {".".join(path): _values(some, path, schema) for path in condition.reads}
    for number, at in enumerate(chosen):
        row = dict(zip(group, next(places, ()), strict=True))
        yield {"row": row, "values": {name: column[number] for name, column in values.items()}, "far": distances[at]}


def _values(rows: pa.Table, path: tuple[str, ...], schema: pa.Schema) -> list[Any]:
    column = arrays.whole(rows[path[0]])
    if len(path) > 1:
        column = column.field(path[1])
    return written(column, schema.field(path[-1]) if path[-1] in schema.names else pa.field(path[-1], column.type))
