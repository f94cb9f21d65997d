"""Set apart the events that may be duplicates while events are folded, and decide which of them count before states are merged.

Suspects are events whose hash occurs more than once (`batch/fold/duplicates.py`). A task that folds sends them whole to every
bucket. The kernel decides there, by all columns of the identity: a chance collision of hashes costs time and no event. What
counts does not depend on the order of the rows, so all buckets decide the same, and each keeps the states of its own keys.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from batch.fold import duplicates
from batch.fold.duplicates import Hashes
from ledger.delta.location import Location
from views.arrow.ipc import from_ipc, to_ipc
from views.kernel import kernel
from views.kernel.deduplicate import Deduplicated, identity_columns
from views.source.source import Source


@dataclass(frozen=True)
class Suspects:
    """Whole events that may be duplicates, as Arrow IPC, for a bucket."""

    bucket: int
    events: bytes


@dataclass(frozen=True)
class Decided:
    """How many suspects were dropped, and how many of them are conflicts."""

    duplicates: int
    conflicts: int


@dataclass(frozen=True)
class SetApart:
    """The hashes of the suspects of a source, sorted."""

    source: Source
    hashes: Hashes

    @classmethod
    def read(cls, source: Source, scratch: Location, files: Sequence[str]) -> "SetApart":
        """The hashes of scratch files; without files no event is a suspect."""
        return cls(source, duplicates.read_hashes(scratch, files) if files else np.empty(0, np.uint64))

    def split(self, events: pa.Table) -> tuple[pa.Table, pa.Table]:
        """The events that certainly count, and the suspects. The events need their identity columns if there are hashes."""
        if not len(self.hashes):
            return events, events.slice(0, 0)
        suspect = duplicates.found_among(duplicates.hashed(events, identity_columns(self.source)), self.hashes)
        return events.filter(pa.array(~suspect)), events.filter(pa.array(suspect))


def to_all(events: pa.Table, buckets: int) -> Iterator[tuple[int, Suspects]]:
    """Suspects for each bucket."""
    if events.num_rows:
        whole = to_ipc(events)
        yield from ((bucket, Suspects(bucket, whole)) for bucket in range(buckets))


def decide(source: Source, suspects: Sequence[Suspects], generations: Sequence[str]) -> Deduplicated:
    """Which of all suspects of the log count."""
    events = pa.concat_tables(from_ipc(each.events) for each in suspects).combine_chunks()
    return kernel.deduplicate(source, events, generations=generations)
