"""Pairs of events: a left one, and a right one after it in time. An interval join inside a key and window.

The right event is after the left one in the order of all events (time, generation, partition, offset, index), at most `within`
later.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, Final

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
    def inputs(self) -> tuple[str, ...]:
        """The event's time and place, both conditions, and `by`."""
        return (*PLACE_INPUTS, *self.conditions, *(() if self.by is None else (self.by,)))

    @property
    def conditions(self) -> tuple[str, ...]:
        """Of left and of right events."""
        return (self.left, self.right)

    def bind(self, types: Sequence[ValueType]) -> Aggregate:
        """Exact. The state is the set of events that are left or right ones, with 1 for left and 2 for right."""
        left, right, by = (f"{{{len(PLACE) + number}}}" for number in range(3))
        of_user = {} if self.by is None else {"by": (types[-1].arrow, by)}
        state = event_set(
            {"sides": (pa.int64(), f"CAST(CASE WHEN {left} THEN 1 ELSE 0 END + CASE WHEN {right} THEN 2 ELSE 0 END AS BIGINT)")}
            | of_user,
            where=f"({left} OR {right})" + (f" AND {by} IS NOT NULL" if of_user else ""),
            limit=self.limit,
        )
        return Aggregate((state,), _ANSWER, "struct", lambda columns: self._present(columns[0]))

    def _present(self, sets: pa.ListArray) -> pa.Array:
        """The answers of states."""
        lengths = arrays.lengths(sets)
        waits = _Waits.none(len(sets))
        if lengths.any():
            waits.add(event_sequences(sets, lengths, None if self.by is None else "by"), self.within // MICROSECOND, self.first)
        within_limit = ~arrays.validity(sets) | (lengths > 0)
        return pa.StructArray.from_arrays(waits.columns(), fields=[*_ANSWER], mask=arrays.booleans(~within_limit))


def pairs(
    left: str,
    right: str,
    *,
    within: timedelta,
    by: str | None = None,
    first: bool = False,
    limit: int = 10_000,
    filter: str | None = None,  # noqa: A002  the word of SQL
    of: Source | None = None,
) -> Measure:
    """Left events and right ones that follow: `pairs("kind = 'seen'", "kind = 'click'", within=timedelta(hours=1), by="user")`.

    A struct: the `count` of pairs, how many left events are `matched`, the seconds that all pairs `wait`, the `shortest` and the
    `longest`. It is null with more than `limit` such events, at most 100 000.
    """
    return filtered(EventPairs(left, right, within, by, first, limit), filter, of)


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

    def add(self, events: EventSequences, within: int, first: bool) -> None:  # noqa: FBT001  the measure's
        """Add the pairs of events. Right events have numbers in order: a left event's are those from `start` to before `end`."""
        sides = events.bits("sides")
        left, right = np.flatnonzero(sides & 1), (sides & 2).astype(bool)
        before = np.cumsum(right)  # the right events up to each one, itself included
        start = before[left]
        end = _until(events, left, events.time[left] + within, before)
        if first:
            end = np.minimum(end, start + 1)
        some = end > start
        left, start, end = left[some], start[some], end[some]
        times, begin, group = events.time[right], events.time[left], events.group[left]
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
