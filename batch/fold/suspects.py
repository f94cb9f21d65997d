"""Set apart the events that may be duplicates while events are folded, and decide which of them count before states are merged.

Suspects are events whose hash occurs more than once (`batch/fold/duplicates.py`). A task that folds sends them whole to every
bucket. The kernel decides there, by all columns of the identity: a chance collision of hashes costs time and no event. What
counts does not depend on the order of the rows, so all buckets decide the same, and each keeps the states of its own keys.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tandem.batch.fold import duplicates
from tandem.batch.fold.duplicates import Hashes
from tandem.ledger.delta.location import Location
from tandem.ledger.files.identity_hashes import IdentityHash
from tandem.views.arrow.arrays import from_ipc, to_ipc
from tandem.views.kernel import kernel
from tandem.views.kernel.deduplicate import Deduplicated
from tandem.views.source.source import Source


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
    """The hashes of the suspects of a source, sorted; without `made`, the column to compare with them, there are no suspects."""

    hashes: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))
    made: IdentityHash | None = None

    @classmethod
    def read(cls, source: Source, scratch: Location, files: Sequence[str]) -> "SetApart":
        """The hashes of scratch files; without files no event is a suspect."""
        return cls(duplicates.read_hashes(scratch, files), IdentityHash.of_source(source)) if files else cls()

    def split(self, events: pa.Table, needed: Sequence[str]) -> tuple[pa.Table, pa.Table]:
        """The needed columns of the events that certainly count, and the suspects. The events have the column `made`, too."""
        if self.made is None:
            return events.select(needed), events.slice(0, 0)
        suspect = duplicates.found_among(events[self.made.name].to_numpy(), self.hashes)
        whole = events.drop_columns(self.made.name)
        return whole.select(needed).filter(pa.array(~suspect)), whole.filter(pa.array(suspect))


def to_all(events: pa.Table, buckets: int) -> Iterator[tuple[int, Suspects]]:
    """Suspects for each bucket."""
    if events.num_rows:
        whole = to_ipc(events)
        yield from ((bucket, Suspects(bucket, whole)) for bucket in range(buckets))


def decide(source: Source, suspects: Sequence[Suspects], generations: Sequence[str]) -> Deduplicated:
    """Which of all suspects of the log count."""
    events = pa.concat_tables(from_ipc(each.events) for each in suspects).combine_chunks()
    return kernel.deduplicate(source, events, generations=generations)
