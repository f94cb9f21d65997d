"""The SQL that folds events into a view's states.

One statement in layers. The filter comes first and alone, so that no other expression looks at what it leaves out. Then
each expression is evaluated once, wrapped: TRY(struct_pack(v := ...)) is NULL where it fails and {v: NULL} where it gives
NULL, and costs nothing measurable. Then what was rejected gets a reason. Last, all else is grouped by key and window.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from views.engine import quoted
from views.expressions import REASONS, Expression
from views.syntax import enclosed
from views.values import normalised, objections
from views.view import View, bind
from views.windows import Tumbling

# No field, key or state has a name that starts with an underscore, so these are none of them.
EVENTS: Final = "_events"
WINDOW: Final = "_window"
REASON: Final = "_reason"
COUNT: Final = "_count"
_WHERE: Final = "_where"


@dataclass(frozen=True)
class _Value:
    """An expression in the statement: `inner` computes `column`, of which `plain` is the value."""

    expression: Expression
    column: str

    @property
    def fallible(self) -> bool:
        """A field as it is cannot fail; anything else might."""
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
    """Over the table `_events`: one row per key and window, or per reason for which events were rejected.

    Columns: `_reason`, an index into REASONS or NULL; `_count`, the events; the keys; `_window`, its start in microseconds
    since 1970, for tumbling windows; the states' folds.
    """
    bound = bind(view)
    values = {expression.canonical: _Value(expression, f"_e{n}") for n, expression in enumerate(bound.expressions)}
    failures = [f"{value.column} IS NULL" for value in values.values() if value.fallible]
    columns = [value.inner for value in values.values()]
    events = EVENTS
    if bound.where is not None:
        wrapped = f"TRY(struct_pack(v := {enclosed(bound.where.text)}))"
        events = f"(SELECT *, {wrapped} AS {_WHERE} FROM {EVENTS}) WHERE {_WHERE} IS NULL OR {_WHERE}.v"
        columns.append(_WHERE)
        failures.insert(0, f"{_WHERE} IS NULL")
    if isinstance(view.window, Tumbling):
        columns.append(f"{_window_start(view.source.event_time, view.window)} AS {WINDOW}")
    evaluated = f"SELECT {', '.join(columns) or '1'} FROM {events}"
    judged = f"SELECT *, {_reason(failures, list(values.values()))} AS {REASON} FROM ({evaluated})"

    groups = [(name, values[key.canonical].plain) for name, key in bound.keys]
    groups += [(WINDOW, WINDOW)] if isinstance(view.window, Tumbling) else []
    # A rejected event has no place among the keys: all of one reason are one group.
    grouped = [f"CASE WHEN {REASON} IS NULL THEN {value} END AS {quoted(name)}" for name, value in groups]
    states = [
        f"{state.fold.format(*(values[expression.canonical].plain for expression in measure.inputs))} AS {quoted(name)}"
        for measure in bound.measures
        for name, state in measure.states
    ]
    return f"SELECT {', '.join([REASON, f'count(*) AS {COUNT}', *grouped, *states])} FROM ({judged}) GROUP BY ALL"


def _window_start(event_time: str, window: Tumbling) -> str:
    """The start of the window in microseconds since 1970; SQL's % has the sign of its left side, so it is asked twice."""
    time, size = f"epoch_us({quoted(event_time)})", window.size_us
    return f"{time} - ({time} % {size} + {size}) % {size}"


def _reason(failures: list[str], values: list[_Value]) -> str:
    """The index of the first reason against an event: that an expression failed, else what is wrong with a value."""
    cases = [f"WHEN {failure} THEN {REASONS.index('expression')}" for failure in failures]
    cases += [
        f"WHEN {objection} THEN {REASONS.index(reason)}"
        for value in values
        for objection, reason in objections(value.plain, value.expression.type)
        if value.fallible or value.expression.type.kind == "float"
    ]
    return f"CAST(CASE {' '.join(cases)} END AS TINYINT)" if cases else "CAST(NULL AS TINYINT)"
