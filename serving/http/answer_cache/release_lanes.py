"""Lanes of releases that are asked before they are live: each has a store and a cache of answers of its own.

So no answer, entity tag or cursor of one release can come from another. One thread serves all of these lanes, beside that of the
live answers.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeVar

from tandem.ledger.publish.if_promoted import IfPromoted
from tandem.serving.access.fair_pool import FairPool
from tandem.serving.http.answer_cache.cache import AnswerCache
from tandem.serving.http.answer_cache.lane import Lane
from tandem.serving.http.protocol.problem import Problem
from tandem.serving.memory.store import Store
from tandem.serving.read.outcome import Failed, ReadFailed
from tandem.serving.read.snapshot import Snapshot
from tandem.serving.sql.merged_views import MergedViews

T = TypeVar("T")

MOST: Final = 2
"""The largest number of lanes at a time: each has views in memory."""
IDLE_S: Final = 60.0
"""Seconds without a question after which a lane is dropped, with its memory."""
_POLLS: Final = "polls"
"""Whose turn in the thread a poll for no question takes."""


@dataclass
class ReleaseLane:
    """Answers of the `asked` release as if it were promoted now. It does what `Lane` does, but polls only when somebody asks.

    Those who wait share a poll for `every` seconds. `clock` returns monotonic seconds; `used` is when somebody asked last.
    """

    asked: IfPromoted
    cache: AnswerCache
    questions: FairPool
    every: float
    clock: Callable[[], float]
    newest: Snapshot | Failed = field(default_factory=lambda: Failed("the release has not been read yet"), init=False, repr=False)
    used: float = field(default=float("-inf"), init=False)

    def __post_init__(self) -> None:
        self.statements, self._polled = MergedViews(self.cache.store), float("-inf")

    async def ask(self, question: Callable[[AnswerCache], T], *, by: str) -> T:
        """The result of a function of the newest answers, once it is the turn of the principal `by`.

        The snapshot stays pinned meanwhile. Raises NotReady if the release cannot be asked any more, and the function's errors.
        """

        def answer() -> T:
            self._poll()
            self.cache.pin()
            return question(self.cache)

        self.used = self.clock()
        return await self.questions.run(by, answer)

    def snapshot(self) -> Snapshot:
        """The newest snapshot. Raises ReadFailed."""
        if isinstance(self.newest, Failed):
            raise ReadFailed(self.newest.reason)
        return self.newest

    async def until(self, holds: Callable[[Snapshot], bool], *, seconds: float) -> bool:
        """Wait until a condition holds of the newest snapshot; returns whether it does within this time.

        Raises NotReady, ReadFailed.
        """
        loop = asyncio.get_running_loop()
        ends = loop.time() + seconds
        while True:
            self.used = self.clock()
            if loop.time() - self._polled >= self.every:
                self._polled = loop.time()
                await self.questions.run(_POLLS, self._poll)
            if holds(self.snapshot()):
                return True
            if (left := ends - loop.time()) <= 0:
                return False
            await asyncio.sleep(min(left, self.every))

    async def another(self, than: Snapshot | Failed, *, seconds: float) -> bool:
        """Wait for a snapshot other than this one; returns whether one came within this time. Raises NotReady, ReadFailed."""
        return await self.until(lambda snapshot: snapshot is not than, seconds=seconds)

    def _poll(self) -> None:
        outcome = self.cache.store.refresh()
        self.newest = outcome if isinstance(outcome, Failed) else outcome.snapshot
        if isinstance(outcome, Failed):
            self.asked.newest()  # raises the reason if it is the release's own


AnyLane = Lane | ReleaseLane
"""A lane of the live answers, or of a release that is not live."""


@dataclass
class ReleaseLanes:
    """The lanes of the releases that are asked now, while it is `open`.

    `following(release)` follows a release as if it were promoted, `store_of` makes a store that does. A store may cache `budget`
    bytes of answers. `every` and `clock` are those of each lane.
    """

    following: Callable[[int], IfPromoted]
    store_of: Callable[[IfPromoted], Store]
    budget: int
    every: float
    clock: Callable[[], float]
    _questions: FairPool = field(default_factory=lambda: FairPool("release", 1), init=False, repr=False)
    _lanes: dict[int, ReleaseLane] = field(default_factory=dict, init=False, repr=False)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Answer until the context ends."""
        with self._questions.open():
            try:
                yield
            finally:
                self._lanes = {}

    async def lane(self, release: int, *, by: str) -> ReleaseLane:
        """The lane of a release, for the principal `by`. Raises NotReady for a release that cannot be asked, and Problem 429 if
        others are asked now.
        """
        self.drop_idle()
        if release not in self._lanes:
            asked = self.following(release)
            await self._questions.run(by, asked.newest)
            if release not in self._lanes:
                self._refuse_many()
                cache = AnswerCache(self.store_of(asked), self.budget)
                self._lanes[release] = ReleaseLane(asked, cache, self._questions, self.every, self.clock)
        lane = self._lanes[release]
        lane.used = self.clock()
        return lane

    def drop_idle(self) -> None:
        """Drop the lanes that nobody has asked for a while."""
        now = self.clock()
        self._lanes = {number: lane for number, lane in self._lanes.items() if now - lane.used < IDLE_S}

    def _refuse_many(self) -> None:
        if len(self._lanes) < MOST:
            return
        wait = max(0.0, min(lane.used for lane in self._lanes.values()) + IDLE_S - self.clock())
        numbers = " and ".join(str(number) for number in sorted(self._lanes))
        raise Problem(
            429,
            f"the server answers {MOST} releases that are not live at a time, now {numbers}; try again in {wait:.0f} s",
            headers={"Retry-After": str(int(wait) + 1)},
        )
