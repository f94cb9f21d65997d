"""Keys of 24 bytes that identify an event and its content: arrays of shape (n, 3) of 64-bit words.

The first two words are a digest of the identity, the third is a hash of the content. Keys are sorted and searched by their first
word alone; the others are compared only where first words are equal, so the whole digest distinguishes events.
"""

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
Keys = npt.NDArray[np.uint64]
"""Of shape (n, 3)."""
Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]

IDENTITY: Final = 2
"""Words of the identity."""
KEY: Final = 3
"""Words of identity and content."""
WORD_BYTES: Final = 8


def by_word(keys: Keys) -> tuple[Rows, Rows]:
    """The rows in the order of their first words, and those of them whose first word another row has, in ascending order."""
    order = np.argsort(keys[:, 0], kind="stable")
    words = keys[order, 0]
    same = words[1:] == words[:-1]
    if not same.any():
        return order, np.empty(0, np.int64)
    again = np.zeros(len(keys), dtype=bool)
    again[1:] |= same
    again[:-1] |= same
    return order, np.sort(order[again])


def firsts(keys: Keys, width: int) -> Mask:
    """For each row whether none before it has the same first `width` words."""
    first = np.zeros(len(keys), dtype=bool)
    first[np.unique(texts(keys, width), return_index=True)[1]] = True
    return first


def texts(keys: Keys, width: int) -> npt.NDArray[np.bytes_]:
    """The first `width` words of each key as one value."""
    # numpy ignores trailing zero bytes of these, which changes nothing at one width.
    return np.ascontiguousarray(keys[:, :width]).view(f"S{width * WORD_BYTES}").reshape(-1)


class BroadcastWords(Protocol):
    """Words that Spark brings to each worker once, such as a broadcast."""

    @property
    def value(self) -> Words:
        """The words, sorted."""
        ...


@dataclass(frozen=True, eq=False)
class KnownWords:
    """Sorted runs of words, which are not empty: one for each run of the dedup window."""

    runs: tuple[Words | BroadcastWords, ...] = ()

    def has(self, words: Words) -> Mask:
        """Which of these words are known; faster where they are sorted. What is not known was not counted within the window."""
        known = np.zeros(len(words), dtype=bool)
        for run in self.runs:
            among = run if isinstance(run, np.ndarray) else run.value
            places = np.minimum(np.searchsorted(among, words), len(among) - 1)
            known |= among[places] == words
        return known
