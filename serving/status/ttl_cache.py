"""What takes an unknown time to find out, asked at most now and then, whoever and however many want it."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass
class TtlCache(Generic[T]):
    """Something that was found at most `kept` seconds ago; one thread at a time looks for it. For one event loop.

    `clock` gives seconds that never step back, in any thread.
    """

    kept: float
    clock: Callable[[], float]
    _looked: "Future[tuple[float, T]] | None" = field(default=None, init=False, repr=False)

    async def get(self, look: Callable[[], T]) -> T:
        """What is known, else what `look` finds. Raises what that raises."""
        looked = self._looked
        if looked is None or self._is_over(looked):
            looked = self._looked = Future()
            # A call that hangs holds up neither a request nor the process's end.
            threading.Thread(target=self._find, args=(looked, look), name="recent", daemon=True).start()
        # Who leaves takes nobody else's answer along.
        return (await asyncio.shield(asyncio.wrap_future(looked)))[1]

    async def get_within(self, seconds: float, look: Callable[[], T]) -> T | None:
        """The same; None if that takes longer. What is found then is known to who asks next."""
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
        except BaseException as error:  # noqa: BLE001 - it is raised where somebody waits
            looked.set_exception(error)
