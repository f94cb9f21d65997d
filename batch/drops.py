"""Positions of events that are not to be counted: written by the search for duplicates, honoured where events are folded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from batch.place import Place
from batch.scan import within
from batch.spans import EVENTS
from views.ranges import Partition, Ranges

Sorted = npt.NDArray[np.generic]


@dataclass(frozen=True)
class Drops:
    """Offsets to drop by partition, sorted."""

    offsets: Mapping[Partition, Sorted] = field(default_factory=dict, hash=False)

    def keep(self, events: pa.Table) -> pa.Table:
        """The events that are to be counted. They hold their positions, unless there is nothing to drop."""
        if not self.offsets:
            return events
        offsets = events[EVENTS.offset].to_numpy()
        dropped = np.zeros(events.num_rows, dtype=bool)
        for (topic, number), positions in self.offsets.items():
            there = pc.and_(pc.equal(events[EVENTS.topic], topic), pc.equal(events[EVENTS.partition], number))
            dropped |= there.to_numpy() & contained(offsets, positions)
        return events.filter(pa.array(~dropped))


def read_drops(scratch: Place, files: Sequence[str], ranges: Ranges) -> Drops:
    """The positions within the ranges, of all that the files list; only these are held."""
    places = scratch.file_system()
    found = []
    for path in files:
        with places.open_input_file(path) as source:
            for batch in pq.ParquetFile(source).iter_batches(use_threads=False):
                listed = pa.Table.from_batches([batch])
                found.append(listed.filter(within(listed, EVENTS, ranges)))
    if not found:
        return Drops()
    listed = pa.concat_tables(found)
    groups = listed.group_by([EVENTS.topic, EVENTS.partition], use_threads=False).aggregate([(EVENTS.offset, "list")])
    return Drops(
        {(row[EVENTS.topic], row[EVENTS.partition]): np.sort(row[f"{EVENTS.offset}_list"]) for row in groups.to_pylist()}
    )


def contained(values: Sorted, among: Sorted) -> npt.NDArray[np.bool_]:
    """Per value, whether it is among sorted others."""
    if not len(among):
        return np.zeros(len(values), dtype=bool)
    places = np.minimum(np.searchsorted(among, values), len(among) - 1)
    found: npt.NDArray[np.bool_] = among[places] == values
    return found
