"""Find duplicates that no single task can see: of events in another task, or counted earlier; and count conflicts."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tandem.speed.dedup.dedup_window import DedupWindow
from tandem.speed.dedup.keys import IDENTITY, KEY, by_word, firsts
from tandem.speed.dedup.within_task import Drops, Identities, joined, values
from tandem.views.source.log_order import log_order, places


@dataclass(frozen=True)
class Duplicates:
    """`drops` are positions that tasks folded and must drop, `admitted` those of suspects that tasks left out and must fold.

    `added` are the keys that the dedup window lacks.

    `conflicts` counts the duplicates of this micro-batch with a content that no event of their identity had before.
    """

    drops: Drops
    admitted: Drops
    added: Identities
    conflicts: int


def find_duplicates(shares: Sequence[pa.Table], dedup_window: DedupWindow, generations: Sequence[str] = ()) -> Duplicates:
    """Compare the identities of all tasks: the first of an identity in log order stays, unless the dedup window has it.

    Tasks have marked the suspects by the words of this dedup window. The dedup window has none of the other identities.
    """
    found = joined(shares)
    rows = values(found)
    first, suspect = found["first"].to_numpy(), found["suspect"].to_numpy()
    stays, new = np.ones(len(suspect), dtype=bool), np.ones(len(suspect), dtype=bool)
    suspects = np.flatnonzero(suspect)
    known, alike = dedup_window.find(rows.keys[suspects])
    stays[suspects], new[suspects] = ~known, ~alike
    order, again = by_word(rows.keys)
    if len(again):
        again = again[log_order(found.take(pa.array(again)), generations)]
        stays[again] &= firsts(rows.keys[again], IDENTITY)
        new[again] &= firsts(rows.keys[again], KEY)
    added = order[new[order]]
    return Duplicates(
        drops=_by_partition(found.filter(pa.array(first & ~stays & ~suspect))),
        admitted=_by_partition(found.filter(pa.array(first & stays & suspect))),
        added=Identities(rows.keys[added], rows.times[added]),
        conflicts=int(new.sum() - stays.sum()),
    )


def _by_partition(found: pa.Table) -> Drops:
    if not found.num_rows:
        return {}
    topics, partitions = found["_topic_id"].cast(pa.string()), found["_partition"].to_numpy()
    names, where = np.array(topics.to_pylist(), dtype=object), places(found)
    there = set(zip(names.tolist(), partitions.tolist(), strict=True))
    return {(topic, number): np.sort(where[(names == topic) & (partitions == number)]) for topic, number in sorted(there)}
