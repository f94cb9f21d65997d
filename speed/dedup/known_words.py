"""The filter by which tasks tell suspects from events that are surely new: the first words of all known identities."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tandem.speed.dedup.keys import Mask, Words


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
