"""A single-flight async cache with a TTL."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass
class TtlCache(Generic[T]):
    """One value, cached for `kept` seconds; one thread at a time computes it. For one event loop.

    `clock` returns monotonic seconds, in any thread.
    """

    kept: float
    clock: Callable[[], float]
    _looked: "Future[tuple[float, T]] | None" = field(default=None, init=False, repr=False)

    async def get(self, look: Callable[[], T]) -> T:
        """The cached value, else the result of `look`. Raises its errors."""
        looked = self._looked
        if looked is None or self._is_over(looked):
            looked = self._looked = Future()
            # A call that hangs holds up neither a request nor the process's end.
            threading.Thread(target=self._find, args=(looked, look), name="recent", daemon=True).start()
        # A caller that is cancelled does not cancel the answer of others.
        return (await asyncio.shield(asyncio.wrap_future(looked)))[1]

    async def get_within(self, seconds: float, look: Callable[[], T]) -> T | None:
        """The value; None if that takes longer. The computation continues, and the next caller gets its result."""
        try:
            async with asyncio.timeout(seconds):
                return await self.get(look)
        except TimeoutError:
            return None

    def _is_over(self, looked: "Future[tuple[float, T]]") -> bool:
        if not looked.done():
            return False
        return looked.exception() is not None or self.clock() - looked.result()[0] > self.kept

    def _find(self, looked: "Future[tuple[float, T]]", look: Callable[[], T]) -> None:
        try:
            found = look()
            looked.set_result((self.clock(), found))
        except BaseException as error:  # noqa: BLE001 - it is raised in the waiting callers
            looked.set_exception(error)
