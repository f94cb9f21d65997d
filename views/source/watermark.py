"""The watermark of a source: how far event time has advanced, from the newest times of its partitions.

A watermark drops and delays nothing. It only labels: windows that are expected to be complete, and events that arrived in a
window after it had been labelled so.

An event is *ahead* if its time is well after its own record's timestamp. This depends on the event's record alone, so both layers
agree on it. An event that is ahead counts like any other, in the window of its event time, but does not advance the watermark:
one wrong clock would change the labels of all windows.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tandem.views.arrow.partitions import by_partition
from tandem.views.instant import APPEND_TIME, GREGORIAN, LAST, MICROSECOND
from tandem.views.source.offset_ranges import Offsets, Partition

if TYPE_CHECKING:
    from tandem.views.source.source import Source

_LEAST: Final = -(2**63)
_MOST: Final = 2**63 - 1


class Newest(NamedTuple):
    """The newest event time and the newest append time of a partition's events that are not ahead, in microseconds since 1970."""

    event_time: int
    append_time: int


Maxima = Mapping[Partition, Newest]
"""The maxima by partition. Partitions without an event that is not ahead are left out."""


def newest(several: Iterable[Maxima]) -> dict[Partition, Newest]:
    """The maxima over several ranges, in any order and grouping."""
    united: dict[Partition, Newest] = {}
    for partition, times in (item for maxima in several for item in maxima.items()):
        known = united.get(partition, times)
        united[partition] = Newest(*map(max, known, times))
    return united


def maxima_to_json(maxima: Maxima) -> list[list[Any]]:
    """A JSON document `[[topic id, partition, event time, append time], ...]`, in order of topic id and partition."""
    return [[*partition, *times] for partition, times in sorted(maxima.items())]


def maxima_from_json(document: Iterable[Sequence[Any]]) -> dict[Partition, Newest]:
    """Inverse of `maxima_to_json`."""
    return {(topic, number): Newest(*times) for topic, number, *times in document}


def event_times(maxima: Maxima) -> Offsets:
    """The newest event times alone, as `late` takes them."""
    return {partition: times.event_time for partition, times in maxima.items()}


def watermark(maxima: Maxima, idle: timedelta) -> int | None:
    """The least of the partitions' newest event times, in microseconds since 1970; None without events.

    A partition is left out while its newest event was appended more than `idle` before the newest of all. Idleness is measured
    in the log's own time, so every reader gets the same result at any time.
    """
    if not maxima:
        return None
    since = max(times.append_time for times in maxima.values()) - idle // MICROSECOND
    return min(times.event_time for times in maxima.values() if times.append_time >= since)


def later(*watermarks: int | None) -> int | None:
    """The furthest of several watermarks; None stands for no watermark.

    A partition that was idle, or is new, may have old event times; then the watermark stays.
    """
    return max((one for one in watermarks if one is not None), default=None)


def least(watermarks: Sequence[int | None]) -> int | None:
    """The watermark of several sources together: the least of theirs; None while one of them has no event."""
    there = [each for each in watermarks if each is not None]
    return min(there) if len(there) == len(watermarks) else None


def final_until(source: "Source", reached: int, grace: timedelta = timedelta(0)) -> int:
    """The watermark less the source's lateness and `grace`: windows that end at or before it are final."""
    return max(_LEAST, reached - (source.lateness + grace) // MICROSECOND)


def ahead(source: "Source", events: pa.Table) -> npt.NDArray[np.bool_]:
    """Which rows have an event time more than `source.clock_skew` after their record's timestamp.

    Reads the columns of the event time and of the append time.
    """
    bound = min(source.clock_skew // MICROSECOND, _MOST)
    times, stamps = (events[name].cast(pa.int64()).to_numpy() for name in (source.time_column, APPEND_TIME))
    mask: npt.NDArray[np.bool_] = times - stamps > bound
    return mask


def off_calendar(events: pa.Table) -> int:
    """How many events have a record's timestamp at the bounds of the calendar, to which `decode` moves what lies outside."""
    stamps = events[APPEND_TIME].cast(pa.int64()).to_numpy()
    return int(((stamps <= GREGORIAN) | (stamps >= LAST)).sum())


def not_ahead(source: "Source", events: pa.Table) -> pa.Table:
    """The events without those that are ahead."""
    wrong = ahead(source, events)
    return events.filter(pa.array(~wrong)) if wrong.any() else events


def maxima_of(source: "Source", events: pa.Table) -> dict[Partition, Newest]:
    """The maxima of events, in any order. It reads the columns of position, append time and event time."""
    events = not_ahead(source, events)
    rows = by_partition(events["_topic_id"], events["_partition"])
    event, append = (rows.most(events[name].cast(pa.int64()).to_numpy()) for name in (source.time_column, APPEND_TIME))
    return {place: Newest(*times) for place, *times in zip(rows.partitions, event, append, strict=True)}


def newest_append(events: pa.Table) -> int | None:
    """The newest append time of events, ahead or not, in microseconds since 1970; None without events."""
    stamps = events[APPEND_TIME].cast(pa.int64()).to_numpy()
    return int(stamps.max()) if len(stamps) else None
