"""Whether a figure of a process grows: its last quarter of the time, compared with the second."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

import numpy as np

MOST: Final = 1.1
"""The largest ratio of the last quarter to the second."""
_POOL: Final = 100
"""How many threads more are not a leak: delta-rs reads each entry of a log since its last checkpoint in a thread of its own, and
keeps it while there is work. There are about N entries at most.
"""


@dataclass(frozen=True)
class SoakSample:
    """What the server's process has, `seconds` after the load began; its children, which run SQL, are not counted."""

    seconds: float
    bytes: int
    handles: int
    threads: int


@dataclass(frozen=True)
class Flatness:
    """Of one figure the medians of the second and the last quarter, and its slope a minute after the first quarter.

    `slack` is by how much it may grow in any case: pools fill up, and a few more are not a leak.
    """

    what: str
    second: float
    last: float
    slope: float
    slack: float

    @property
    def ratio(self) -> float:
        """The ratio of the last quarter to the second."""
        return self.last / self.second if self.second else 1.0

    @property
    def flat(self) -> bool:
        """Whether the figure does not grow."""
        return self.ratio <= MOST or self.last - self.second <= self.slack


def flatness(samples: Sequence[SoakSample]) -> list[Flatness]:
    """Of each figure; the first quarter of the time is warm-up. At least one sample a quarter."""
    length = samples[-1].seconds
    warm = [one for one in samples if one.seconds > length / 4]
    second = [one for one in warm if one.seconds <= length / 2]
    last = [one for one in warm if one.seconds > length * 3 / 4]
    minutes = np.array([one.seconds for one in warm]) / 60

    def of(what: str, slack: float) -> Flatness:
        values = np.array([float(getattr(one, what)) for one in warm])
        slope = float(np.polyfit(minutes, values, 1)[0]) if len(warm) > 1 else 0.0
        early, late = (median(getattr(one, what) for one in part) for part in (second, last))
        return Flatness(what, early, late, slope, slack)

    return [of("bytes", 32 * 2**20), of("handles", 8), of("threads", _POOL)]
