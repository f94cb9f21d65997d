"""A lane: a thread that computes answers, one at a time and principals in turn, and a thread that polls for new snapshots."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from tandem.infra import kafka
from tandem.infra.kafka import broker
from tandem.infra.kafka.source_topics import topics_of
from tandem.infra.settings import Settings
from tandem.ledger.delta.watched_table import SELDOM_S
from tandem.ledger.hot.chain import LOOK_S
from tandem.ledger.log.positions import Position
from tandem.serving.access.fair_pool import FairPool
from tandem.serving.http.answer_cache.cache import AnswerCache
from tandem.serving.memory.store import Pinned
from tandem.serving.read.outcome import Failed, ReadFailed
from tandem.serving.read.snapshot import Snapshot
from tandem.views.errors import TooLong, said_by
from tandem.views.source.united_source import all_sources, names_of

T = TypeVar("T")
Polled = Callable[[Snapshot | Failed, float], None]
_TURN_S: Final = 0.1
"""The longest time for which a running poll or question blocks new questions, so that it has the interpreter alone."""


@dataclass
class Lane:
    """Follows every commit and publication while it is `open`; `every` is the time between two polls, in seconds.

    Between two polls at least half of that time passes, also after a call of `wake` or a slow poll. After `wake` it answers with
    hot commits at once if that needs no poll. While all answers count hot commits, to which commits could add nothing, it polls
    every `LOOK_S` seconds, unless `every` is longer. While `rests(pinned)` is true, only a publication can be new, and it polls
    every `SELDOM_S` seconds.
    `clock` returns monotonic seconds; `polled` receives the result of each poll and its duration in seconds.
    """

    cache: AnswerCache
    every: float
    clock: Callable[[], float]
    polled: Polled
    rests: Callable[[Pinned], bool] = lambda _: False
    newest: Snapshot | Failed = field(
        default_factory=lambda: Failed("the server has not read the tables yet; try again"), init=False, repr=False
    )
    _questions: FairPool = field(default_factory=lambda: FairPool("lane", 1), init=False, repr=False)
    _polls: ThreadPoolExecutor | None = field(default=None, init=False, repr=False)
    _changed: asyncio.Condition = field(init=False, repr=False)
    _woken: asyncio.Event = field(init=False, repr=False)
    _loop: asyncio.AbstractEventLoop | None = field(default=None, init=False, repr=False)
    _turns: set[asyncio.Event] = field(default_factory=set, init=False, repr=False)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Read the newest state, then follow until the context ends; it may be open once at a time."""
        with self._questions.open():
            self._polls, self._changed = ThreadPoolExecutor(1, "polling"), asyncio.Condition()
            self._woken, self._loop = asyncio.Event(), asyncio.get_running_loop()
            try:
                await self._poll()
                following = asyncio.create_task(self._follow())
                following.add_done_callback(self._ended)
                try:
                    yield
                finally:
                    following.cancel()
            finally:
                self._loop = None
                self._polls.shutdown(wait=True, cancel_futures=True)
                self._polls = None

    def wake(self) -> None:
        """Answer with new hot commits, or poll soon rather than at the next time; for any thread."""
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop has just been closed
                loop.call_soon_threadsafe(self._woken.set)

    async def ask(self, question: Callable[[AnswerCache], T], *, by: str) -> T:
        """The result of a function of the answers, called in the lane's thread once it is the turn of the principal `by`.

        The snapshot stays pinned meanwhile. Raises the function's errors.
        """

        def pinned() -> T:
            self.cache.pin()
            return question(self.cache)

        with self._turn():
            return await self._questions.run(by, pinned)

    def snapshot(self) -> Snapshot:
        """The newest snapshot. Raises ReadFailed."""
        if isinstance(self.newest, Failed):
            raise ReadFailed(self.newest.reason)
        return self.newest

    async def settled(self) -> None:
        """Wait until all running polls and questions have had their turns.

        Threads that compute at the same time slow each other down far beyond their own work: each time one of them releases the
        interpreter, it has to wait for its next turn.
        """
        for over in [*self._turns]:
            await over.wait()

    async def until(self, holds: Callable[[Snapshot], bool], *, seconds: float) -> bool:
        """Wait until a condition holds of the newest snapshot; returns whether it does within this time. Raises ReadFailed."""
        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(lambda: holds(self.snapshot()))
        except TimeoutError:
            return False
        return True

    async def another(self, than: Snapshot | Failed, *, seconds: float) -> bool:
        """Wait for a result other than this one; returns whether one came within this time."""
        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(lambda: self.newest is not than)
        except TimeoutError:
            return False
        return True

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """While this lasts, but at most `_TURN_S`, new questions wait."""
        over = asyncio.Event()
        latest = asyncio.get_running_loop().call_later(_TURN_S, over.set)
        self._turns.add(over)
        try:
            yield
        finally:
            latest.cancel()
            over.set()
            self._turns.remove(over)

    async def _follow(self) -> None:
        least = self.every / 2
        began, stale = self.clock(), False
        earliest, due = began + least, began + self._every
        while True:
            if (left := due - self.clock()) > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await self._woken.wait()
                if self._woken.is_set():
                    self._woken.clear()
                    if not await self._refresh_hot():
                        due = min(due, earliest)  # however often it is woken, it polls the tables at most twice in its time
                        stale = True
                    continue
            if not stale and self.clock() < began + SELDOM_S and await self._rests():
                due = self.clock() + self._every
                continue
            began, stale = self.clock(), False
            await self._poll()
            earliest = self.clock() + least
            due = max(earliest, began + self._every)

    @property
    def _every(self) -> float:
        """Seconds between two polls, if nothing wakes it."""
        hot = isinstance(self.newest, Snapshot) and self.newest.all_hot
        return max(self.every, LOOK_S) if hot else self.every

    async def _refresh_hot(self) -> bool:
        """Answer with hot commits that have just arrived; false if the tables have to be polled for that."""
        found = await self._looked(self.cache.store.refresh_hot)
        if found is None or isinstance(found, Failed):
            return False  # the poll that follows reports an error
        if found.snapshot is not self.newest:
            self.newest = found.snapshot
            async with self._changed:
                self._changed.notify_all()
        return True

    async def _rests(self) -> bool:
        """Whether a poll can wait; not for an answer that fails."""
        if isinstance(self.newest, Failed):
            return False
        found = await self._looked(lambda: self.rests(self.cache.store.pinned()))
        return found is True

    def _ended(self, following: "asyncio.Task[None]") -> None:
        """Stop answering: a lane that no longer polls cannot know what is current."""
        if not following.cancelled() and (error := following.exception()) is not None:
            self.newest = Failed(f"the server no longer polls for publications: {said_by(error)}")

    async def _poll(self) -> None:
        began = self.clock()
        found = await self._looked(self.cache.store.refresh)
        self.newest = found if isinstance(found, Failed) else found.snapshot
        self.polled(self.newest, self.clock() - began)
        async with self._changed:
            self._changed.notify_all()

    async def _looked(self, look: Callable[[], T]) -> T | Failed:
        """The result of a look at the tables, in the thread that polls; Failed for any error."""
        try:
            with self._turn():
                return await asyncio.get_running_loop().run_in_executor(self._polls, look)
        except (Exception, TooLong) as error:  # noqa: BLE001 - whatever the error: the caller decides whether answers stop
            return Failed(f"the published tables cannot be read: {said_by(error)}")


