"""Limits of one principal: requests per second, as a token bucket, and concurrent requests."""

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
class PrincipalLimits:
    """Each principal may start `burst` requests at once and `rate` a second after that, of which `concurrent` run at a time.

    `clock` returns monotonic seconds. For one thread.
    """

    rate: float
    burst: int
    concurrent: int
    clock: Callable[[], float]
    _uses: dict[str, _Use] = field(default_factory=dict, init=False, repr=False)

    def enter(self, principal: str) -> float | None:
        """Start a request. Returns None, after which `leave` must follow, or the seconds to wait before the next try."""
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

    def withdraw(self, principal: str) -> None:
        """End a request as if it had not been let in."""
        use = self._uses[principal]
        use.running -= 1
        use.left += 1

    def _forget(self, now: float) -> None:
        """Forget principals whose bucket is full again: they are like new ones."""
        if len(self._uses) >= _REMEMBERED:
            self._uses = {
                name: use for name, use in self._uses.items() if use.running or use.left + (now - use.at) * self.rate < self.burst
            }
