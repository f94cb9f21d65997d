"""The order of the log: by topic generation, partition and offset, whatever order the rows of a table are in."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Rows = npt.NDArray[np.int64]


def log_order(events: pa.Table, generations: Sequence[str] = ()) -> Rows:
    """The rows of an events table in the order of the log.

    `generations` are the ids of its topics, the oldest first; those that are not among them come after, by id.
    """
    topics = pc.dictionary_encode(events["_topic_id"].combine_chunks())
    # The dictionary is in order of appearance; a topic's age is what counts.
    ids = topics.dictionary.to_pylist()
    known = dict.fromkeys((*generations, *sorted(ids)))
    ages = {topic: age for age, topic in enumerate(known)}
    places = np.array([ages[topic] for topic in ids], dtype=np.int64)
    ordered = places[topics.indices.to_numpy()] if events.num_rows else np.empty(0, dtype=np.int64)
    return np.lexsort((events["_offset"].to_numpy(), events["_partition"].to_numpy(), ordered))
