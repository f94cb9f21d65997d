"""Windows that follow the order of the log: every N events of a key, the last N, a value that moved, a marker event.

Order exists within one partition, so topic and partition are always keys of such a window. States are *runs*: consecutive events
of a key in its partition, with their number.

* A part of the log does not know what was before it, so each of its events is a run of its own, and merging collects runs.
* States from the log's start on know where windows begin, so `settle` makes each window one run.
* Windows are numbered when an answer is presented, over all runs, so the answer is the same for every cut of the log.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tandem.views.arrow import arrays
from tandem.views.definition_text import call
from tandem.views.errors import DefinitionError
from tandem.views.source.log_order import place_sql, place_type
from tandem.views.source.source import Source, position_columns
from tandem.views.source.value_types import ValueType
from tandem.views.sql import engine
from tandem.views.sql.engine import quoted
from tandem.views.windows.placement import (
    BOUNDS,
    COMPLETE,
    REASON,
    WINDOW_COLUMNS,
    Columns,
    EventInputs,
    Layer,
    Placement,
    Step,
    Steps,
)

PARTITION: Final = (pa.field("topic_id", pa.string()), pa.field("partition", pa.int64()))
NUMBER: Final = pa.field("window_number", pa.int64())

_OFFSET: Final = "offset"
"""The number of an event in its partition; of a run, that of its first event."""
_EVENTS: Final = pa.field("events", pa.int64())
_MOST_EVENTS: Final = 1_000_000
_AT: Final = "_at"
_RUNS: Final = "_runs"
_ROW: Final = "_row"
_PLACE: Final = "_place"
_WHERE: Final = ("_topic_id", "_partition", _PLACE)

# Each event is a group of its own.
_EVENT: Final = dict(zip((*(column.name for column in PARTITION), _OFFSET), _WHERE, strict=True))
_EVENT_BOUNDS: Final = {WINDOW_COLUMNS[0]: f"min({_AT})", WINDOW_COLUMNS[1]: f"max({_AT})"}
_BETWEEN: Final = {WINDOW_COLUMNS[0]: f"min({WINDOW_COLUMNS[0]})", WINDOW_COLUMNS[1]: f"max({WINDOW_COLUMNS[1]})"}

Numbers = npt.NDArray[np.int64]
Number = Callable[[pa.Table, Numbers], tuple[Numbers, Numbers]]
"""From runs in order, and where each key's runs begin (and the last key's end), to windows.

