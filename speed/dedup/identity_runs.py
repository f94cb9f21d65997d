"""Sorted runs of identities: for each its key, the number of the commit that counted it, and its timestamp, in 32 bytes."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from speed.dedup.identities import Keys, Times

Numbers = npt.NDArray[np.int32]
Seconds = npt.NDArray[np.uint32]

SECOND: Final = 1_000_000
"""Microseconds."""
_LATEST: Final = 2**32 - 1


@dataclass(frozen=True)
class Run:
    """Sorted keys, which may repeat; `stamps` are timestamps in seconds since 1970, rounded up."""

    keys: Keys
    numbers: Numbers
    stamps: Seconds
    newest_number: int
    newest_stamp: int

    def within(self, *, number: int, stamp: int) -> "Run | None":
        """The identities with at least this number or timestamp; None without any."""
        kept = (self.numbers >= number) | (self.stamps >= max(0, stamp))
        return self if kept.all() else self._some(kept)

    def younger(self, number: int) -> "Run | None":
        """The identities with at least this number; None without any."""
        return self._some(self.numbers >= number)

    def _some(self, kept: npt.NDArray[np.bool_]) -> "Run | None":
        if not kept.any():
            return None
        numbers, stamps = self.numbers[kept], self.stamps[kept]
        return Run(self.keys[kept], numbers, stamps, int(numbers.max()), int(stamps.max()))


def run_of(keys: Keys, numbers: Numbers, stamps: Times) -> Run:
    """A run of these keys, at least one, in any order; timestamps in microseconds since 1970."""
    order = np.argsort(keys, kind="stable")
    seconds = np.clip(stamps // SECOND + (stamps % SECOND > 0), 0, _LATEST).astype(np.uint32)
    return Run(keys[order], numbers[order], seconds[order], int(numbers.max()), int(seconds.max()))


def merged(lower: Run, upper: Run) -> Run:
    """Merge two runs."""
    places = np.searchsorted(lower.keys, upper.keys) + np.arange(len(upper.keys))
    from_lower = np.ones(len(lower.keys) + len(upper.keys), dtype=bool)
    from_lower[places] = False
    keys = np.empty(len(from_lower), lower.keys.dtype)
    numbers, stamps = np.empty(len(from_lower), np.int32), np.empty(len(from_lower), np.uint32)
    for whole, one, other in (
        (keys, lower.keys, upper.keys),
        (numbers, lower.numbers, upper.numbers),
        (stamps, lower.stamps, upper.stamps),
    ):
        whole[from_lower], whole[places] = one, other
    newest = max(lower.newest_number, upper.newest_number), max(lower.newest_stamp, upper.newest_stamp)
    return Run(keys, numbers, stamps, *newest)
