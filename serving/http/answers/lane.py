"""Two threads: one asks, so that answers are worked out one at a time, in turn for all principals, and the other polls for news
meanwhile.

All that the routes know of reading is here and in `answers`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeVar

from serving.access.fair_pool import FairPool
from serving.http.answers.cache import AnswerCache
from serving.read.outcome import Failed, ReadFailed
from serving.read.snapshot import Snapshot
from views.errors import said_by

T = TypeVar("T")
Polled = Callable[[Snapshot | Failed, float], None]
_TURN_S: Final = 0.1
"""So long a look or a question that is at work has the interpreter to itself."""


@dataclass
class Lane:
    """Goes on with every commit and publication while it is `open`; `every` is the time between two looks, in seconds.

    `clock` gives seconds that never step back; `polled` is told of each look what it found and how many seconds it took.
    """

    cache: AnswerCache
    every: float
    clock: Callable[[], float]
    polled: Polled
    newest: Snapshot | Failed = field(
        default_factory=lambda: Failed("the server has not read the tables yet; try again"), init=False, repr=False
    )
    _questions: FairPool = field(default_factory=lambda: FairPool("lane", 1), init=False, repr=False)
    _polls: ThreadPoolExecutor | None = field(default=None, init=False, repr=False)
    _changed: asyncio.Condition = field(init=False, repr=False)
    _turns: set[asyncio.Event] = field(default_factory=set, init=False, repr=False)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Read the newest state, then follow until the context ends; once at a time."""
        with self._questions.open():
            self._polls, self._changed = ThreadPoolExecutor(1, "polling"), asyncio.Condition()
            try:
                await self._poll()
                following = asyncio.create_task(self._follow())
                following.add_done_callback(self._ended)
                try:
                    yield
                finally:
                    following.cancel()
            finally:
                self._polls.shutdown(wait=True, cancel_futures=True)
                self._polls = None

    async def ask(self, question: Callable[[AnswerCache], T], *, by: str) -> T:
        """What a function makes of the answers, in the thread, once it is the turn of the principal `by`.

        The snapshot stays pinned meanwhile. Raises the function's errors.
        """

        def pinned() -> T:
            self.cache.pin()
            return question(self.cache)

        with self._turn():
            return await self._questions.run(by, pinned)

    def snapshot(self) -> Snapshot:
        """What is pinned. Raises ReadFailed."""
        if isinstance(self.newest, Failed):
            raise ReadFailed(self.newest.reason)
        return self.newest

    async def settled(self) -> None:
        """Wait until all looks and questions that are at work now have had their turns.

        Threads that compute at the same time hold each other up for far longer than either takes: whenever one of them calls what
        lets the others go on, it has to wait for its turn.
        """
        for over in [*self._turns]:
            await over.wait()

    async def until(self, holds: Callable[[Snapshot], bool], *, seconds: float) -> bool:
        """Wait until something holds of the newest snapshot, at most so long; whether it does. Raises ReadFailed."""
        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(lambda: holds(self.snapshot()))
        except TimeoutError:
            return False
        return True

    async def another(self, than: Snapshot | Failed, *, seconds: float) -> bool:
        """Wait until what was found last is something else, at most so long; whether it is."""
        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(lambda: self.newest is not than)
        except TimeoutError:
            return False
        return True

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """While this lasts, but not for long, those who have yet to ask wait."""
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
        pause = self.every
        while True:
            await asyncio.sleep(pause)
            began = self.clock()
            await self._poll()
            pause = max(self.every / 2, began + self.every - self.clock())

    def _ended(self, following: "asyncio.Task[None]") -> None:
        """Nothing is answered by what has been found last once nobody looks any longer."""
        if not following.cancelled() and (error := following.exception()) is not None:
            self.newest = Failed(f"the server no longer polls for publications: {said_by(error)}")

    async def _poll(self) -> None:
        began = self.clock()
        try:
            with self._turn():
                found = await asyncio.get_running_loop().run_in_executor(self._polls, self.cache.store.refresh)
            self.newest = found if isinstance(found, Failed) else found.snapshot
        except Exception as error:  # noqa: BLE001 - whatever it is, no answer is given until a look succeeds
            self.newest = Failed(f"the published tables cannot be read: {said_by(error)}")
        self.polled(self.newest, self.clock() - began)
        async with self._changed:
            self._changed.notify_all()
