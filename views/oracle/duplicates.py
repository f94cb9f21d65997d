"""Which copies of an event count: of equal identity the first in the order of the log, from the source's start on.

Their event times are equal, too, unless the source's identity spans any time.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tandem.views.arrow import arrays
from tandem.views.instant import APPEND_TIME
from tandem.views.oracle.counted_events import Place, places
from tandem.views.source.source import IDEMPOTENCY_KEY, INDEX, Source
from tandem.views.start import PLACED, StartPositions

Identity = tuple[Any, ...]
Firsts = dict[Identity, tuple[int, Place]]
"""By identity where the first copy is: how many generations of topics came before, then the place."""


def identity_columns(source: Source) -> list[str]:
    """What copies have in common; nothing of a source without identity, whose every event counts."""
    if not source.identity:
        return []
    # A key is its record's: the events of a list share it. The items of a record share all its fields.
    shared = IDEMPOTENCY_KEY in source.identity or source.unnest is not None
    index = (INDEX,) if source.max_events_per_record is not None and shared else ()
    time = () if source.identity_spans == "any_time" else (source.time_column,)
    columns = dict.fromkeys((*source.identity, *time, *index))
    return [name for name in columns if name != APPEND_TIME]


def first_places(source: Source, events: Iterable[pa.Table], generations: Sequence[str]) -> Firsts:
    """Where the first of each identity is; `generations` are the ids of topics, the oldest first, other ids come after them."""
    first: Firsts = {}
    for some in (from_start(source, each) for each in events):
        for identity, place in _placed(source, some, generations):
            if identity not in first or place < first[identity]:
                first[identity] = place
    return first


def counted(source: Source, events: pa.Table, first: Firsts, generations: Sequence[str]) -> pa.Table:
    """The events that are the first of their identity, of those from the source's start on."""
    events = from_start(source, events)
    if not identity_columns(source):
        return events
    kept = [first[identity] == place for identity, place in _placed(source, events, generations)]
    return events.take(arrays.from_numpy(np.flatnonzero(np.array(kept, dtype=bool)), pa.int64()))


def from_start(source: Source, events: pa.Table) -> pa.Table:
    """The events from the source's start on."""
    if not isinstance(source.start, StartPositions):
        return events
    first, ends = dict(source.start.offsets), source.start.table_ends
    kept = [
        row
        for row, (topic, number, offset, _) in enumerate(places(events))
        if (offset < ends.get(number, 0) if topic == PLACED else offset >= first.get((topic, number), 0))
    ]
    return events.take(arrays.from_numpy(np.array(kept, dtype=np.int64), pa.int64()))


def _placed(source: Source, events: pa.Table, generations: Sequence[str]) -> Iterator[tuple[Identity, tuple[int, Place]]]:
    ages = {topic: age for age, topic in enumerate(generations)}
    identities = zip(*(events[name].to_pylist() for name in identity_columns(source)), strict=True)
    for identity, place in zip(identities, places(events), strict=True):
        yield identity, (ages.get(place[0], len(ages)), place)
