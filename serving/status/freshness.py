"""How far the answers of a server were behind the log: for each source a sample a minute, of at most a day."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Final, TypeVar

from tandem.infra.settings import Settings
from tandem.ledger.log.positions import Position
from tandem.serving.read.outcome import Failed
from tandem.serving.read.snapshot import Snapshot
from tandem.serving.status.pipeline import TtlCache
from tandem.serving.status.sources import LogEnd, log_ends
from tandem.views.source.source import Source

Number = TypeVar("Number", int, float)

SAMPLES: Final = 24 * 60
"""The most samples of a source: those of a day."""
_SAMPLE_S: Final = 60.0
_EVERY_S: Final = 5.0
_WAITING: Final = 512
"""The most ends of the log that wait to be counted, of each source."""


@dataclass(frozen=True)
class FreshnessSample:
    """The worst of a minute that begins at `at`.

    `lag` is the number of offsets that answers did not count. `age_s` is how old answers were at most: the seconds since the log
    ended at or below what they counted. Both are None if the broker did not answer or answers had a problem; `age_s` also if
    answers have not yet counted what the log had at the server's first poll.
    """

    at: datetime
    lag: int | None
    age_s: float | None


@dataclass
class SourceFreshness:
    """The samples of one source, the oldest first."""

    samples: deque[FreshnessSample] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    _waiting: list[tuple[float, Position]] = field(default_factory=list)
    _reached: float | None = None
    _begun: float = float("-inf")

    def add(self, end: LogEnd, counted: Position | None, *, polled: float, seconds: float, at: datetime) -> None:
        """Add a poll to the sample of its minute.

        The log ended at `end` not before `polled`. Answers counted up to `counted` at `seconds`, which is the time of day `at`;
        None if there were no answers.
        """
        now = FreshnessSample(at, None, None)
        if end.position is not None and counted is not None:
            self._wait_for(end.position, polled)
            while self._waiting and self._waiting[0][1].at_or_below(counted):
                self._reached = self._waiting.pop(0)[0]
            age = None if self._reached is None else round(seconds - self._reached, 1)
            now = FreshnessSample(at, end.lag(counted), age)
        if seconds - self._begun >= _SAMPLE_S:
            self._begun = seconds
            self.samples.append(now)
        else:
            self.samples[-1] = _worse(self.samples[-1], now)

    def _wait_for(self, end: Position, polled: float) -> None:
        # A topic may be created again: its former records cannot be counted any more.
        self._waiting = [(since, former) for since, former in self._waiting if former.at_or_below(end)] + [(polled, end)]
        if len(self._waiting) > _WAITING:
            # Without every second one, answers are reported as older than they are, never as newer.
            del self._waiting[1::2]


def _worse(first: FreshnessSample, second: FreshnessSample) -> FreshnessSample:
    return replace(first, lag=_most(first.lag, second.lag), age_s=_most(first.age_s, second.age_s))


def _most(first: Number | None, second: Number | None) -> Number | None:
    return max((number for number in (first, second) if number is not None), default=None)


@dataclass
class FreshnessSampler:
    """Polls the log's end while it is `open`; `now` returns the time of day, `clock` monotonic seconds. For one event loop.

    `newest` returns what answers count, `sources` those of the live release.
    """

    settings: Settings
    now: Callable[[], datetime]
    clock: Callable[[], float]
    newest: Callable[[], Snapshot | Failed]
    sources: Callable[[], list[Source]]
    by_source: dict[str, SourceFreshness] = field(default_factory=dict, init=False)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Add samples until the context ends."""
        following = asyncio.create_task(self._follow())
        try:
            yield
        finally:
            following.cancel()

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            if isinstance(self.newest(), Snapshot):
                sources, polled = self.sources(), self.clock()
                try:
                    # A thread of its own for each poll: a call that hangs does not hold up the process's end.
                    ends = await TtlCache[Mapping[str, LogEnd]](0.0, self.clock).get(partial(log_ends, self.settings, sources))
                except Exception:  # noqa: BLE001 - whatever the client raises: `/status` reports it, and the sample is unknown
                    ends = {source.name: LogEnd() for source in sources}
                self.add(ends, polled)

    def add(self, ends: Mapping[str, LogEnd], polled: float) -> None:
        """Add a poll of the log that began at `polled`."""
        newest = self.newest()
        tails = newest.tails if isinstance(newest, Snapshot) else {}
        for name in [name for name in self.by_source if name not in ends]:
            del self.by_source[name]
        for name, end in ends.items():
            tail = tails.get(name)
            counted = None if tail is None or tail.problem else tail.end
            samples = self.by_source.setdefault(name, SourceFreshness())
            samples.add(end, counted, polled=polled, seconds=self.clock(), at=self.now())
