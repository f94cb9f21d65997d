"""The positions of duplicates: the search for duplicates writes them, and folding drops the events there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tandem.ledger.delta.location import Location, opened
from tandem.ledger.files.file_ranges import EVENTS
from tandem.ledger.files.scan import within
from tandem.views.source.log_order import Places, places
from tandem.views.source.offset_ranges import Partition, Ranges


@dataclass(frozen=True)
class DroppedPositions:
    """The positions to drop by partition, sorted: `tandem.views.source.log_order.places`."""

    places: Mapping[Partition, Places] = field(default_factory=dict, hash=False)

    def keep(self, events: pa.Table) -> pa.Table:
        """The events to count. The events need their position columns, unless there is nothing to drop."""
        if not self.places:
            return events
        found = places(events)
        dropped = np.zeros(events.num_rows, dtype=bool)
        for partition, listed in self.places.items():
            dropped |= _in_partition(events, partition) & contained(found, listed)
        return events.filter(pa.array(~dropped))


def read_dropped_positions(scratch: Location, files: Sequence[str], ranges: Ranges) -> DroppedPositions:
    """The listed positions that are within the ranges; only these are kept in memory."""
    found = []
    for path in files:
        with opened(scratch, path) as file:
            for batch in file.iter_batches(use_threads=False):
                listed = pa.Table.from_batches([batch])
                found.append(listed.filter(within(listed, EVENTS, ranges)))
    if not found:
        return DroppedPositions()
    listed = pa.concat_tables(found)
    there = ((partition, listed.filter(pa.array(_in_partition(listed, partition)))) for partition, _ in ranges.intervals)
    return DroppedPositions({partition: np.sort(places(dropped)) for partition, dropped in there if dropped.num_rows})


def _in_partition(events: pa.Table, partition: Partition) -> npt.NDArray[np.bool_]:
    topic, number = partition
    there = pc.and_(pc.equal(events[EVENTS.topic], topic), pc.equal(events[EVENTS.partition], number))
    within_it: npt.NDArray[np.bool_] = there.to_numpy()
    return within_it


def contained(values: Places, among: Places) -> npt.NDArray[np.bool_]:
    """Per value, whether it is among sorted others."""
    if not len(among):
        return np.zeros(len(values), dtype=bool)
    places = np.minimum(np.searchsorted(among, values), len(among) - 1)
    found: npt.NDArray[np.bool_] = among[places] == values
    return found
