"""Find duplicates that no single task can see: of events in another task, or counted earlier; and count conflicts."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from speed.dedup.dedup_window import Horizon
from speed.dedup.identities import IDENTITY, Drops, Identities, Keys, joined, values
from views.source.log_order import log_order, places


@dataclass(frozen=True)
class Copies:
    """`drops` are positions that tasks kept and must drop; `added` are the keys that the horizon lacks.

    `conflicts` counts the duplicates of this micro-batch with a content that no event of their identity had before.
    """

    drops: Drops
    added: Identities
    conflicts: int


def copies(shares: Sequence[pa.Table], horizon: Horizon, generations: Sequence[str] = ()) -> Copies:
    """Compare the identities of all tasks: the first of an identity in log order stays, unless the horizon has it."""
    found = joined(shares)
    found = found.take(pa.array(log_order(found, generations)))
    rows = values(found)
    identity = rows.keys.astype(IDENTITY)
    fresh, new = ~horizon.holds(identity), ~horizon.holds(rows.keys)
    stays = fresh & _first(identity)
    new &= _first(rows.keys)
    return Copies(
        drops=_by_partition(found.filter(pa.array(found["first"].to_numpy() & ~stays))),
        added=Identities(rows.keys[new], rows.times[new]),
        conflicts=int(new.sum() - stays.sum()),
    )


def _first(keys: Keys) -> npt.NDArray[np.bool_]:
    """For each key, whether it is the first of its kind."""
    first = np.zeros(len(keys), dtype=bool)
    first[np.unique(keys, return_index=True)[1]] = True
    return first


def _by_partition(found: pa.Table) -> Drops:
    topics, partitions = found["_topic_id"].cast(pa.string()), found["_partition"].to_numpy()
    names, where = np.array(topics.to_pylist(), dtype=object), places(found)
    there = set(zip(names.tolist(), partitions.tolist(), strict=True))
    return {(topic, number): np.sort(where[(names == topic) & (partitions == number)]) for topic, number in sorted(there)}
