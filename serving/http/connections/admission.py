"""Which connections a server keeps: a bound for each address, and room for addresses with few connections."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

C = TypeVar("C")


class Admitted(NamedTuple, Generic[C]):
    """Whether a connection is accepted, and which other connection must be closed for it."""

    let_in: bool
    ended: C | None = None


@dataclass
class Admission(Generic[C]):
    """At most `total` connections, and `each` of one address.

    Beyond `each`, a new connection of an address is refused or, with `replace`, takes the slot of its own oldest. At `total`, a
    connection of an address with fewer than the largest one is accepted, and the largest one loses its oldest that is not
    `busy`. So however many connections some addresses open, an address without any gets its first, while there are fewer
    addresses than slots. For one thread.
    """

    total: int
    each: int
    busy: Callable[[C], bool]
    replace: bool = False
    _by: dict[str, dict[C, None]] = field(default_factory=dict, init=False, repr=False)  # the longest unused first
    _count: int = field(default=0, init=False, repr=False)

    def enter(self, address: str, connection: C) -> Admitted[C]:
        """Count one more connection, if it is accepted; the connection that is ended for it no longer counts."""
        own, ended = len(self._by.get(address, ())), None
        if own >= self.each:
            if not self.replace:
                return Admitted(let_in=False)
            ended = self._end(address)
        elif self._count >= self.total:
            largest = max(self._by, key=lambda one: len(self._by[one]))
            if len(self._by[largest]) <= own + 1:
                return Admitted(let_in=False)
            ended = self._end(largest)
        self._by.setdefault(address, {})[connection] = None
        self._count += 1
        return Admitted(let_in=True, ended=ended)

    def used(self, address: str, connection: C) -> None:
        """Record that a connection sent a request: it is now the newest of its address."""
        connections = self._by.get(address, {})
        if connection in connections:
            del connections[connection]
            connections[connection] = None

    def leave(self, address: str, connection: C) -> None:
        """Stop counting a connection; uncounted connections are ignored."""
        connections = self._by.get(address, {})
        if connection in connections:
            del connections[connection]
            self._count -= 1
            if not connections:
                del self._by[address]

    def _end(self, address: str) -> C:
        connections = self._by[address]
        found = next((one for one in connections if not self.busy(one)), next(iter(connections)))
        self.leave(address, found)
        return found