The first result is the number of each run's window. The second is, by key, the number of the window of the next event, or of the
last window where that depends on the event.
"""


@dataclass(frozen=True)
class CountWindow:
    """Tumbling windows of N events of a key, in the order of the log; the last one may have fewer."""

    size: int

    def __post_init__(self) -> None:
        _check_events(self.size)

    def __str__(self) -> str:
        return call("count_window", self.size)

    @property
    def inputs(self) -> tuple[str, ...]:
        """None: the window depends on the order alone."""
        return ()

    def bind(self, source: Source, types: Sequence[ValueType]) -> Placement:  # noqa: ARG002  it has no inputs
        """Runs with their number of events."""
        return _numbered(source, None, self._number)

    def _number(self, runs: pa.Table, bounds: Numbers) -> tuple[Numbers, Numbers]:
        before, after = _sums(arrays.integers(arrays.whole(runs[_EVENTS.name])), bounds)
        return before // self.size, after // self.size


@dataclass(frozen=True)
class SlidingCountWindow:
    """One window per key: its last N events in the order of the log."""

    size: int

    def __post_init__(self) -> None:
        _check_events(self.size)

    def __str__(self) -> str:
        return call("sliding_count_window", self.size)

    @property
    def inputs(self) -> tuple[str, ...]:
        """None: the window depends on the order alone."""
        return ()

    def bind(self, source: Source, types: Sequence[ValueType]) -> Placement:  # noqa: ARG002  it has no inputs
        """The last N events, each a run; every fold and merge drops earlier ones."""
        names = [*(column.name for column in PARTITION), _OFFSET]
        columns = (*BOUNDS, *PARTITION, pa.field(_OFFSET, place_type(source)))
        return Placement(
            Steps(
                fold=Step(_EVENT, _EVENT_BOUNDS, layer=self._last(_WHERE, f"{REASON} IS NOT NULL OR ")),
                merge=Step({c.name: quoted(c.name) for c in columns}, layer=self._last(names, "")),
                arrange=Step({c.name: quoted(c.name) for c in PARTITION}, _BETWEEN | {COMPLETE.name: "false"}),
            ),
            Columns(states=columns, answers=(*BOUNDS, *PARTITION)),
            EventInputs(_event_columns(source), reads=position_columns(source)),
            independent=False,
            in_order=True,
        )

    def _last(self, names: Sequence[str], always: str) -> Layer:
        """Keep the last events of each key, and all rejected events, because these are counted."""
        topic, partition, offset = map(quoted, names)

        def layer(rows: str, within: str) -> str:
            place = f"row_number() OVER (PARTITION BY {within}, {topic}, {partition} ORDER BY {offset} DESC)"
            return f"(SELECT * FROM {rows} QUALIFY {always}{place} <= {self.size})"

        return layer


@dataclass(frozen=True)
class Delta:
    """A new window when a value has moved by `by` from the first value of the window, up or down; nulls do not count."""

    expression: str
    by: int | float | Decimal

    def __post_init__(self) -> None:
        """Raises DefinitionError if `by` is not a positive number."""
        number = isinstance(self.by, int | float | Decimal) and not isinstance(self.by, bool) and Decimal(self.by).is_finite()
        if not number or self.by <= 0:
            raise DefinitionError(f"by {self.by!r} is not a number above 0, such as 0.5")

    def __str__(self) -> str:
        return call("delta", self.expression, by=self.by)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The value."""
        return (self.expression,)

    def bind(self, source: Source, types: Sequence[ValueType]) -> Placement:
        """Runs with their first value. Raises DefinitionError for a value that is not a number."""
        (value,) = types
        if not value.number:
            raise DefinitionError(f"is of type {value.sql}; delta takes a number")
        if value.kind == "float" and Decimal(self.by) > sys.float_info.max:
            raise DefinitionError(f"is of type {value.sql}, whose values never differ by {self.by!r}")
        first = pa.field("first_value", value.arrow)
        kept = f'arg_min({quoted(first.name)}, "offset")'  # of those that are not null
        return _numbered(source, (first, "{0}", kept), self._number)

    def _number(self, runs: pa.Table, bounds: Numbers) -> tuple[Numbers, Numbers]:
        column = arrays.whole(runs["first_value"])
        by: Any = self.by
        if pa.types.is_floating(column.type):
            values: list[Any] = column.to_pylist()
            by = float(by)
        elif pa.types.is_decimal(column.type):
            scale = column.type.scale
            values, by = arrays.unscaled(column.cast(pa.decimal128(38, scale))), Fraction(str(by)) * 10**scale
        else:
            values, by = column.to_pylist(), Fraction(str(by))
        numbers = np.zeros(len(values), np.int64)
        for start, to in pairwise(bounds.tolist()):
            number, first = 0, None
            for row in range(start, to):
                value = values[row]
                if value is not None:
                    if first is None:
                        first = value
                    elif abs(value - first) >= by:
                        number, first = number + 1, value
                numbers[row] = number
        return numbers, numbers[bounds[1:] - 1]


