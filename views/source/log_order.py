"""The order of the log: by topic generation, partition, offset and, in a list, index. It does not depend on the order of a
table's rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tandem.views.arrow.python_values import array
from tandem.views.source.source import INDEX, REJECTED_INDEX, Source
from tandem.views.source.value_types import HUGE_INTEGER, INTEGER

Rows = npt.NDArray[np.int64]
Places = npt.NDArray[np.generic]

GENERATION: Final = pa.field("_generation", pa.int64())
"""The column with the number of an event's topic among its source's topics, 0 for the oldest."""

_INDEXES: Final = 2**31
"""The number of possible indexes at an offset."""


def log_order(events: pa.Table, generations: Sequence[str] = ()) -> Rows:
    """The rows of an events table in the order of the log.

    `generations` are the ids of its topics, the oldest first; those that are not among them come after, by id.
    """
    topics = pc.dictionary_encode(events["_topic_id"].combine_chunks())
    # The dictionary is in order of appearance, not by age of topics.
    ids = topics.dictionary.to_pylist()
    known = dict.fromkeys((*generations, *sorted(ids)))
    ages = {topic: age for age, topic in enumerate(known)}
    places = np.array([ages[topic] for topic in ids], dtype=np.int64)
    ordered = places[topics.indices.to_numpy()] if events.num_rows else np.empty(0, dtype=np.int64)
    columns = [*([INDEX] if INDEX in events.column_names else []), "_offset", "_partition"]
    return np.lexsort((*(events[name].to_numpy() for name in columns), ordered))


def with_generation(events: pa.Table, generations: Sequence[str] = ()) -> pa.Table:
    """The events with their generation, if they have a topic.

    `generations` are the ids of the source's topics, the oldest first; it may be empty if all events are of one topic. Raises
    ValueError if an event is of another topic.
    """
    if "_topic_id" not in events.column_names:
        return events
    topics = events["_topic_id"]
    known = array(generations, pa.string()) if generations else topics.unique()
    numbers = pc.index_in(topics, value_set=known)
    if numbers.null_count or (not generations and len(known) > 1):
        raise ValueError(f"events of the topics {topics.unique().to_pylist()} are not all of the generations {list(generations)}")
    return events.append_column(GENERATION, numbers.cast(GENERATION.type))


def places(events: pa.Table) -> Places:
    """A value per event that identifies and orders the events of a partition: its offset, with its index if it has one.

    It compares with those of other events of the source.
    """
    offsets: Places = events["_offset"].to_numpy()
    if INDEX not in events.column_names:
        return offsets
    # Big-endian bytes sort as the numbers do. numpy ignores trailing zeros, which is harmless because all have one width.
    pairs = np.empty(len(offsets), np.dtype([("offset", ">i8"), ("index", ">i4")]))
    pairs["offset"], pairs["index"] = offsets, events[INDEX].to_numpy()
    return pairs.view("S12")


def place_sql(source: Source) -> str:
    """SQL for a number that identifies and orders the events of a partition."""
    if source.max_events_per_record is None:
        return '"_offset"'
    return f'CAST(CAST("_offset" AS HUGEINT) * {_INDEXES} + {INDEX} AS {HUGE_INTEGER.sql})'


def place_type(source: Source) -> pa.DataType:
    """The type of that number."""
    return (INTEGER if source.max_events_per_record is None else HUGE_INTEGER).arrow


def offset_sql(source: Source, place: str) -> str:
    """SQL for the offset of an event, of the number that `place_sql` makes."""
    return place if source.max_events_per_record is None else f"CAST({place} // {_INDEXES} AS BIGINT)"


def further(events: pa.Table) -> int:
    """The number of events that are not the first of their record."""
    return int(np.count_nonzero(events[INDEX].to_numpy())) if INDEX in events.column_names else 0


@dataclass(frozen=True)
class RejectedEvents:
    """How many rejects are an event of a list, and how many of these events are not the first of their record."""

    events: int = 0
    further: int = 0

    def __add__(self, other: "RejectedEvents") -> "RejectedEvents":
        return RejectedEvents(self.events + other.events, self.further + other.further)


NONE_REJECTED: Final = RejectedEvents()


def event_rejects(rejects: pa.Table) -> RejectedEvents:
    """The rejects that are an event of a list, counted; other rejects are whole records."""
    if REJECTED_INDEX.name not in rejects.column_names:
        return NONE_REJECTED
    indexes = rejects[REJECTED_INDEX.name].drop_null().to_numpy()
    return RejectedEvents(len(indexes), int(np.count_nonzero(indexes)))
