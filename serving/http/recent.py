"""What takes an unknown time to find out, asked at most now and then, whoever and however many want it."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass
class Recent(Generic[T]):
    """Something that was found at most `kept` seconds ago; one thread at a time looks for it. For one event loop.

    `clock` gives seconds that never step back.
    """

    kept: float
    clock: Callable[[], float]
    _under_way: "Future[T] | None" = field(default=None, init=False, repr=False)
    _found: "tuple[float, T] | None" = field(default=None, init=False, repr=False)

    async def get(self, look: Callable[[], T], *, patience: float | None = None) -> T | None:
        """What is known, else what `look` finds; None if that takes longer than `patience` seconds. Raises what that raises."""
        if self._found is not None and self.clock() - self._found[0] <= self.kept:
            return self._found[1]
        if self._under_way is None or self._under_way.done():
            self._under_way = Future()
            # One that hangs holds up neither a request nor the process's end.
            threading.Thread(target=_find, args=(self._under_way, look), name="recent", daemon=True).start()
        looked = self._under_way
        done, _ = await asyncio.wait([asyncio.wrap_future(looked)], timeout=patience)
        if not done:
            return None
        self._found = (self.clock(), next(iter(done)).result())
        return self._found[1]


def _find(looked: "Future[T]", look: Callable[[], T]) -> None:
    looked.set_running_or_notify_cancel()
    try:
        looked.set_result(look())
    except BaseException as error:  # noqa: BLE001 - it is raised where somebody waits
        looked.set_exception(error)
