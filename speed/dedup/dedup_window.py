"""The identities that were counted lately: what makes the speed layer drop a copy of an event of an earlier micro-batch.

An identity is kept while the commit that counted it, or its own timestamp, lies within the source's `horizon`; the setting
`speed.identities_mb` bounds the memory. ARCHITECTURE.md ("Identity") has the invariant and its reason.

32 bytes for each content of an identity, up to three times that while runs are filtered and merged (bench/README.md has
measured it). Runs are merged level by level, so adding costs little however many identities there are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from speed.dedup.identities import Identities, Keys, Times
from speed.dedup.identity_runs import SECOND, Numbers, Run, merged, run_of

BYTES: Final = 96
"""What an identity takes at most, while runs are filtered and merged."""
_ROOM: Final = 8
"""Eviction frees one part in N, so that not every commit has to evict."""


@dataclass(frozen=True)
class Evicted:
    """What the bound leaves out though the span asks for it: identities of commits before `number`, which was made at `at`.

    They are missed as long as their commits, or the newest of their timestamps, lie within the span: that is second `stamp`
    since 1970.
    """

    number: int
    at: int
    stamp: int


@dataclass(frozen=True)
class Horizon:
    """Identities of the last `span` microseconds, at most `most` or those of one commit; `runs` are largest first.

    Commits are numbered in the order of the log; `times` are those of the commits from number `base` on, in microseconds and
    never descending: a commit counts as made no earlier than the ones before it, whatever its clock said. All that the log had
    received until `caught_up` is counted; None while nobody knows. `newest` is the newest timestamp, no record's being later
    than its commit. `evicted` is what is missed, where the bound has evicted some that the span asks for.
    """

    span: int
    most: int | None = None
    runs: tuple[Run, ...] = ()
    times: Times = field(default_factory=lambda: np.empty(0, np.int64))
    base: int = 0
    caught_up: int | None = None
    newest: int | None = None
    evicted: Evicted | None = None

    @property
    def since(self) -> int | None:
        """The time of the first commit whose identities are all known, in microseconds; None where the span says it all."""
        return None if self.evicted is None else self.evicted.at

    @property
    def size(self) -> int:
        """How many identities there are."""
        return sum(len(run.keys) for run in self.runs)

    @property
    def first_number(self) -> int:
        """The number of the first commit whose identities all stay."""
        if self.caught_up is None:
            return self.base
        return self.base + int(np.searchsorted(self.times, self.caught_up - self.span))

    @property
    def first_stamp(self) -> int:
        """The first second since 1970 whose timestamps stay."""
        return 0 if self.newest is None else (self.newest - self.span) // SECOND

    def holds(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """Which of the keys were counted within the span, or somewhat longer ago; asked with identities alone, which of these."""
        held = np.zeros(len(keys), dtype=bool)
        for run in self.runs:
            # The first key at or after an identity is the identity's own, if there is one: its content comes last.
            places = np.searchsorted(run.keys, keys)
            held |= run.keys[np.minimum(places, len(run.keys) - 1)].astype(keys.dtype) == keys
        return held

    def extended(self, added: Identities, *, at: int, caught_up: int | None) -> "Horizon":
        """With what one commit has counted, none of which it need hold twice; what has left the span goes as runs are merged.

        `at` is the commit's own time, and all that the log had received until `caught_up` is counted now.
        """
        if not self.span:
            return self
        times = np.append(self.times, max(at, int(self.times[-1])) if len(self.times) else at)
        stamps = [] if self.newest is None else [self.newest]
        stamps += [min(at, int(added.times.max()))] if len(added.times) else []
        after = replace(self, times=times, caught_up=caught_up, newest=max(stamps, default=None))
        number = self.base + len(times) - 1
        return _pruned(after.with_identities(added, np.full(len(added.keys), number, np.int32)))

    def with_identities(self, added: Identities, numbers: Numbers) -> "Horizon":
        """With keys that commits of these numbers have counted, whose times it has."""
        if not len(added.keys) or not self.span:
            return self
        number, stamp = self.first_number, self.first_stamp
        stamps = np.minimum(added.times, self.times[numbers - self.base])
        runs = [*self.runs, run_of(added.keys, numbers, stamps)]
        while len(runs) > 1 and len(runs[-2].keys) < 2 * len(runs[-1].keys):
            pair = [kept for run in runs[-2:] if (kept := run.within(number=number, stamp=stamp)) is not None]
            runs[-2:] = [merged(*pair)] if len(pair) == 2 else pair
        runs = [run for run in runs if run.newest_number >= number or run.newest_stamp >= stamp]
        return _bounded(replace(self, runs=tuple(runs)))

    def without(self, number: int, *, newest: int | None) -> "Horizon":
        """With nothing of the commits before this one, which are not loaded; `newest` is the newest of their timestamps."""
        stamp = 0 if newest is None else -(-newest // SECOND)
        known = self.evicted
        if known is not None:
            number, stamp = max(number, known.number), max(stamp, known.stamp)
        return replace(self, evicted=Evicted(number, int(self.times[number - self.base]), stamp))


def recalled(span: int, most: int | None, *, times: Sequence[int], caught_up: int | None, newest: int | None) -> Horizon:
    """A horizon of commits of these times, numbered from 0 on, before their identities are there."""
    reached = np.maximum.accumulate(np.array(times, np.int64))
    return Horizon(span, most, (), reached, 0, caught_up, newest)


def _pruned(horizon: Horizon) -> Horizon:
    """Without the times of commits that have left the span, but for the last one's."""
    first = min(horizon.first_number, horizon.base + len(horizon.times) - 1)
    evicted = horizon.evicted
    if evicted is not None and evicted.number <= first and evicted.stamp < horizon.first_stamp:
        evicted = None
    return replace(horizon, times=horizon.times[first - horizon.base :], base=first, evicted=evicted)


def _bounded(horizon: Horizon) -> Horizon:
    """Without the identities of the oldest commits, where there are too many; those of the newest commit stay."""
    most, base = horizon.most, horizon.base
    if most is None or horizon.size <= most:
        return horizon
    asked = [run.within(number=horizon.first_number, stamp=horizon.first_stamp) for run in horizon.runs]
    runs = [run for run in asked if run is not None]
    if sum(len(run.keys) for run in runs) <= most:
        return replace(horizon, runs=tuple(runs))
    # What its timestamp alone keeps is older than every commit that is numbered here.
    counts = np.zeros(len(horizon.times), np.int64)
    for run in runs:
        counts += np.bincount(np.maximum(run.numbers - base, 0), minlength=len(counts))
    younger = np.cumsum(counts[::-1])[::-1]
    fits = np.flatnonzero(younger <= most - most // _ROOM)
    last = len(horizon.times) - 1
    first = min(int(fits[0]), last) if len(fits) else last
    stamps = [int(run.stamps[older].max()) for run in runs if (older := run.numbers < base + first).any()]
    if not stamps:
        return replace(horizon, runs=tuple(runs))
    left = [run.younger(base + first) for run in runs]
    kept = replace(horizon, runs=tuple(run for run in left if run is not None))
    return kept.without(base + first, newest=max(stamps) * SECOND)
