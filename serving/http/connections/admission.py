"""Which connections a server keeps, which it ends because they are too slow, and the order in which their requests start."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from tandem.infra.logs.telling import Lines
from tandem.infra.settings import ServingSettings
from tandem.serving.http.metrics import Metrics

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


@dataclass
class Starts:
    """At most `each_turn` starts in one turn of the event loop; the others wait, round robin by address.

    So a request waits for at most one of each other address, however many requests these sent. For one event loop.
    """

    each_turn: int
    _waiting: "dict[str, deque[asyncio.Future[None]]]" = field(
        default_factory=dict, init=False, repr=False
    )  # in the order of turns
    _begun: int = field(default=0, init=False, repr=False)

    async def turn(self, address: str) -> None:
        """Return in this turn of the loop, or in a later one."""
        loop = asyncio.get_running_loop()
        if not self._begun:
            loop.call_soon(self._turn)
        if self._begun < self.each_turn and not self._waiting:
            self._begun += 1
            return
        waits = loop.create_future()
        self._waiting.setdefault(address, deque()).append(waits)
        await waits

    def _turn(self) -> None:
        self._begun = 0
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._turn)
        while self._waiting and self._begun < self.each_turn:
            address = next(iter(self._waiting))
            waits = self._waiting.pop(address)
            first = waits.popleft()
            if waits:
                self._waiting[address] = waits  # behind all others
            if not first.done():  # nobody waits for a request that was cancelled
                self._begun += 1
                first.set_result(None)


SPARE: Final = 1024
"""Connections beyond the bounds that wait for a refusal: a client that is refused at once comes back at once."""
STARTS: Final = 8
"""Requests that start in one turn of the event loop."""


class OpenConnection(Protocol):
    """The part of a connection that admission needs."""

    address: str

    @property
    def answering(self) -> bool:
        """Whether a request is being answered."""
        ...

    def overdue(self, now: float) -> str | None:
        """Why it must be closed; None to keep it."""
        ...

    def end(self, why: str) -> None:
        """End it."""
        ...


@dataclass
class Door:
    """What all connections of a server share; for one event loop. `clock` returns monotonic seconds.

    It keeps at most `most` connections. `access` gets a line for each refusal below requests.

    Beyond its bounds there are spare slots, in which health checks are answered and other requests are refused with the reason.
    Requests start a few at a time, addresses in turn, so that the loop is never busy for long with those of one.
    """

    settings: ServingSettings
    most: int
    metrics: Metrics
    access: Lines
    clock: Callable[[], float]
    starts: Starts = field(default_factory=lambda: Starts(STARTS), init=False, repr=False)
    _kept: Admission[OpenConnection] = field(init=False, repr=False)
    _spare: Admission[OpenConnection] = field(init=False, repr=False)
    _all: set[OpenConnection] = field(default_factory=set, init=False, repr=False)

    def __post_init__(self) -> None:
        settings = self.settings
        self._kept = Admission(self.most, settings.connections_per_address, _answers)
        self._spare = Admission(SPARE, SPARE, _answers, replace=True)

    def enter(self, connection: OpenConnection) -> bool:
        """Whether a new connection is kept; otherwise it has a spare slot, or is ended."""
        self._all.add(connection)
        self.metrics.connections(len(self._all))
        for places in (self._kept, self._spare):
            let_in, ended = places.enter(connection.address, connection)
            if ended is not None:
                ended.end("crowded")
            if let_in:
                return places is self._kept
        connection.end("crowded")
        return False

    def pace(self, began: float, done: int) -> float:
        """The time at which a transfer that began then, and has moved `done` bytes, is too slow."""
        return began + self.settings.grace_s + done / self.settings.least_bytes_s

    def used(self, connection: OpenConnection) -> None:
        """A request begins."""
        self._kept.used(connection.address, connection)

    def leave(self, connection: OpenConnection) -> None:
        """Record that a connection ended."""
        self._all.discard(connection)
        self.metrics.connections(len(self._all))
        for places in (self._kept, self._spare):
            places.leave(connection.address, connection)

    def sweep(self) -> None:
        """End connections that are too slow; call it several times a second."""
        now = self.clock()
        for connection in [*self._all]:
            if (why := connection.overdue(now)) is not None:
                connection.end(why)

    @property
    def refusal(self) -> str:
        """The refusal of a request in a spare slot that is not a health check."""
        return (
            f"too many connections: the server keeps {self.settings.connections_per_address} per address and {self.most} in "
            "total; close some, or reuse a connection for several requests"
        )


def _answers(connection: OpenConnection) -> bool:
    return connection.answering