@dataclass(frozen=True)
class Punctuation:
    """Windows that end with an event for which the condition is true, which is the last of its window."""

    condition: str

    def __str__(self) -> str:
        return call("punctuation", self.condition)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The condition."""
        return (self.condition,)

    def bind(self, source: Source, types: Sequence[ValueType]) -> Placement:
        """Runs with a flag for the end of a window. Raises DefinitionError for an expression that is not a condition."""
        (value,) = types
        if value.kind != "boolean":
            raise DefinitionError(f"is of type {value.sql}; punctuation takes a condition")
        closes = pa.field("closes", pa.bool_())
        return _numbered(source, (closes, "coalesce({0}, false)", "bool_or(closes)"), self._number)

    def _number(self, runs: pa.Table, bounds: Numbers) -> tuple[Numbers, Numbers]:
        return _sums(arrays.integers(arrays.whole(runs["closes"].cast(pa.int64()))), bounds)


def count_window(size: int) -> CountWindow:
    """Windows of N events of a key: `count_window(100)`."""
    return CountWindow(size)


def sliding_count_window(size: int) -> SlidingCountWindow:
    """The last N events of a key: `sliding_count_window(10)`."""
    return SlidingCountWindow(size)


def delta(expression: str, *, by: float | Decimal) -> Delta:
    """A new window when a value has moved: `delta("celsius", by=0.5)`."""
    return Delta(expression, by)


def punctuation(condition: str) -> Punctuation:
    """A window ends with an event that meets a condition: `punctuation("kind = 'end'")`."""
    return Punctuation(condition)


def _numbered(source: Source, extra: tuple[pa.Field, str, str] | None, number: Number) -> Placement:
    """Runs, and windows by number. `extra` is one more column of runs, its SQL for an event, and its SQL for a run of runs."""
    columns = (*BOUNDS, *PARTITION, pa.field(_OFFSET, place_type(source)), _EVENTS)
    if extra is not None:
        columns = (*columns, extra[0])
    groups = {column.name: quoted(column.name) for column in (*PARTITION, NUMBER)}
    joined = {**_BETWEEN, _OFFSET: 'min("offset")', _EVENTS.name: "CAST(sum(events) AS BIGINT)"}
    own = _EVENT | ({} if extra is None else {extra[0].name: extra[1]})
    step = Step(groups, joined | ({} if extra is None else {extra[0].name: extra[2]}), prepare=_with_numbers(number))
    return Placement(
        Steps(
            fold=Step(own, _EVENT_BOUNDS | {_EVENTS.name: "count(*)"}),
            merge=Step({column.name: quoted(column.name) for column in columns}),
            settle=step,
            arrange=Step(groups, _BETWEEN | {COMPLETE.name: f"bool_and({COMPLETE.name})"}, prepare=_with_numbers(number)),
        ),
        Columns(states=columns, answers=(*BOUNDS, *PARTITION, NUMBER)),
        EventInputs(_event_columns(source), reads=position_columns(source)),
        independent=False,
        in_order=True,
    )


def _event_columns(source: Source) -> dict[str, str]:
    if source.prepare is not None:
        raise DefinitionError(
            f"follows the order of the log, in which the rows that {source.prepare.__name__} makes of one event have none"
        )
    return {_AT: quoted(source.time_column), **{name: name for name in _WHERE}, _PLACE: place_sql(source)}


def _with_numbers(number: Number) -> Callable[[pa.Table, Sequence[str]], pa.Table]:
    def prepared(runs: pa.Table, keys: Sequence[str]) -> pa.Table:
        """The runs, each with the number of its window, and whether the log already has a later window of the key."""
        numbered = runs.append_column(_ROW, arrays.from_numpy(np.arange(len(runs)), pa.int64()))
        within = ", ".join(quoted(name) for name in (*keys, *(column.name for column in PARTITION)))
        sql = f'SELECT {_ROW}, dense_rank() OVER (ORDER BY {within}) AS _key FROM {_RUNS} ORDER BY _key, "offset"'
        order = engine.query(sql, {_RUNS: numbered})
        rows, places = (arrays.integers(arrays.whole(order[name])) for name in (_ROW, "_key"))
        bounds = np.concatenate([np.flatnonzero(np.diff(places, prepend=0)), [len(places)]])
        inorder = runs.take(arrays.from_numpy(rows, pa.int64()))
        numbers, nexts = number(inorder, bounds)
        complete = (numbers < np.repeat(nexts, np.diff(bounds))).astype(np.int64)
        inorder = inorder.append_column(NUMBER.name, arrays.from_numpy(numbers, pa.int64()))
        return inorder.append_column(COMPLETE, arrays.from_numpy(complete, pa.int64()).cast(COMPLETE.type))

    return prepared


def _sums(counts: Numbers, bounds: Numbers) -> tuple[Numbers, Numbers]:
    """The sum of the counts of each key's earlier runs, for each run, and of all the key's runs, for each key."""
    sums = np.concatenate([[0], np.cumsum(counts)])
    before: Numbers = sums[:-1] - np.repeat(sums[bounds[:-1]], np.diff(bounds))
    return before, np.diff(sums[bounds])


def _check_events(size: int) -> None:
    if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= _MOST_EVENTS:
        raise DefinitionError(f"a window of {size!r} events is not possible; expected a whole number from 1 to {_MOST_EVENTS}")
