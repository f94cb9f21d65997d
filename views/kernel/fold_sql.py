"""The SQL that folds events into a view's states.

One statement in layers:

1. The filter, alone, so that no other expression reads events that it leaves out. An event that a look-up rejects passes if
   the filter reads the missing row.
2. Each expression once, wrapped: TRY(struct_pack(v := ...)) is NULL where the expression fails and {v: NULL} where it gives NULL,
   at no measurable cost.
3. A reason for each rejected event.
4. All other events, grouped by key and by window.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from tandem.views.bound_view import BoundView
from tandem.views.source.value_types import normalised, objections
from tandem.views.sql.engine import quoted
from tandem.views.sql.expressions import REASONS, Expression
from tandem.views.sql.syntax import enclosed
from tandem.views.view import View, bind
from tandem.views.windows.placement import REASON

# Names of fields, keys and states never start with an underscore, so these names are free.
EVENTS: Final = "_events"
COUNT: Final = "_count"
_WHERE: Final = "_where"


@dataclass(frozen=True)
class _Value:
    """An expression in the statement: `inner` computes `column`, of which `plain` is the value."""

    expression: Expression
    column: str

    @property
    def fallible(self) -> bool:
        """Whether the expression may fail: a plain field cannot."""
        return self.expression.column is None

    @property
    def inner(self) -> str:
        if not self.fallible:
            return f"{normalised(quoted(self.expression.column or ''), self.expression.type)} AS {self.column}"
        value = normalised(enclosed(self.expression.text), self.expression.type)
        return f"TRY(struct_pack(v := {value})) AS {self.column}"

    @property
    def plain(self) -> str:
        return f"{self.column}.v" if self.fallible else self.column


@lru_cache(maxsize=1024)
def fold_sql(view: View) -> str:
    """Over the table `_events`: one row per key and group of the window, or per reason for which events were rejected.

    Columns: `_reason`, an index into REASONS or NULL; `_count`, the events; the keys; what places the row; the states' folds.
    """
    bound = bind(view)
    step = bound.placement.steps.fold
    judged = _judged(bound)
    values = judged.values

    # A rejected event has no keys: all rejected events of one reason are one group.
    kept = f"CASE WHEN {REASON} IS NULL THEN {{}} END" if judged.rejects else "{}"
    looked_at = [values[expression.canonical].plain for expression in bound.window_inputs]
    groups = {name: kept.format(sql.format(*looked_at)) for name, sql in step.groups.items()}
    keys = {name: kept.format(values[key.canonical].plain) for name, key in bound.keys}
    states = {
        name: state.fold.format(*(values[expression.canonical].plain for expression in measure.inputs))
        for measure in bound.measures
        for name, state in measure.states
    }
    return replace(step, groups=groups).sql(judged.sql, {REASON: REASON, **keys}, {COUNT: "count(*)", **states})


def judged_sql(view: View, *beside: str) -> str:
    """Over the table `_events`: the events that pass the filter, each with its `_reason` and the columns of its group.

    Also with the columns `beside` of the events, whose names need no quotes.
    """
    return _judged(bind(view), beside).sql


@dataclass(frozen=True)
class _Judged:
    """Rows of events with their reasons; `rejects` says whether any can have one. `values` are by canonical expression."""

    sql: str
    values: Mapping[str, _Value]
    rejects: bool


def _judged(bound: BoundView, beside: Sequence[str] = ()) -> _Judged:
    values = {expression.canonical: _Value(expression, f"_e{n}") for n, expression in enumerate(bound.expressions)}
    failures = [f"{value.column} IS NULL" for value in values.values() if value.fallible]
    columns = [*beside, *(value.inner for value in values.values())]
    columns += [f"{sql} AS {name}" for name, sql in bound.placement.events.columns.items()]
    events, rejecting = EVENTS, [each.name for each in bound.lookups if each.lookup.reject]
    if bound.where is not None:
        wrapped = f"TRY(struct_pack(v := {enclosed(bound.where.text)}))"
        missing = "".join(f" OR {quoted(name)} IS NULL" for name in rejecting if name in bound.lookups_of_filter)
        events = f"(SELECT *, {wrapped} AS {_WHERE} FROM {events}) WHERE {_WHERE} IS NULL OR {_WHERE}.v{missing}"
        columns.append(_WHERE)
        failures.insert(0, f"{_WHERE} IS NULL")
    columns += [f"{quoted(name)} IS NULL AS _unmatched{number}" for number, name in enumerate(rejecting)]
    cases = _cases(failures, list(values.values()))
    cases += [f"WHEN _unmatched{number} THEN {REASONS.index('unmatched')}" for number, _ in enumerate(rejecting)]
    cases += [f"WHEN {condition} THEN {REASONS.index(reason)}" for condition, reason in bound.placement.events.objections]
    reason = f"CASE {' '.join(cases)} END" if cases else "NULL"
    sql = f"(SELECT *, CAST({reason} AS TINYINT) AS {REASON} FROM (SELECT {', '.join(columns) or '1'} FROM {events}))"
    return _Judged(sql, values, bool(cases))


def _cases(failures: list[str], values: list[_Value]) -> list[str]:
    """SQL for the index of the first reason to reject an event: an expression failed, then a value is invalid."""
    return [f"WHEN {failure} THEN {REASONS.index('expression')}" for failure in failures] + [
        f"WHEN {objection} THEN {REASONS.index(reason)}"
        for value in values
        for objection, reason in objections(value.plain, value.expression.type)
        if value.fallible or value.expression.type.kind == "float"
    ]
