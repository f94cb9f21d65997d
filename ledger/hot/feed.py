"""The hot commits of a server, as the process beside it has sent them. Any thread may ask."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from tandem.ledger.hot.chain import HotCommits, changed
from tandem.ledger.hot.messages import HotMessage, HotStatus
from tandem.ledger.log.positions import distance

REPORT_S: Final = 0.5
"""Seconds between two reports that somebody asks for answers."""


@dataclass
class HotFeed:
    """Hot commits by release and source; `clock` returns monotonic seconds, `woken` is called whenever answers may change.

    While somebody asks for answers `wanted` is called, at most every REPORT_S.

    * `compared` and `mismatched` add up over all processes: comparisons of a view with commits, and the rows that differed.
    * `losses` counts how often the log may have lost records that hot commits count: answers that have them must not stay.
    """

    clock: Callable[[], float]
    woken: Callable[[], object] = lambda: None
    wanted: Callable[[], object] = lambda: None
    compared: int = field(default=0, init=False)
    mismatched: int = field(default=0, init=False)
    losses: int = field(default=0, init=False)
    _reported: float = field(default=float("-inf"), init=False, repr=False)
    _commits: dict[tuple[int, str], HotCommits] = field(default_factory=dict, init=False, repr=False)
    _statuses: dict[tuple[int, str], HotStatus] = field(default_factory=dict, init=False)
    _lost: set[tuple[int, str]] = field(default_factory=set, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def asked(self) -> None:
        """Somebody asks for answers; any thread may call it, for every question."""
        now = self.clock()
        if now - self._reported >= REPORT_S:
            self._reported = now
            self.wanted()

    def commits(self, release: int, source: str) -> HotCommits:
        """The hot commits of a source of a release; they may not tile."""
        return self._commits.get((release, source), ())

    @property
    def ahead(self) -> int:
        """The number of offsets that hot commits count, of all sources."""
        every = list(self._commits.values())
        return sum(distance(commits[0].start, commits[-1].end) for commits in every if commits)

    def apply(self, message: HotMessage) -> None:
        """Apply a message. Raises TandemError if it cannot be read."""
        place, change = (message.release, message.source), message.change
        with self._lock:
            before = self._counted(place)
            for other in [known for known in self._statuses if known[0] != message.release]:
                # Another release is live now; answers of the former one stay until this one has come as far.
                del self._statuses[other]
                self._commits.pop(other, None)
                self._lost.discard(other)
            self._count(self._statuses.get(place, HotStatus()), message.status)
            self._statuses[place] = message.status
            if change is None:
                # In this order, because readers read the count first: who still got the commits sees a loss afterwards.
                self._commits.pop(place, None)
                if message.lost and place not in self._lost:  # a tail that stands aside says so again and again
                    self.losses += 1
                    self._lost.add(place)
            else:
                self._commits[place] = changed(self._commits.get(place, ()), change)
                self._lost.discard(place)
            same = before == self._counted(place)
        # Merged neighbours count what they counted apart: readers get them with the next records.
        if not same:
            self.woken()

    def _counted(self, place: tuple[int, str]) -> tuple[object, ...]:
        """What answers show of a source: its status without the bytes, the losses, and the epoch and range of its hot commits."""
        commits, status = self._commits.get(place), self._statuses.get(place)
        sized = status and msgspec.structs.replace(status, nbytes=0)
        return sized, self.losses, commits and (commits[0].epoch, commits[0].start, commits[-1].end)

    def disconnect(self, why: str) -> None:
        """Drop everything: the process has ended. What is part of answers stays there for a while."""
        with self._lock:
            self._commits.clear()
            self._statuses = {place: HotStatus(why) for place in self._statuses}
        self.woken()

    def _count(self, before: HotStatus, now: HotStatus) -> None:
        # A process that has just started counts from 0.
        again = now.compared < before.compared
        self.compared += now.compared - (0 if again else before.compared)
        self.mismatched += now.mismatched - (0 if again else before.mismatched)

    @property
    def statuses(self) -> Mapping[tuple[int, str], HotStatus]:
        """How each hot tail stands, by release and source."""
        return dict(self._statuses)
