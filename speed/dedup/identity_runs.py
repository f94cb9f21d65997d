"""Sorted runs of identities: for each its key, the number of the commit that counted it, and its timestamp, in 32 bytes."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tandem.speed.dedup.keys import IDENTITY, KEY, Keys, Mask, Words, texts
from tandem.speed.dedup.within_task import Times

Numbers = npt.NDArray[np.int32]
Seconds = npt.NDArray[np.uint32]

SECOND: Final = 1_000_000
"""Microseconds."""
_LATEST: Final = 2**32 - 1


@dataclass(frozen=True, eq=False)
class IdentityRun:
    """Keys sorted by their first words, `words`, of which `rest` has the others, with shape (n, 2); both may repeat.

    `stamps` are timestamps in seconds since 1970, rounded up.
    """

    words: Words
    rest: Words
    numbers: Numbers
    stamps: Seconds
    newest_number: int
    newest_stamp: int

    def __len__(self) -> int:
        return len(self.words)

    def find(self, keys: Keys) -> tuple[Mask, Mask]:
        """Which keys have an identity of the run, and which of them its content, too."""
        identity, content = np.zeros(len(keys), dtype=bool), np.zeros(len(keys), dtype=bool)
        last = len(self) - 1
        places = np.searchsorted(self.words, keys[:, 0])
        rows = np.flatnonzero(self.words[np.minimum(places, last)] == keys[:, 0])
        places = places[rows]
        several = (places < last) & (self.words[np.minimum(places + 1, last)] == keys[rows, 0])
        one, at = rows[~several], places[~several]
        identity[one] = self.rest[at, 0] == keys[one, 1]
        content[one] = identity[one] & (self.rest[at, 1] == keys[one, 2])
        if several.any():
            more = rows[several]
            there = self._with_words(np.unique(keys[more, 0]))
            for mask, width in ((identity, IDENTITY), (content, KEY)):
                mask[more] = np.isin(texts(keys[more], width), texts(there, width))
        return identity, content

    def within(self, *, number: int, stamp: int) -> "IdentityRun | None":
        """The identities with at least this number or timestamp; None without any."""
        kept = (self.numbers >= number) | (self.stamps >= max(0, stamp))
        return self if kept.all() else self._some(kept)

    def younger(self, number: int) -> "IdentityRun | None":
        """The identities with at least this number; None without any."""
        return self._some(self.numbers >= number)

    def _with_words(self, words: Words) -> Keys:
        """The keys with one of these words, each of which the run has."""
        low, high = (np.searchsorted(self.words, words, side) for side in ("left", "right"))
        sizes = high - low
        places = np.repeat(high - np.cumsum(sizes), sizes) + np.arange(sizes.sum())
        return np.column_stack([self.words[places], self.rest[places]])

    def _some(self, kept: Mask) -> "IdentityRun | None":
        if not kept.any():
            return None
        numbers, stamps = self.numbers[kept], self.stamps[kept]
        return IdentityRun(self.words[kept], self.rest[kept], numbers, stamps, int(numbers.max()), int(stamps.max()))


def run_of(keys: Keys, numbers: Numbers, stamps: Times) -> IdentityRun:
    """A run of these keys, at least one, in any order; timestamps in microseconds since 1970."""
    order = np.argsort(keys[:, 0], kind="stable")
    seconds = np.clip(stamps // SECOND + (stamps % SECOND > 0), 0, _LATEST).astype(np.uint32)
    words, rest = keys[order, 0], keys[order, 1:]
    return IdentityRun(words, rest, numbers[order], seconds[order], int(numbers.max()), int(seconds.max()))


def merged(lower: IdentityRun, upper: IdentityRun) -> IdentityRun:
    """Merge two runs."""
    places = np.searchsorted(lower.words, upper.words) + np.arange(len(upper))
    from_lower = np.ones(len(lower) + len(upper), dtype=bool)
    from_lower[places] = False
    words, rest = np.empty(len(from_lower), np.uint64), np.empty((len(from_lower), 2), np.uint64)
    numbers, stamps = np.empty(len(from_lower), np.int32), np.empty(len(from_lower), np.uint32)
    for whole, one, other in (
        (words, lower.words, upper.words),
        (rest, lower.rest, upper.rest),
        (numbers, lower.numbers, upper.numbers),
        (stamps, lower.stamps, upper.stamps),
    ):
        whole[from_lower], whole[places] = one, other
    newest = max(lower.newest_number, upper.newest_number), max(lower.newest_stamp, upper.newest_stamp)
    return IdentityRun(words, rest, numbers, stamps, *newest)