_PATIENCE_S: Final = 1
"""Seconds for which polls of the tables may wait for a broker."""
_AGAIN_S: Final = 30.0
"""Seconds without a request after the broker did not answer, or a topic was missing."""


@dataclass
class WholeLog:
    """Polls the end of the log: if answers count all of it, a poll of the tables can find only a publication, and can wait.

    A request to the broker costs nothing, one to an object store costs money. For one thread. `clock` returns monotonic
    seconds.
    """

    settings: Settings
    clock: Callable[[], float]
    _connection: kafka.BrokerConnection | None = field(default=None, init=False, repr=False)
    _not_before: float = field(default=float("-inf"), init=False)

    def counted(self, pinned: Pinned) -> bool:
        """Whether the answers of every view at a snapshot count all records of its source.

        False if the broker does not answer.
        """
        snapshot, views = pinned.snapshot, pinned.project.every_view.values()
        if not snapshot.tiled or self.clock() < self._not_before:
            return False
        try:
            if self._connection is None:
                self._connection = kafka.connect(replace(broker.address(self.settings), timeout_s=_PATIENCE_S))
            connection = self._connection
            sources = all_sources(view.source for view in views)
            ends = {name: Position.of(kafka.ends(connection, topics_of(connection, source))) for name, source in sources.items()}
            return all(
                ends[name].at_or_below(snapshot.of(view).positions[name]) for view in views for name in names_of(view.source.name)
            )
        except (kafka.NoBroker, kafka.NoTopic):
            self._connection, self._not_before = None, self.clock() + _AGAIN_S
            return False
