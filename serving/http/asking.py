"""Two threads: one that asks, so that answers are worked out one at a time, and one that looks for what is new meanwhile.

All that the routes know of reading is here and in `answers`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from serving.http.answers import Answers
from serving.outcome import Failed, ReadFailed
from serving.snapshot import Snapshot
from views.errors import said_by

T = TypeVar("T")
Looked = Callable[[bool, float], None]


@dataclass
class Asking:
    """Goes on with every commit and publication while it is `open`; `every` is the time between two looks, in seconds.

    `clock` gives seconds that never step back; `looked` is told of each look whether it failed and how long it took.
    """

    answers: Answers
    every: float
    clock: Callable[[], float]
    looked: Looked
    newest: Snapshot | Failed = field(default_factory=lambda: Failed("nothing has been read yet"), init=False, repr=False)
    _thread: ThreadPoolExecutor | None = field(default=None, init=False, repr=False)
    _looks: ThreadPoolExecutor | None = field(default=None, init=False, repr=False)
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition, init=False, repr=False)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Read what there is, then follow until the context ends."""
        self._thread, self._looks = ThreadPoolExecutor(1, "asking"), ThreadPoolExecutor(1, "looking")
        try:
            await self._look()
            following = asyncio.create_task(self._follow())
            try:
                yield
            finally:
                following.cancel()
        finally:
            for thread in (self._thread, self._looks):
                thread.shutdown(wait=True, cancel_futures=True)

    async def ask(self, question: Callable[[Answers], T]) -> T:
        """What a function makes of the answers, in the thread; the snapshot stays pinned meanwhile. Raises its errors."""
        assert self._thread is not None, "asked before it was opened"

        def pinned() -> T:
            self.answers.pin()
            return question(self.answers)

        return await asyncio.get_running_loop().run_in_executor(self._thread, pinned)

    def snapshot(self) -> Snapshot:
        """What is pinned. Raises ReadFailed."""
        if isinstance(self.newest, Failed):
            raise ReadFailed(self.newest.reason)
        return self.newest

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

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(self.every)
            await self._look()

    async def _look(self) -> None:
        began = self.clock()
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._looks, self.answers.store.refresh)
            self.newest = found if isinstance(found, Failed) else found.snapshot
        except Exception as error:  # noqa: BLE001 - whatever it is, no answer is given until a look succeeds
            self.newest = Failed(f"what is published cannot be read: {said_by(error)}")
        self.looked(isinstance(self.newest, Failed), self.clock() - began)
        async with self._changed:
            self._changed.notify_all()
