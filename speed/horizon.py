"""The identities that were counted lately: what makes the speed layer drop a copy of an event of an earlier micro-batch.

Exact within a span of log time, in memory that the span and the log's rate bound: 32 bytes for each content of an
identity, up to three times that while runs are merged (bench/README.md has measured it). Runs are sorted and merged level
by level, so adding costs little whatever is held.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from speed.identities import Identities, Keys, Times


@dataclass(frozen=True)
class Horizon:
    """Identities appended less than `span` microseconds before the newest one; `runs` are sorted, largest first."""

    span: int
    runs: tuple[Identities, ...] = ()

    def holds(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """Which of the keys were counted within the span, or somewhat longer ago; asked with identities alone, which of these."""
        held = np.zeros(len(keys), dtype=bool)
        for run in self.runs:
            # The first key at or after an identity is the identity's own, if there is one: its content comes last.
            places = np.searchsorted(run.keys, keys)
            held |= run.keys[np.minimum(places, len(run.keys) - 1)].astype(keys.dtype) == keys
        return held

    def extended(self, added: Identities) -> "Horizon":
        """With these keys too, none of which it need hold twice; what has left the span goes as runs are merged."""
        if not len(added.keys) or not self.span:
            return self
        runs = [*self.runs, _sorted(added.keys, added.times)]
        oldest = max(int(run.times.max()) for run in runs) - self.span
        while len(runs) > 1 and len(runs[-2].keys) < 2 * len(runs[-1].keys):
            upper = runs.pop()
            runs[-1] = _merged(runs[-1], upper, oldest)
        kept = (run for run in runs if len(run.keys) and int(run.times.max()) >= oldest)
        return Horizon(self.span, tuple(kept))


def _merged(lower: Identities, upper: Identities, oldest: int) -> Identities:
    lower_kept, upper_kept = lower.times >= oldest, upper.times >= oldest
    keys = np.concatenate([lower.keys[lower_kept], upper.keys[upper_kept]])
    times = np.concatenate([lower.times[lower_kept], upper.times[upper_kept]])
    return _sorted(keys, times)


def _sorted(keys: Keys, times: Times) -> Identities:
    order = np.argsort(keys, kind="stable")
    return Identities(keys[order], times[order])
