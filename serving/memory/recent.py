"""The cached views whose changes were sent last: a client that comes back soon continues from exactly the rows that it has."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tandem.serving.memory.cached_view import CachedView

SECONDS: Final = 30.0
_MOST: Final = 4_096


@dataclass
class Recent:
    """Cached views by token, each for `seconds` after it was put last; any thread may use it.

    Successive views of a stream share most of their memory, so a few thousand of them take little more than the newest.
    """

    seconds: float = SECONDS
    clock: Callable[[], float] = time.monotonic
    _views: dict[str, tuple[float, CachedView]] = field(default_factory=dict, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def put(self, token: str, held: CachedView) -> None:
        """Keep a view, or keep it longer."""
        with self._lock:
            self._views.pop(token, None)
            self._views[token] = (self.clock(), held)
            self._expire()

    def get(self, token: str) -> CachedView | None:
        """The view of a token; None if it is not kept any more."""
        with self._lock:
            self._expire()
            _, held = self._views.get(token, (0, None))
            return held

    def _expire(self) -> None:
        until = self.clock() - self.seconds
        while self._views:
            oldest = next(iter(self._views))
            if self._views[oldest][0] >= until and len(self._views) <= _MOST:
                return
            del self._views[oldest]
