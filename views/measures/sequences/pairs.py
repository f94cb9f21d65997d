"""Pairs of events: a left one, and a right one after it in time. An interval join inside a key and window.

The right event is after the left one in the order of all events (time, generation, partition, offset, index), at most `within`
later.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tandem.views.arrow import arrays
from tandem.views.definition_text import call
from tandem.views.errors import DefinitionError
from tandem.views.instant import MICROSECOND
from tandem.views.measures.filtered import filtered
from tandem.views.measures.measure import Aggregate, Facts, Measure
from tandem.views.measures.states.distinct_set import check_limit
from tandem.views.measures.states.event_set import PLACE, PLACE_INPUTS, EventSequences, event_sequences, event_set
from tandem.views.source.source import Source
from tandem.views.source.value_types import INTEGER, ValueType, answer_field

Integers = npt.NDArray[np.int64]
Objects = npt.NDArray[Any]
"""Integers of Python, of any size."""

LEFT_TOTAL: Final = "left_total"
RIGHT_TOTAL: Final = "right_total"
_DIGITS_38: Final = 10**38
SECONDS: Final = ValueType("decimal", "DECIMAL(38,6)", pa.decimal128(38, 6))
_LONGEST: Final = timedelta(days=1000)
"""So that the waits of one left event with all of the right ones are added in 64 bits."""
_ANSWER: Final = pa.struct(
    [
        answer_field("count", INTEGER),
        answer_field("matched", INTEGER),
        *(answer_field(name, SECONDS) for name in ("wait", "shortest", "longest")),
    ]
)


@dataclass(frozen=True)
class EventPairs:
    """The number of pairs, of left events in one, and the seconds between: in total, the fewest, the most.

    The answer is null if more than `limit` events are left or right ones. With `by`, both events of a pair have one value of it;
    events where it is null are ignored. With `first`, a left event is in one pair, with the first of its right ones.
    """

    facts: ClassVar = Facts(
        merge="all events of both hashed and sorted",
        inverse="no",
        source="union of sets; of each left event the range of its right ones, and sums of times up to each event",
        varying="at most `limit` events, 40 and `by` for each; none once there were more",
    )

    left: str
    right: str
    within: timedelta
    by: str | None
    first: bool
    limit: int

    def __post_init__(self) -> None:
        """Raises DefinitionError for an invalid length of time, limit or `first`."""
        if not isinstance(self.within, timedelta) or not timedelta(0) < self.within <= _LONGEST:
            raise DefinitionError(
                f"within {self.within!r} is not a positive timedelta of at most {_LONGEST.days} days, such as "
                "timedelta(minutes=30)"
            )
        if not isinstance(self.first, bool):
            raise DefinitionError(f"first {self.first!r} is neither True nor False")
        check_limit(self.limit)

    def __str__(self) -> str:
        return call("pairs", self.left, self.right, within=self.within, by=self.by, first=self.first, limit=self.limit)

    @property
    def values(self) -> Mapping[str, str]:
        """By field of the answer what it adds up; none."""
        return {}

    @property
    def inputs(self) -> tuple[str, ...]:
        """The event's time and place, both conditions, `by`, and what the answer adds up."""
        return (*PLACE_INPUTS, *self.conditions, *(() if self.by is None else (self.by,)), *self.values.values())

    @property
    def conditions(self) -> tuple[str, ...]:
        """Of left and of right events."""
        return (self.left, self.right)

    def bind(self, types: Sequence[ValueType]) -> Aggregate:
        """Exact. The state is the set of events that are left or right ones, with 1 for left and 2 for right."""
        first = len(PLACE) + 2 + (self.by is not None)
        left, right, by = (f"{{{len(PLACE) + number}}}" for number in range(3))
        of_user = {} if self.by is None else {"by": (types[first - 1].arrow, by)}
        totals = [_total(name, type_) for name, type_ in zip(self.values, types[first:], strict=True)]
        kept = {
            name: (type_.arrow, f"{{{first + n}}}")
            for n, (name, type_) in enumerate(zip(self.values, types[first:], strict=True))
        }
        state = event_set(
            {"sides": (pa.int64(), f"CAST(CASE WHEN {left} THEN 1 ELSE 0 END + CASE WHEN {right} THEN 2 ELSE 0 END AS BIGINT)")}
            | of_user
            | kept,
            where=f"({left} OR {right})" + (f" AND {by} IS NOT NULL" if of_user else ""),
            limit=self.limit,
        )
        answer = pa.struct([*_ANSWER, *totals])
        return Aggregate((state,), answer, "struct", lambda columns: self._present(columns[0], answer))

    def _present(self, sets: pa.ListArray, answer: pa.StructType) -> pa.Array:
        """The answers of states."""
        lengths = arrays.lengths(sets)
        waits = _Waits.none(len(sets))
        totals = {name: np.zeros(len(sets), object) for name in self.values}
        if lengths.any():
            events = event_sequences(sets, lengths, None if self.by is None else "by")
            joined = _join(events, self.within // MICROSECOND, self.first)
            waits.add(events, joined)
            for name, total in totals.items():
                np.add.at(total, events.group[joined.left], joined.sums(name, _units(events, name)))
        within_limit = ~arrays.validity(sets) | (lengths > 0)
        columns = [*waits.columns(), *(_sums(total, answer.field(name).type) for name, total in totals.items())]
        return pa.StructArray.from_arrays(columns, fields=[*answer], mask=arrays.booleans(~within_limit))


@dataclass(frozen=True)
class ValuedPairs(EventPairs):
    """Pairs whose answer also adds up, over all pairs, a value of the left event and one of the right event; null counts as 0."""

    facts: ClassVar = replace(
        EventPairs.facts,
        varying="at most `limit` events, 40, `by` and the values for each; none once there were more",
    )
    reads_values: ClassVar = True
    """Whether it reads more of an event than conditions, so that the rows of one event need an order."""

    left_value: str | None
    right_value: str | None

    def __str__(self) -> str:
        options = {"within": self.within, "by": self.by, "first": self.first, "limit": self.limit}
        return call("pairs", self.left, self.right, **options, left_value=self.left_value, right_value=self.right_value)

    @property
    def values(self) -> Mapping[str, str]:
        """The total of each side that has a value."""
        totals = {LEFT_TOTAL: self.left_value, RIGHT_TOTAL: self.right_value}
        return {name: text for name, text in totals.items() if text is not None}


def pairs(
    left: str,
    right: str,
    *,
    within: timedelta,
    by: str | None = None,
    first: bool = False,
    limit: int = 10_000,
    left_value: str | None = None,
    right_value: str | None = None,
    filter: str | None = None,  # noqa: A002  the word of SQL
    of: Source | None = None,
) -> Measure:
    """Left events and right ones that follow: `pairs("kind = 'seen'", "kind = 'click'", within=timedelta(hours=1), by="user")`.

    A struct: the `count` of pairs, how many left events are `matched`, the seconds that all pairs `wait`, the `shortest` and the
    `longest`. It is null with more than `limit` such events, at most 100 000.

    * `left_value`, `right_value`: numbers of an event. The answer then has `left_total` and `right_total`, their sums over all
      pairs; so `derived("(p.right_total - p.left_total) / p.count")` is the mean difference.
    """
    if left_value is None and right_value is None:
        return filtered(EventPairs(left, right, within, by, first, limit), filter, of)
    return filtered(ValuedPairs(left, right, within, by, first, limit, left_value, right_value), filter, of)


def _total(name: str, value: ValueType) -> pa.Field:
    """The field of a sum. Raises DefinitionError for values that cannot be added exactly."""
    if value.kind not in ("decimal", "integer"):
        side = name.removesuffix("_total")
        raise DefinitionError(f"{side}_value is of type {value.sql}; it is an integer or a decimal number, so cast it to DECIMAL")
    scale = value.arrow.scale if pa.types.is_decimal(value.arrow) else 0
    return answer_field(name, ValueType(value.kind, f"DECIMAL(38,{scale})", pa.decimal128(38, scale)))


def _units(events: EventSequences, name: str) -> Objects:
    """A value of events as integers of any size that count its smallest unit; 0 where it is null."""
    column = events.at(name, np.arange(len(events.time)))
    if column.type == pa.int64():
        column = column.cast(pa.decimal128(38, 0))
    return np.array([unit or 0 for unit in arrays.unscaled(column)], object)


def _sums(units: Objects, type_: pa.DataType) -> pa.Array:
    """Sums as decimals; null beyond 38 digits."""
    return arrays.decimals([unit if abs(unit) < _DIGITS_38 else None for unit in units.tolist()], type_)


@dataclass
class _Waits:
    """By group: the number of pairs, of left events in one; the microseconds of all pairs as two numbers, high * 2**32 + low; the
    fewest and the most.
    """

    count: Integers
    matched: Integers
    high: Integers
    low: Integers
    shortest: Integers
    longest: Integers

    @classmethod
    def none(cls, groups: int) -> "_Waits":
        """Of groups without pairs."""
        count, matched, high, low = (np.zeros(groups, np.int64) for _ in range(4))
        return cls(count, matched, high, low, np.full(groups, 2**63 - 1), np.full(groups, -1))

    def add(self, events: EventSequences, joined: "_Joined") -> None:
        """Add the pairs of events."""
        start, end = joined.start, joined.end
        times, begin, group = events.time[joined.right], events.time[joined.left], events.group[joined.left]
        sums = np.concatenate(([0], np.cumsum(times)))  # They may wrap; their differences are right, modulo 2**64.
        waits = sums[end] - sums[start] - (end - start) * begin
        np.add.at(self.count, group, end - start)
        np.add.at(self.matched, group, 1)
        np.add.at(self.high, group, waits >> 32)
        np.add.at(self.low, group, waits & (2**32 - 1))
        np.minimum.at(self.shortest, group, times[start] - begin)
        np.maximum.at(self.longest, group, times[end - 1] - begin)

    def columns(self) -> list[pa.Array]:
        """As fields of the answer."""
        total = [(high << 32) + low for high, low in zip(self.high.tolist(), self.low.tolist(), strict=True)]
        counts = self.count.tolist()

        def extreme(waits: Integers) -> list[int | None]:
            return [wait if count else None for wait, count in zip(waits.tolist(), counts, strict=True)]

        return [
            *(arrays.from_numpy(numbers, pa.int64()) for numbers in (self.count, self.matched)),
            *(arrays.decimals(numbers, SECONDS.arrow) for numbers in (total, extreme(self.shortest), extreme(self.longest))),
        ]


@dataclass(frozen=True)
class _Joined:
    """The `left` events that are in pairs, which events are `right` ones, and which of these are in pairs with each left one.

    Right events have numbers in order: a left event's are those from `start` to before `end`.
    """

    left: Integers
    right: npt.NDArray[np.bool_]
    start: Integers
    end: Integers

    def sums(self, side: str, units: Objects) -> Objects:
        """By left event the sum over its pairs of what one side has, of the values of all events."""
        running: Objects = np.concatenate((np.zeros(1, object), np.cumsum(units[self.right])))
        sums: Objects = (
            units[self.left] * (self.end - self.start) if side == LEFT_TOTAL else running[self.end] - running[self.start]
        )
        return sums


def _join(events: EventSequences, within: int, first: bool) -> _Joined:  # noqa: FBT001  the measure's
    """The pairs of events."""
    sides = events.bits("sides")
    left, right = np.flatnonzero(sides & 1), (sides & 2).astype(bool)
    before = np.cumsum(right)  # the right events up to each one, itself included
    start = before[left]
    end = _until(events, left, events.time[left] + within, before)
    if first:
        end = np.minimum(end, start + 1)
    some = end > start
    return _Joined(left[some], right, start[some], end[some])


def _until(events: EventSequences, left: Integers, deadline: Integers, before: Integers) -> Integers:
    """How many right events are up to the deadline of each left one, in its sequence or before it.

    Deadlines are put in order with the events, after those at the same time.
    """
    number = len(events.time)
    sequence, times = np.concatenate((events.begin, events.begin[left])), np.concatenate((events.time, deadline))
    order = np.lexsort((np.arange(len(times)) >= number, times, sequence))
    marks, up_to = order >= number, np.empty(len(left), np.int64)
    up_to[order[marks] - number] = before[np.cumsum(~marks)[marks] - 1]
    return up_to
