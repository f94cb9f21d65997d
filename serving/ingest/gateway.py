"""The gateway into the log: bounded, and connected at the first record, so that a server without a broker still answers."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from math import ceil
from typing import Final, Literal, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from tandem.infra import kafka
from tandem.infra.kafka import Appended, Outcome, Record, broker
from tandem.infra.settings import Settings
from tandem.ledger.log.registry_schemas import RegistrySchemas
from tandem.serving.access.fair_pool import FairPool
from tandem.serving.access.limits import Shares
from tandem.serving.ingest.new_records import IngestTarget, missing_of
from tandem.serving.status.pipeline import TtlCache
from tandem.views.decode.schema_ids import needs_registry

Refusal = Literal["undecodable", "too_large", "no_room", "no_broker", "no_registry"]
"""Why nothing of a request was written."""

_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class IngestMetrics:
    """The gateway's metrics, in a registry; no label is a source's name."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._records = Counter(
            "tandem_ingest_records",
            "Records sent to the log, by outcome: written, not_written, or unknown.",
            ["outcome"],
            registry=registry,
        )
        self._bytes = Counter(
            "tandem_ingest_bytes", "Bytes of the values of these records, by outcome.", ["outcome"], registry=registry
        )
        self._refused = Counter(
            "tandem_ingest_refused", "Rejected requests, of which nothing was written, by reason.", ["reason"], registry=registry
        )
        self._seconds = Histogram(
            "tandem_ingest_append_seconds",
            "Seconds until all records of a request were acknowledged or given up.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self._under_way = Gauge(
            "tandem_ingest_under_way_bytes", "Bytes of received requests that are not acknowledged yet.", registry=registry
        )

    def appended(self, records: Sequence[Record], outcomes: Sequence[Outcome], *, seconds: float) -> None:
        """Count a request's records by outcome."""
        self._seconds.observe(seconds)
        for record, outcome in zip(records, outcomes, strict=True):
            label = "written" if isinstance(outcome, Appended) else "not_written" if outcome.sure else "unknown"
            self._records.labels(label).inc()
            self._bytes.labels(label).inc(len(record.value or b""))

    def refused(self, reason: Refusal) -> None:
        """Count a refused request."""
        self._refused.labels(reason).inc()

    def under_way(self, size: int) -> None:
        """Set the number of unacknowledged bytes."""
        self._under_way.set(size)


T = TypeVar("T")

_RECORD_BYTES: Final = 512
"""About the bytes of a record in progress besides its own."""
_KNOWN_S: Final = 1.0
"""Seconds for which a topic's id is cached: a topic that is created again has another id."""
_SHARE: Final = 0.4
"""The part of a request's time that each question to the broker may take: topic, then appending."""


class NoRoom(Exception):
    """The principal has no room for more unacknowledged bytes; `again` is the number of seconds to wait."""

    def __init__(self, again: int) -> None:
        super().__init__(again)
        self.again = again


@dataclass(eq=False)
class Room:
    """Bytes that a principal's request reserves until the outcome of all its records is known, and since when."""

    by: str
    size: int
    began: float
    handed_over: bool = False


