"""How much of the server one principal may use: requests a second, as a token bucket, and requests at a time."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

_REMEMBERED: Final = 10_000
_BUSY_S: Final = 1.0


@dataclass
class _Use:
    left: float
    at: float
    running: int = 0


@dataclass
class Limits:
    """Each principal may begin `burst` requests at once and `rate` a second after that, of which `concurrent` run at a time.

    `clock` gives seconds that never step back. For one thread.
    """

    rate: float
    burst: int
    concurrent: int
    clock: Callable[[], float]
    _uses: dict[str, _Use] = field(default_factory=dict, init=False, repr=False)

    def enter(self, principal: str) -> float | None:
        """Begin a request: None, and `leave` is to follow, or after how many seconds to try again."""
        now = self.clock()
        use = self._uses.get(principal)
        if use is None:
            self._forget(now)
            use = self._uses[principal] = _Use(float(self.burst), now)
        use.left = min(float(self.burst), use.left + (now - use.at) * self.rate)
        use.at = now
        if use.running >= self.concurrent:
            return _BUSY_S
        if use.left < 1:
            return (1 - use.left) / self.rate
        use.left -= 1
        use.running += 1
        return None

    def leave(self, principal: str) -> None:
        """End a request that was let in."""
        self._uses[principal].running -= 1

    def _forget(self, now: float) -> None:
        """Those whose bucket is full again are like new ones."""
        if len(self._uses) >= _REMEMBERED:
            self._uses = {
                name: use for name, use in self._uses.items() if use.running or use.left + (now - use.at) * self.rate < self.burst
            }
