"""The SQL that folds events into a view's states.

One statement in layers. The filter comes first and alone, so that no other expression looks at what it leaves out. Then
each expression is evaluated once, wrapped: TRY(struct_pack(v := ...)) is NULL where it fails and {v: NULL} where it gives
NULL, and costs nothing measurable. Then what was rejected gets a reason. Last, all else is grouped by key and window.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

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

_YEAR_1_TO_1970_US: Final = 62_135_596_800_000_000
_YEAR_9999_END_US: Final = 253_402_300_799_999_999
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


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

    Columns: `_reason`, an index into REASONS or NULL; `_count`, the events; the keys; `_window`, for tumbling windows,
    which `window_starts` understands; the states' folds.
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
        columns.append(f"{_window_number(view.source.event_time, view.window)} AS {WINDOW}")
    judged = f"SELECT {', '.join(columns) or '1'} FROM {events}"
    cases = _cases(failures, list(values.values())) + _beyond_time(view)
    if cases:
        judged = f"SELECT *, CAST(CASE {' '.join(cases)} END AS TINYINT) AS {REASON} FROM ({judged})"
    reason = REASON if cases else f"CAST(NULL AS TINYINT) AS {REASON}"

    groups = [(name, values[key.canonical].plain) for name, key in bound.keys]
    groups += [(WINDOW, WINDOW)] if isinstance(view.window, Tumbling) else []
    # A rejected event has no place among the keys: all of one reason are one group.
    kept = f"CASE WHEN {REASON} IS NULL THEN {{}} END" if cases else "{}"
    grouped = [f"{kept.format(value)} AS {quoted(name)}" for name, value in groups]
    states = [
        f"{state.fold.format(*(values[expression.canonical].plain for expression in measure.inputs))} AS {quoted(name)}"
        for measure in bound.measures
        for name, state in measure.states
    ]
    return f"SELECT {', '.join([reason, f'count(*) AS {COUNT}', *grouped, *states])} FROM ({judged}) GROUP BY ALL"


def window_starts(numbers: npt.NDArray[np.int64], window: Tumbling) -> npt.NDArray[np.int64]:
    """The windows' starts in microseconds since 1970, from the statement's `_window`."""
    return (numbers - _windows_before_1970(window)) * window.size_us


def _window_number(event_time: str, window: Tumbling) -> str:
    """Which window an event is in, counted from one before the year 1: SQL divides towards zero, so nothing may be below it."""
    return f"(epoch_us({quoted(event_time)}) + {_windows_before_1970(window) * window.size_us}) // {window.size_us}"


def _beyond_time(view: View) -> list[str]:
    """What rejects an event whose window begins before the year 1 or ends after 9999, where the source lets one in."""
    window = view.window
    if not isinstance(window, Tumbling):
        return []
    first, last = -_YEAR_1_TO_1970_US, _YEAR_9999_END_US
    before, size = _windows_before_1970(window), window.size_us
    low, high = -(-first // size) + before, (last - size) // size + before
    plausible = [(time - _EPOCH) // _MICROSECOND // size + before for time in view.source.plausible]
    if low <= plausible[0] and plausible[1] <= high:
        return []
    return [f"WHEN {WINDOW} NOT BETWEEN {low} AND {high} THEN {REASONS.index('out_of_range')}"]


def _windows_before_1970(window: Tumbling) -> int:
    return _YEAR_1_TO_1970_US // window.size_us + 1


def _cases(failures: list[str], values: list[_Value]) -> list[str]:
    """What finds the index of the first reason against an event: that an expression failed, then what is wrong with a value."""
    return [f"WHEN {failure} THEN {REASONS.index('expression')}" for failure in failures] + [
        f"WHEN {objection} THEN {REASONS.index(reason)}"
        for value in values
        for objection, reason in objections(value.plain, value.expression.type)
        if value.fallible or value.expression.type.kind == "float"
    ]