@dataclass
class Gateway:
    """Accepts at most `serving.ingest_mb` at a time, while it is `open`; for one event loop.

    Principals share these bytes (see Shares) and take turns in the thread that decodes bodies, so none keeps another one out.
    `clock` returns monotonic seconds. `schemas` are those that values name.
    """

    settings: Settings
    figures: IngestMetrics
    clock: Callable[[], float]
    schemas: RegistrySchemas | None = None
    _shares: Shares = field(init=False, repr=False)
    _rooms: dict[Room, None] = field(default_factory=dict, init=False, repr=False)
    _topics: dict[str, TtlCache[kafka.Topic]] = field(default_factory=dict, init=False, repr=False)
    _works: FairPool = field(default_factory=lambda: FairPool("ingesting", 1), init=False, repr=False)
    _appender: "kafka.Appender | None" = field(default=None, init=False, repr=False)  # of the thread that works
    _connection: kafka.BrokerConnection | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self._shares = Shares(self.settings.serving.ingest_mb << 20)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Accept requests until the context ends, which waits until all accepted records are acknowledged or given up."""
        with self._works.open():
            try:
                yield
            finally:
                await self._works.run("", self._close)

    @contextmanager
    def room(self, by: str, size: int) -> Iterator[Room]:
        """Room for this many bytes, until the context ends or, once records are handed over, until their outcome is known.

        A request of any size is accepted if no other is in progress. Raises NoRoom.
        """
        if not self._shares.take(by, size):
            waited = self.clock() - next(iter(self._rooms)).began
            raise NoRoom(max(1, min(ceil(waited), self.settings.serving.timeout_s)))
        room = Room(by, size, self.clock())
        self._rooms[room] = None
        self.figures.under_way(self._shares.used)
        try:
            yield room
        finally:
            if not room.handed_over:
                self._leave(room)

    async def work(self, by: str, function: Callable[[], T]) -> T:
        """The result of a function in the one thread that decodes bodies, once it is the principal's turn. Raises its errors."""
        return await self._works.run(by, function)

    async def ready(self, by: str, target: IngestTarget, values: Sequence[bytes], *, at: datetime) -> IngestTarget:
        """The target with all schemas that values name, of at least one. New ones are fetched, not in the thread that decodes.

        The request may be refused, so nothing is stored for it: the layers ask once the values are in the log. Raises
        RegistryAway.
        """
        if self.schemas is None or not needs_registry(target.source):
            return target
        bound = replace(target, source=self.schemas.bind(target.source))
        if not (missing := await self.work(by, lambda: missing_of(bound, values, at=at))):
            return bound
        return replace(target, source=await asyncio.to_thread(self.schemas.peek, target.source, missing))

    async def topic(self, name: str) -> kafka.Topic:
        """The topic as it is now, or was a second ago. Raises NoBroker, NoTopic."""
        if name not in self._topics:
            self._topics[name] = TtlCache(_KNOWN_S, self.clock)
        return await self._topics[name].get(partial(self._described, name))

    async def append(self, room: Room, topic: str, records: Sequence[Record]) -> Sequence[Outcome]:
        """The outcome of each record, of at least one: acknowledged by all replicas, or given up. Raises NoBroker."""
        loop, began = asyncio.get_running_loop(), self.clock()
        found: asyncio.Future[Sequence[Outcome]] = loop.create_future()
        self._resize(room, sum(_RECORD_BYTES + len(record.value or b"") for record in records))

        def known(outcomes: Sequence[Outcome]) -> None:
            self._leave(room)
            self.figures.appended(records, outcomes, seconds=self.clock() - began)
            if not found.done():  # who asked may have gone
                found.set_result(outcomes)

        def hand_over() -> None:
            appender = self._current()
            room.handed_over = True
            appender.append(topic, records, lambda outcomes: loop.call_soon_threadsafe(known, outcomes))

        await self.work(room.by, hand_over)
        return await found

    def _resize(self, room: Room, size: int) -> None:
        self._shares.resize(room.by, room.size, size)
        room.size = size
        self.figures.under_way(self._shares.used)

    def _leave(self, room: Room) -> None:
        # A request may have ended just as its records were handed over.
        if room in self._rooms:
            del self._rooms[room]
            self._resize(room, 0)

    def _described(self, name: str) -> kafka.Topic:
        # In a thread of its own for each topic: two may connect at once, and one of them in vain.
        address, connection = self._address(), self._connection
        if connection is None or connection.address != address:
            connection = self._connection = kafka.connect(address)
        return kafka.topic(connection, name)

    def _current(self) -> "kafka.Appender":
        """A connection to the broker's current address: the embedded broker may have restarted at another."""
        address = self._address()
        if self._appender is None or self._appender.broken or self._appender.address != address:
            self._close()
            self._appender = kafka.Appender(address, seconds=self._seconds)
        return self._appender

    def _close(self) -> None:
        if self._appender is not None:
            self._appender.close()
            self._appender = None

    def _address(self) -> kafka.Address:
        return replace(broker.address(self.settings), timeout_s=max(1, int(self._seconds)))

    @property
    def _seconds(self) -> float:
        return min(self.settings.kafka.timeout_s, self.settings.serving.timeout_s * _SHARE)
