"""The kernel's late: which events arrived well after newer events of their partition.

Late is a label: a late event counts like any other, in the window of its event time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tandem.views.instant import MICROSECOND
from tandem.views.source.ahead import ahead
from tandem.views.source.log_order import log_order
from tandem.views.source.offset_ranges import Offsets
from tandem.views.source.source import Source

_NONE_YET = -(2**62)
"""Before every time; its difference to any time fits int64."""


@dataclass(frozen=True)
class Late:
    """`count` events were late; `maxima` is the newest event time of each partition so far, in microseconds of UTC.

    Events that are ahead are not among the newest.
    """

    count: int
    maxima: Offsets


def late(source: Source, events: pa.Table, maxima: Offsets = MappingProxyType({})) -> Late:
    """Count the events more than `source.lateness` behind the running maximum of their partition, in offset order.

    `maxima` are those of the range before: the log in pieces, in offset order, gives the same counts as the whole log.
    """
    lateness = source.lateness // MICROSECOND
    order = log_order(events)
    times = events[source.event_time].cast(pa.int64()).to_numpy()[order]
    told = np.where(ahead(source, events)[order], _NONE_YET, times)
    partitions = events.select(["_topic_id", "_partition"]).take(pa.array(order))
    count, newest = 0, dict(maxima)
    for start, end in _runs(partitions):
        partition = (partitions["_topic_id"][start].as_py(), partitions["_partition"][start].as_py())
        running = np.maximum(np.maximum.accumulate(told[start:end]), newest.get(partition, _NONE_YET))
        count += int(np.count_nonzero(running - times[start:end] > lateness))
        if running[-1] > _NONE_YET:
            newest[partition] = int(running[-1])
    return Late(count, newest)


def _runs(partitions: pa.Table) -> Iterator[tuple[int, int]]:
    """Where each run of equal (topic id, partition) begins and ends."""
    topics = pc.dictionary_encode(partitions["_topic_id"].combine_chunks()).indices.to_numpy()
    changed = (np.diff(topics, prepend=-1) != 0) | (np.diff(partitions["_partition"].to_numpy(), prepend=-1) != 0)
    bounds = [*np.flatnonzero(changed).tolist(), len(topics)]
    return pairwise(bounds)
