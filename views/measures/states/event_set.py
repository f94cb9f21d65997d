"""A set of events, each with its place in the one order of all events: the state of measures that read sequences.

Each event of the set has the fields of PLACE and what a measure reads of it. Folding keeps a set and merging unites sets, so a
late event takes its place among the others, and the answer is computed from all of them when it is presented.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tandem.views.arrow import arrays
from tandem.views.measures.measure import EVENT_TIME, LOG_ORDER, State
from tandem.views.measures.states.distinct_set import distinct_set
from tandem.views.source.event import TIMESTAMP
from tandem.views.sql.engine import quoted

Integers = npt.NDArray[np.int64]

PLACE: Final = {"time": TIMESTAMP, "generation": pa.int64(), "partition": pa.int64(), "offset": pa.int64()}
"""The fields that order events, with their types; `offset` holds the index, too, where a value holds several events."""

PLACE_INPUTS: Final = (EVENT_TIME, *LOG_ORDER)
"""The inputs for PLACE, which a measure that keeps events has first."""


def event_set(reads: Mapping[str, tuple[pa.DataType, str]], *, where: str, limit: int) -> State:
    """The events for which `where` is true, in order; the empty list as soon as there are more than `limit`, for good.

    It is null without an event. `reads` are further fields, with their types and SQL over the inputs. PLACE_INPUTS come first.
    """
    fields = {name: (type_, f"{{{number}}}") for number, (name, type_) in enumerate(PLACE.items())} | dict(reads)
    packed = ", ".join(f"{quoted(name)} := {sql}" for name, (_, sql) in fields.items())
    item = pa.struct([(name, type_) for name, (type_, _) in fields.items()])
    return distinct_set("events", item, f"struct_pack({packed})", where=where, limit=limit)


@dataclass(frozen=True)
class EventSequences:
    """The events of sets, group by group and there sequence by sequence, each in order.

    The rows that a source makes of one event are one event. By event: the number of its group and of its sequence's first event,
    the time in microseconds.
    """

    fields: Mapping[str, pa.Array]
    order: Integers
    rows: Integers
    group: Integers
    begin: Integers
    time: Integers

    @property
    def last(self) -> npt.NDArray[np.bool_]:
        """True for the last event of each sequence."""
        return np.append(self.begin[1:] != self.begin[:-1], True)

    def bits(self, field: str) -> Integers:
        """A field with bits, of all rows of an event."""
        bits: Integers = np.bitwise_or.reduceat(arrays.integers(self.fields[field])[self.order], self.rows)
        return bits

    def away(self, field: str, of: Integers, number: int) -> pa.Array:
        """A field of the events that number of places later in the sequences of these, or earlier; null where there is none."""
        numbers = of + number
        there = np.clip(numbers, 0, len(self.rows) - 1)
        valid = (there == numbers) & (self.begin[there] == self.begin[of])
        return self.at(field, np.where(valid, there, -1))

    def at(self, field: str, numbers: Integers) -> pa.Array:
        """A field of these events; null for the number -1."""
        rows = self.order[self.rows[numbers]]
        return self.fields[field].take(arrays.from_numpy(rows, pa.int64(), numbers >= 0))


def event_sequences(sets: pa.ListArray, lengths: Integers, by: str | None) -> EventSequences:
    """The events of sets with these numbers of events. With `by`, a group has a sequence for each value of that field."""
    elements = sets.flatten()
    fields = {field.name: column for field, column in zip(elements.type, elements.flatten(), strict=True)}
    columns = [np.repeat(np.arange(len(lengths)), lengths)]
    if by is not None:
        columns.append(arrays.integers(fields[by].dictionary_encode().indices.cast(pa.int64())))
    order = np.lexsort(columns[::-1])  # Stable, and each set is sorted by place.
    whose, columns = len(columns), [column[order] for column in (*columns, *(arrays.integers(fields[name]) for name in PLACE))]
    changed = [np.concatenate(([True], column[1:] != column[:-1])) for column in columns]
    rows = np.flatnonzero(np.logical_or.reduce(changed))
    begins = np.logical_or.reduce(changed[:whose])[rows]
    begin = np.maximum.accumulate(np.where(begins, np.arange(len(rows)), 0))
    return EventSequences(fields, order, rows, columns[0][rows], begin, columns[whose][rows])
