"""The events that a view counts, each with its key, when and where it was, and what the measures look at."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tandem.views.arrow import arrays
from tandem.views.measures import Measure
from tandem.views.measures.derived import Derived
from tandem.views.measures.filtered import Filtered
from tandem.views.measures.measure import EVENT_TIME, LOG_ORDER, POSITION
from tandem.views.oracle.expressions import Rejected, evaluated
from tandem.views.oracle.times import event_times
from tandem.views.oracle.versions import lookup_rows
from tandem.views.source.log_order import GENERATION
from tandem.views.source.source import INDEX
from tandem.views.sql.expressions import Reason
from tandem.views.view import View, bind

Place = tuple[str, int, int, int]
"""Topic id, partition, offset and index: the index is 0 where a value holds one event."""

NUMBER: Final = "_number"
"""The column with the number of a row."""

WHEN_AND_WHERE: Final = (EVENT_TIME, *POSITION, *LOG_ORDER)
"""Inputs of measures that are not among those of a row: its time and place."""


@dataclass(frozen=True)
class CountedRow:
    """An event that counts, or one of the rows that its source made of it.

    `generation` is how many of the source's topics came before the event's. `windowed` is what the window looks at, None if that
    is NULL or nothing. `inputs` has by measure the values of its expressions, and nothing of a measure whose filter leaves the
    event out. `number` tells rows apart.
    """

    key: tuple[Any, ...]
    at: datetime
    generation: int
    place: Place
    windowed: Any
    inputs: Mapping[str, tuple[Any, ...]]
    number: int


Rejections = list[tuple[int, Reason]]
"""The numbers of the rows that a view rejects, with the reasons."""


def counted_rows(
    view: View, events: pa.Table, versions: Mapping[str, pa.Table] | None = None
) -> tuple[list[CountedRow], Rejections]:
    """The rows that the view counts, and those that it rejects; `events` are those that its source prepared.

    `versions` are those of the tables in which it looks up, by name of the view of versions. An event that has a look-up's column
    keeps the row that it has.

    A row's number is the one in the column NUMBER, or in these events.
    """
    rejected: Rejections = []
    if NUMBER not in events.column_names:
        events = with_numbers(events)
    if not view.lookup.keys() <= {*events.column_names}:
        for name, column in lookup_rows(view, events, versions or {}).items():
            events = events.append_column(name, column)
    rejecting = [name for name, lookup in view.lookup.items() if lookup.reject]
    if view.where is not None:
        held = evaluated(view.where, events)
        both = zip(events[NUMBER].to_pylist(), held, strict=True)
        rejected += [(number, value.reason) for number, value in both if isinstance(value, Rejected)]
        missing = _without_row(events, [name for name in rejecting if name in bind(view).lookups_of_filter])
        counting = zip(held, missing, strict=True)
        events = _where(events, [value is True or (lacks and not isinstance(value, Rejected)) for value, lacks in counting])
    keys = [evaluated(text, events) for text in view.keys.values()]
    by = [evaluated(text, events) for lookup in view.lookup.values() for _, text in lookup.key]
    unmatched = _without_row(events, rejecting)
    windowed = [evaluated(text, events) for text in view.window.inputs]
    measured = {name: _inputs(one, events) for name, one in view.measures.items() if not isinstance(one, Derived)}
    times = event_times(view.source, events)
    generations, numbers = events[GENERATION.name].to_pylist(), events[NUMBER].to_pylist()
    rows = []
    for number, (at, generation, place) in enumerate(zip(times, generations, places(events), strict=True)):
        key = tuple(column[number] for column in keys)
        looked_at = [column[number] for column in windowed]
        inputs = {name: given for name, column in measured.items() if (given := column[number]) is not None}
        values = (*key, *(column[number] for column in by), *looked_at, *chain.from_iterable(inputs.values()))
        reasons = [value.reason for value in values if isinstance(value, Rejected)]
        reasons += ["unmatched"] if unmatched[number] else []
        if reasons:
            # A failed expression is reported before a row that is missing, and that before a value that does not fit its type.
            first = next((each for each in ("expression", "unmatched") if each in reasons), reasons[0])
            rejected.append((numbers[number], first))
        else:
            windowed_by = looked_at[0] if looked_at else None
            rows.append(CountedRow(key, at, generation, place, windowed_by, inputs, numbers[number]))
    return rows, rejected


def _without_row(events: pa.Table, lookups: Sequence[str]) -> list[bool]:
    """For each event whether one of these look-ups has no row."""
    columns = [events[name].to_pylist() for name in lookups]
    return [any(column[number] is None for column in columns) for number in range(events.num_rows)]


def with_numbers(events: pa.Table) -> pa.Table:
    """The rows with their numbers."""
    return events.append_column(NUMBER, pa.array(range(events.num_rows), pa.int64()))


def places(events: pa.Table) -> Iterator[Place]:
    """Where in the log each event was."""
    columns = [events[name].to_pylist() for name in ("_topic_id", "_partition", "_offset")]
    index = events[INDEX].to_pylist() if INDEX in events.column_names else [0] * events.num_rows
    return zip(*columns, index, strict=True)


def _inputs(measure: Measure, events: pa.Table) -> list[tuple[Any, ...] | None]:
    """What the measure's own expressions give for each event; None where its filter is not true, which they then do not see."""
    if not isinstance(measure, Filtered):
        columns = [evaluated(text, events) for text in measure.inputs if text not in WHEN_AND_WHERE]
        return list(zip(*columns, strict=True)) if columns else [()] * events.num_rows
    held = evaluated(measure.filter, events)
    inner = iter(_inputs(measure.measure, _where(events, [value is True for value in held])))
    return [next(inner) if value is True else (value,) if isinstance(value, Rejected) else None for value in held]


def _where(events: pa.Table, chosen: Sequence[bool]) -> pa.Table:
    return events.take(arrays.from_numpy(np.flatnonzero(np.array(chosen, dtype=bool)), pa.int64()))
