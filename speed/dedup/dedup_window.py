"""The window of counted identities, by which the speed layer drops duplicates of events of earlier micro-batches.

An identity is kept while the commit that counted it, or its own timestamp, lies within the source's `dedup_window`; the setting
`speed.identities_mb` bounds the memory. docs/design/duplicates.md has the invariant and its reason.

Each content of an identity takes 32 bytes, and up to three times that while runs are filtered and merged (measured in
bench/README.md). Runs are merged level by level, so an addition costs little for any number of identities.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from tandem.speed.dedup.identity_runs import SECOND, IdentityRun, Numbers, merged, run_of
from tandem.speed.dedup.keys import Keys, KnownWords, Mask
from tandem.speed.dedup.within_task import Identities, Times

BYTES: Final = 96
"""The most bytes of an identity, while runs are filtered and merged."""
_ROOM: Final = 8
"""Eviction frees one part in N, so that not every commit has to evict."""


@dataclass(frozen=True)
class Evicted:
    """Identities that the memory bound evicted although the span needs them: those of commits before `number`, made at `at`.

    They are missing as long as their commits, or the newest of their timestamps (`stamp`, in seconds since 1970), lie within the
    span.
    """

    number: int
    at: int
    stamp: int


@dataclass(frozen=True)
class DedupWindow:
    """Identities of the last `span` microseconds, at most `most` or those of one commit.

    Args:
        runs: the identities, largest run first.
        base: the number of the first commit in `times`; commits are numbered in log order.
        times: of the commits from `base` on, in microseconds, never descending: a commit counts as made no earlier than the
            commits before it, whatever its clock read.
        caught_up: everything that the log had received until then is counted; None if unknown.
        newest: the newest timestamp; a record's timestamp counts as no later than its commit.
        evicted: the identities that the memory bound evicted although the span needs them, if any.
    """

    span: int
    most: int | None = None
    runs: tuple[IdentityRun, ...] = ()
    times: Times = field(default_factory=lambda: np.empty(0, np.int64))
    base: int = 0
    caught_up: int | None = None
    newest: int | None = None
    evicted: Evicted | None = None

    @property
    def since(self) -> int | None:
        """The time of the first commit whose identities are all kept, in microseconds; None if none were evicted."""
        return None if self.evicted is None else self.evicted.at

    @property
    def size(self) -> int:
        """The number of identities."""
        return sum(len(run) for run in self.runs)

    @property
    def known(self) -> KnownWords:
        """The words of all identities, by which tasks find suspects."""
        return KnownWords(tuple(run.words for run in self.runs))

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

    def holds(self, keys: Keys) -> Mask:
        """Which keys, identity and content, were counted within the span, or somewhat longer ago."""
        return self.find(keys)[1]

    def find(self, keys: Keys) -> tuple[Mask, Mask]:
        """Which keys have an identity that was counted within the span, or somewhat longer ago; and which its content, too."""
        identity, content = np.zeros(len(keys), dtype=bool), np.zeros(len(keys), dtype=bool)
        for run in self.runs:
            known, alike = run.find(keys)
            identity |= known
            content |= alike
        return identity, content

    def extended(self, added: Identities, *, at: int, caught_up: int | None) -> "DedupWindow":
        """Add the keys that one commit counted; keys outside the span are dropped as runs are merged.

        `at` is the commit's own time. Everything that the log had received until `caught_up` is now counted.
        """
        if not self.span:
            return self
        times = np.append(self.times, max(at, int(self.times[-1])) if len(self.times) else at)
        stamps = [] if self.newest is None else [self.newest]
        stamps += [min(at, int(added.times.max()))] if len(added.times) else []
        after = replace(self, times=times, caught_up=caught_up, newest=max(stamps, default=None))
        number = self.base + len(times) - 1
        return _pruned(after.with_identities(added, np.full(len(added.keys), number, np.int32)))

    def with_identities(self, added: Identities, numbers: Numbers) -> "DedupWindow":
        """Add keys that commits with these numbers counted, whose times the dedup window already has."""
        if not len(added.keys) or not self.span:
            return self
        number, stamp = self.first_number, self.first_stamp
        stamps = np.minimum(added.times, self.times[numbers - self.base])
        runs = [*self.runs, run_of(added.keys, numbers, stamps)]
        while len(runs) > 1 and len(runs[-2]) < 2 * len(runs[-1]):
            pair = [kept for run in runs[-2:] if (kept := run.within(number=number, stamp=stamp)) is not None]
            runs[-2:] = [merged(*pair)] if len(pair) == 2 else pair
        runs = [run for run in runs if run.newest_number >= number or run.newest_stamp >= stamp]
        return _bounded(replace(self, runs=tuple(runs)))

    def without(self, number: int, *, newest: int | None) -> "DedupWindow":
        """Mark the commits before this one as not loaded; `newest` is the newest of their timestamps."""
        stamp = 0 if newest is None else -(-newest // SECOND)
        known = self.evicted
        if known is not None:
            number, stamp = max(number, known.number), max(stamp, known.stamp)
        return replace(self, evicted=Evicted(number, int(self.times[number - self.base]), stamp))


def recalled(span: int, most: int | None, *, times: Sequence[int], caught_up: int | None, newest: int | None) -> DedupWindow:
    """A dedup window of commits at these times, numbered from 0, before their identities are added."""
    reached = np.maximum.accumulate(np.array(times, np.int64))
    return DedupWindow(span, most, (), reached, 0, caught_up, newest)


def _pruned(dedup_window: DedupWindow) -> DedupWindow:
    """The dedup window without the times of commits outside the span, except the last of them."""
    first = min(dedup_window.first_number, dedup_window.base + len(dedup_window.times) - 1)
    evicted = dedup_window.evicted
    if evicted is not None and evicted.number <= first and evicted.stamp < dedup_window.first_stamp:
        evicted = None
    return replace(dedup_window, times=dedup_window.times[first - dedup_window.base :], base=first, evicted=evicted)


def _bounded(dedup_window: DedupWindow) -> DedupWindow:
    """The dedup window without the oldest commits' identities, if there are too many; those of the newest commit stay."""
    most, base = dedup_window.most, dedup_window.base
    if most is None or dedup_window.size <= most:
        return dedup_window
    asked = [run.within(number=dedup_window.first_number, stamp=dedup_window.first_stamp) for run in dedup_window.runs]
    runs = [run for run in asked if run is not None]
    if sum(len(run) for run in runs) <= most:
        return replace(dedup_window, runs=tuple(runs))
    # Identities that only their timestamp keeps are of commits before those numbered here.
    counts = np.zeros(len(dedup_window.times), np.int64)
    for run in runs:
        counts += np.bincount(np.maximum(run.numbers - base, 0), minlength=len(counts))
    younger = np.cumsum(counts[::-1])[::-1]
    fits = np.flatnonzero(younger <= most - most // _ROOM)
    last = len(dedup_window.times) - 1
    first = min(int(fits[0]), last) if len(fits) else last
    stamps = [int(run.stamps[older].max()) for run in runs if (older := run.numbers < base + first).any()]
    if not stamps:
        return replace(dedup_window, runs=tuple(runs))
    left = [run.younger(base + first) for run in runs]
    kept = replace(dedup_window, runs=tuple(run for run in left if run is not None))
    return kept.without(base + first, newest=max(stamps) * SECOND)
