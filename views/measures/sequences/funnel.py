"""How many users got how far through a sequence of steps.

An attempt of a user begins with an event of the first step. It reaches a further step with an event of that step which is after
the event of the step before, in the order of all events (time, generation, partition, offset, index), and at most `within` after
the attempt's first event. Other events may lie between. A user counts for every step up to the furthest that any attempt reached.
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
from tandem.views.value_forms import members

Integers = npt.NDArray[np.int64]

_MOST_STEPS: Final = 32
_EXAMPLE: Final = "(\"kind = 'seen'\", \"kind = 'click'\")"


@dataclass(frozen=True)
class Funnel:
    """The numbers of users that reached each step, the first step's first; null if more than `limit` events match a step.

    A user is a value of `by`; events where it is null are ignored, and so are those that match no step.
    """

    facts: ClassVar = Facts(
        merge="all events of both hashed and sorted",
        inverse="no",
        source="union of sets; of each user the latest start that reaches a step, event by event in their order",
        varying="at most `limit` events, 40 and the user for each; none once there were more",
    )

    steps: tuple[str, ...]
    within: timedelta
    by: str
    limit: int

    def __post_init__(self) -> None:
        """Raises DefinitionError for fewer than 2 or more than 32 steps, an invalid length of time or limit."""
        if not 2 <= len(self.steps) <= _MOST_STEPS:
            raise DefinitionError(f"a funnel has 2 to {_MOST_STEPS} steps, such as {_EXAMPLE}; here are {len(self.steps)}")
        if not isinstance(self.within, timedelta) or self.within <= timedelta(0):
            raise DefinitionError(f"within {self.within!r} is not a positive timedelta, such as timedelta(minutes=30)")
        check_limit(self.limit)

    def __str__(self) -> str:
        return call("funnel", self.steps, within=self.within, by=self.by, limit=self.limit)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The event's time and place, the user, and the steps."""
        return (*PLACE_INPUTS, self.by, *self.steps)

    @property
    def conditions(self) -> tuple[str, ...]:
        """The steps."""
        return self.steps

    def bind(self, types: Sequence[ValueType]) -> Aggregate:
        """Exact: a list of 64-bit counts. The state is the set of events that match a step, each with its steps as bits."""
        user, *steps = types[len(PLACE) :]
        met = [f"{{{number}}}" for number in range(len(PLACE) + 1, len(types))]
        bits = " + ".join(f"CASE WHEN {step} THEN {1 << number} ELSE 0 END" for number, step in enumerate(met))
        if any(step.kind != "boolean" for step in steps):
            raise DefinitionError("has a step that is not a condition")
        state = event_set(
            {"steps": (pa.int64(), f"CAST({bits} AS BIGINT)"), "by": (user.arrow, f"{{{len(PLACE)}}}")},
            where=f"{{{len(PLACE)}}} IS NOT NULL AND ({' OR '.join(met)})",
            limit=self.limit,
        )
        answer = pa.list_(answer_field("item", INTEGER))
        within = self.within // MICROSECOND
        return Aggregate((state,), answer, "list", lambda columns: _present(columns[0], len(met), within, answer))


def funnel(
    steps: Sequence[str],
    *,
    within: timedelta,
    by: str,
    limit: int = 10_000,
    filter: str | None = None,  # noqa: A002  the word of SQL
    of: Source | None = None,
) -> Measure:
    """How many users got how far: `funnel(("kind = 'seen'", "kind = 'click'"), within=timedelta(minutes=30), by="user")`.

    The list of their numbers by step. It is null if more than `limit` events match a step, at most 100 000.
    """
    return filtered(Funnel(members("steps", steps, _EXAMPLE), within, by, limit), filter, of)


def _present(sets: pa.ListArray, steps: int, within: int, answer: pa.DataType) -> pa.Array:
    """The answers of states."""
    lengths = arrays.lengths(sets)
    counts = np.zeros((steps, len(sets)), np.int64)
    if lengths.any():
        _count(event_sequences(sets, lengths, "by"), within, counts)
    within_limit = ~arrays.validity(sets) | (lengths > 0)
    numbers = arrays.from_numpy(counts[:, within_limit].T.ravel(), pa.int64())
    return arrays.lists(numbers, np.where(within_limit, steps, 0), answer, within_limit)


def _count(events: EventSequences, within: int, counts: Integers) -> None:
    """Writes to `counts`, by step and group, how many users reached the step.

    `start` is, after each event, the latest first event of an attempt that has reached the step: if an attempt is in time, that
    one is. It is a number of an event, so one before the user's first event is another user's.
    """
    bits, numbers = events.bits("steps"), np.arange(len(events.time))
    start = numbers
    for step in range(len(counts)):
        before = numbers if step == 0 else np.concatenate(([-1], start[:-1]))
        timely = (before >= events.begin) & (events.time - events.time[before] <= within)
        reached = timely & (bits >> step & 1 == 1)
        users = np.unique(events.begin[reached])
        counts[step] = np.bincount(events.group[users], minlength=counts.shape[1])
        start = np.maximum.accumulate(np.where(reached, before, -1))
