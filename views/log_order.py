"""The order of the log: by topic id, partition and offset, whatever order the rows of a table are in."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Rows = npt.NDArray[np.int64]


def log_order(events: pa.Table) -> Rows:
    """The rows of an events table in the order of the log."""
    topics = pc.dictionary_encode(events["_topic_id"].combine_chunks())
    # The dictionary is in order of appearance; its place in sorted order is what counts.
    places = np.argsort(np.argsort(np.array(topics.dictionary.to_pylist(), dtype=object)))
    generations = places[topics.indices.to_numpy()] if events.num_rows else np.empty(0, dtype=np.int64)
    return np.lexsort((events["_offset"].to_numpy(), events["_partition"].to_numpy(), generations))
