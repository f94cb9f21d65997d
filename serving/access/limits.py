"""What bounds a caller: requests of a principal, invalid tokens of a network, shares of what all hold."""

from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address, ip_network
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


MOST: Final = 10_000
"""Networks that are remembered; beyond that the network with the oldest failure is forgotten."""

_HOST_BITS: Final = 64


@dataclass
class Failures:
    """A network may send `burst` invalid tokens at once and `rate` a second after that; then it has to wait.

    A valid token never waits, whatever network it comes from. `clock` returns monotonic seconds. For one thread.
    """

    rate: float
    burst: int
    clock: Callable[[], float]
    _buckets: "OrderedDict[str, tuple[float, float]]" = field(default_factory=OrderedDict, init=False, repr=False)

    def failed(self, address: str) -> float | None:
        """Count an invalid token. Returns None, or after how many seconds the network may send the next one."""
        now, network = self.clock(), network_of(address)
        left, at = self._buckets.pop(network, (float(self.burst), now))
        left = min(float(self.burst), left + (now - at) * self.rate)
        wait = None if left >= 1 else (1 - left) / self.rate
        self._buckets[network] = (left - 1 if wait is None else left, now)
        if len(self._buckets) > MOST:
            self._buckets.popitem(last=False)
        return wait


def network_of(address: str) -> str:
    """The IPv4 address, or the /64 network of an IPv6 address, which a provider gives to one customer; other text unchanged."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ip_network((int(found), 128 - _HOST_BITS), strict=False))
    return str(found)


@dataclass
class Shares:
    """`total` units, of which one principal holds at most `most`, if that is given, and at most as much as stays free
    afterwards.

    So if k principals hold units, at least total / 2^k are free (the dynamic threshold of Choudhury and Hahne, 1998). While no
    principal holds any, one amount of any size is granted: otherwise it never would be. For one thread.
    """

    total: int
    most: int | None = None
    _held: Counter[str] = field(default_factory=Counter, init=False, repr=False)
    _used: int = field(default=0, init=False, repr=False)

    def take(self, principal: str, amount: int = 1) -> bool:
        """Whether the principal is granted this amount; if so, `give_back` must follow."""
        held = self._held[principal] + amount
        if self._used and (held > self.total - self._used - amount or (self.most is not None and held > self.most)):
            return False
        self._held[principal] = held
        self._used += amount
        return True

    def give_back(self, principal: str, amount: int = 1) -> None:
        """Return what was granted."""
        self.resize(principal, amount, 0)

    def resize(self, principal: str, granted: int, amount: int) -> None:
        """Change an amount that was granted, whatever is free."""
        self._used += amount - granted
        self._held[principal] += amount - granted
        if not self._held[principal]:
            del self._held[principal]

    @property
    def used(self) -> int:
        """The amount that all principals hold."""
        return self._used

    def held(self, principal: str) -> int:
        """The amount that a principal holds."""
        return self._held[principal]
