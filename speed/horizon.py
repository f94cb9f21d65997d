"""The identities that were counted lately: what makes the speed layer drop a copy of an event of an earlier micro-batch.

Exact within a span of log time, in memory that the span and the log's rate bound: 24 bytes an identity, twice that at
the worst. Runs are sorted and merged level by level, so adding costs little whatever is held.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from speed.identities import Digests, Identities, Times


@dataclass(frozen=True)
class Horizon:
    """Identities appended less than `span` microseconds before the newest one; `runs` are sorted, largest first."""

    span: int
    runs: tuple[Identities, ...] = ()

    def holds(self, digests: Digests) -> npt.NDArray[np.bool_]:
        """Which of the digests were counted within the span, or somewhat longer ago."""
        held = np.zeros(len(digests), dtype=bool)
        for run in self.runs:
            places = np.searchsorted(run.digests, digests)
            held |= run.digests[np.minimum(places, len(run.digests) - 1)] == digests
        return held

    def extended(self, added: Identities) -> "Horizon":
        """With these identities too, none of which it holds yet; what has left the span goes as runs are merged."""
        if not len(added.digests) or not self.span:
            return self
        runs = [*self.runs, _sorted(added.digests, added.times)]
        oldest = max(int(run.times.max()) for run in runs) - self.span
        while len(runs) > 1 and len(runs[-2].digests) < 2 * len(runs[-1].digests):
            upper = runs.pop()
            runs[-1] = _merged(runs[-1], upper, oldest)
        kept = (run for run in runs if len(run.digests) and int(run.times.max()) >= oldest)
        return Horizon(self.span, tuple(kept))


def _merged(lower: Identities, upper: Identities, oldest: int) -> Identities:
    digests = np.concatenate([lower.digests, upper.digests])
    times = np.concatenate([lower.times, upper.times])
    kept = times >= oldest
    return _sorted(digests[kept], times[kept])


def _sorted(digests: Digests, times: Times) -> Identities:
    order = np.argsort(digests, kind="stable")
    return Identities(digests[order], times[order])
