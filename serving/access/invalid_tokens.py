"""A rate limit on invalid tokens for each network that sends them."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

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
