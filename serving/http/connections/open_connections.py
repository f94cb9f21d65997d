"""The connections of one server: which it keeps, and which it ends because they are too slow."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from tandem.infra.logs.telling import Lines
from tandem.infra.settings import ServingSettings
from tandem.serving.http.connections.admission import Admission
from tandem.serving.http.connections.request_turns import Starts
from tandem.serving.http.metrics import Metrics

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
