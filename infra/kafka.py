"""The platform's Kafka client: topics and their ids, the log's starts and ends, and sending with every record acknowledged."""

import base64
import contextlib
import socket
import struct
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, Message, Producer, TopicCollection, TopicPartition, Uuid
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from infra.settings import Settings
from views.errors import TandemError
from views.ranges import Offsets

if TYPE_CHECKING:
    from concurrent.futures import Future

# A record that no broker has acknowledged for so long is lost: the sender says so instead of trying on for minutes.
_DELIVERY_S = 30
_OWN_TIME = {"message.timestamp.type": "LogAppendTime"}
_T = TypeVar("_T")


class NoBroker(TandemError):
    """No Kafka broker answers at the address."""


class NoTopic(TandemError):
    """The broker has no such topic."""


class NotSent(TandemError):
    """A record was not acknowledged by all that must hold it."""


@dataclass(frozen=True)
class Address:
    """Where a broker is and how it is spoken to: `options` are librdkafka's, without the bootstrap servers."""

    bootstrap: str
    options: Mapping[str, str]
    timeout_s: int


@dataclass(frozen=True)
class Topic:
    """A topic as it is now: a topic deleted and made again has the same name and another id."""

    name: str
    id: str
    partitions: int


@dataclass(frozen=True)
class Record:
    """What a producer says of a record: `milliseconds` since 1970 are its timestamp; a header's value may be None."""

    milliseconds: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True)
class Connection:
    """An open connection to a broker; keep it for as long as questions are asked, each then costs a millisecond or two."""

    address: Address
    admin: AdminClient


def address(settings: Settings, bootstrap: str) -> Address:
    """How to reach a broker; a login is for the outside broker of the settings only, the embedded one asks for none."""
    kafka = settings.kafka
    options: dict[str, str] = {}
    if kafka.bootstrap and kafka.security != "plaintext":
        options["security.protocol"] = kafka.security
        if kafka.ca_file:
            options["ssl.ca.location"] = kafka.ca_file
        if kafka.security.startswith("sasl"):
            options |= {"sasl.mechanism": kafka.mechanism, "sasl.username": kafka.username, "sasl.password": kafka.password}
    return Address(bootstrap, options, kafka.timeout_s)


def connect(address: Address) -> Connection:
    """Open a connection; raises NoBroker at once if nothing listens at any of the addresses."""
    refusals = [_refusal(server.strip(), address.timeout_s) for server in address.bootstrap.split(",")]
    if all(refusals):
        raise NoBroker(f"no Kafka broker at {address.bootstrap}: {refusals[0]}")
    try:
        return Connection(address, AdminClient(configuration(address)))
    except KafkaException as error:
        raise NoBroker(f"cannot speak to Kafka at {address.bootstrap}: {reason(error)}") from None


def describe(connection: Connection, names: Iterable[str]) -> dict[str, Topic]:
    """The topics of these names that exist; raises NoBroker if none answers in time."""
    wanted = list(names)
    if not wanted:
        return {}
    futures = connection.admin.describe_topics(TopicCollection(wanted), request_timeout=connection.address.timeout_s)
    found = {}
    for name, future in futures.items():
        try:
            described = answer(connection, future)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise NoBroker(f"topic '{name}' at {connection.address.bootstrap}: {reason(error)}") from None
        else:
            found[name] = Topic(name, _text(described.topic_id), len(described.partitions))
    return found


def topic(connection: Connection, name: str) -> Topic:
    """The topic of this name; raises NoTopic."""
    return topics(connection, [name])[0]


def topics(connection: Connection, names: Iterable[str]) -> tuple[Topic, ...]:
    """The topics of these names, in their order; raises NoTopic."""
    wanted = list(names)
    found = describe(connection, wanted)
    for name in wanted:
        if name not in found:
            raise NoTopic(f"the broker at {connection.address.bootstrap} has no topic '{name}'; run `tandem up` to make it")
    return tuple(found[name] for name in wanted)


def starts(connection: Connection, topics: Iterable[Topic]) -> Offsets:
    """The first offset that each partition still has."""
    return _offsets(connection, topics, OffsetSpec.earliest())


def ends(connection: Connection, topics: Iterable[Topic]) -> Offsets:
    """The offset after the last that a reader of committed records may read, of each partition."""
    return _offsets(connection, topics, OffsetSpec.latest())


def since(connection: Connection, topics: Iterable[Topic], at: datetime) -> Offsets:
    """The offset of each partition's first record with a timestamp at or after `at`; the partition's end if it has none."""
    found = _offsets(connection, topics, OffsetSpec.for_timestamp(int(at.timestamp() * 1000)))
    nowhere = {partition for partition, offset in found.items() if offset < 0}
    return {**found, **{p: end for p, end in ends(connection, topics).items() if p in nowhere}} if nowhere else found


def create(
    connection: Connection, names: Iterable[str], settings: Settings, *, own_time: Collection[str] = ()
) -> dict[str, Topic]:
    """Make the topics that do not exist yet, with the settings' partitions and retention; gives all of them, ready for use.

    Records of those in `own_time` get the time at which the log receives them, whatever their producers say.
    """
    wanted = list(names)
    existing = describe(connection, wanted)
    kafka = settings.kafka
    common = {"retention.ms": str(kafka.retention_hours * 3_600_000 or -1)}
    missing = [
        NewTopic(
            name,
            kafka.partitions,
            kafka.replication if kafka.bootstrap else 1,
            config=common | (_OWN_TIME if name in own_time else {}),
        )
        for name in wanted
        if name not in existing
    ]
    if missing:
        for name, future in connection.admin.create_topics(missing, request_timeout=connection.address.timeout_s).items():
            try:
                answer(connection, future)
            except KafkaException as error:
                # Someone else was faster.
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise NoBroker(f"topic '{name}' cannot be made: {reason(error)}") from None
    return _settled(connection, wanted)


class Sender:
    """Sends records with acks=all, each once and in order; use it in a `with`, whose end waits for every acknowledgement.

    Records of one key are in one partition: CRC-32(key) modulo the number of partitions, where the key is not empty.
    `acknowledged` counts records that all replicas hold; `positions` is, per topic name and partition, the offset after the last
    of them. The timestamp of a record is the time of its sending unless one is given. A record of more than `most_bytes` is
    refused here, a smaller one perhaps by the broker.
    """

    def __init__(self, address: Address, *, most_bytes: int = 1_000_000) -> None:
        self.acknowledged = 0
        self.positions: dict[tuple[str, int], int] = {}
        self._refused: KafkaError | None = None
        self._address = address
        self._producer = Producer(producing(address, most_bytes=most_bytes) | {"message.timeout.ms": str(_DELIVERY_S * 1000)})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: object) -> None:
        if kind is None:
            self.finish()
        else:
            self._producer.purge()

    def send(self, topic: str, value: bytes | None, key: bytes | None = None) -> None:
        """Hand over one record; blocks while too many are under way, raises NotSent if an earlier or this one was refused."""
        self._send(topic, value, key, {})

    def send_as(self, topic: str, partition: int, record: Record) -> None:
        """As `send`, to this very partition, with the record's headers and timestamp, which must not be 0."""
        timed = {"partition": partition, "timestamp": record.milliseconds, "headers": list(record.headers)}
        self._send(topic, record.value, record.key, timed)

    def _send(self, topic: str, value: bytes | None, key: bytes | None, further: Mapping[str, Any]) -> None:
        while True:
            try:
                self._producer.produce(topic, value, key, on_delivery=self._delivered, **further)
            except BufferError:
                self._producer.poll(0.1)
            except KafkaException as error:
                # What was handed over before is sent all the same, so that the number of acknowledged ones is true.
                self._producer.flush(_DELIVERY_S)
                complaint = self._complaint(error.args[0])
                raise NotSent(f"{complaint}; the record has {len(value or b'')} bytes") from None
            else:
                break
            self._raise_refusal()
        self._producer.poll(0)
        self._raise_refusal()

    def poll(self) -> None:
        """Look at what was acknowledged while nothing is sent; raises NotSent if a record was refused."""
        self._producer.poll(0)
        self._raise_refusal()

    def finish(self) -> None:
        """Wait until every record is acknowledged; raises NotSent if one is not."""
        deadline = time.monotonic() + 2 * _DELIVERY_S
        while self._producer.flush(0.2) and time.monotonic() < deadline:
            self._raise_refusal()
        self._raise_refusal()
        if left := len(self._producer):
            raise NotSent(f"{left} records were not acknowledged by {self._address.bootstrap} in time")

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._refused = self._refused or error
            return
        self.acknowledged += 1
        self.positions[(str(message.topic()), int(message.partition() or 0))] = int(message.offset() or 0) + 1

    def _raise_refusal(self) -> None:
        if self._refused is not None:
            raise NotSent(self._complaint(self._refused))

    def _complaint(self, error: KafkaError) -> str:
        return f"Kafka at {self._address.bootstrap} did not take a record: {error.str()}; {self.acknowledged} were acknowledged"


def _settled(connection: Connection, names: list[str]) -> dict[str, Topic]:
    """A topic just made has no leaders for a moment; wait until its offsets can be read."""
    deadline = time.monotonic() + connection.address.timeout_s
    while True:
        topics = describe(connection, names)
        with contextlib.suppress(NoBroker):
            if len(topics) == len(set(names)):
                starts(connection, topics.values())
                return topics
        if time.monotonic() > deadline:
            missing = ", ".join(name for name in names if name not in topics) or ", ".join(names)
            raise NoBroker(f"topics {missing} at {connection.address.bootstrap} did not become ready")
        time.sleep(0.05)


def _offsets(connection: Connection, topics: Iterable[Topic], spec: OffsetSpec) -> Offsets:
    ids = {topic.name: topic.id for topic in topics}
    wanted = {TopicPartition(topic.name, number): spec for topic in topics for number in range(topic.partitions)}
    if not wanted:
        return {}
    futures = connection.admin.list_offsets(
        wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=connection.address.timeout_s
    )
    try:
        return {(ids[at.topic], at.partition): int(answer(connection, future).offset) for at, future in futures.items()}
    except KafkaException as error:
        raise NoBroker(f"the log's offsets at {connection.address.bootstrap}: {reason(error)}") from None


def answer(connection: Connection, future: "Future[_T]") -> _T:
    """The result; raises NoBroker if the broker is gone, KafkaException for what it refused."""
    silent = {KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE}  # noqa: SLF001 - their names
    try:
        return future.result()
    except KafkaException as error:
        if error.args[0].code() in silent:
            where = connection.address.bootstrap
            raise NoBroker(f"the Kafka broker at {where} did not answer in {connection.address.timeout_s} s") from None
        raise


def _refusal(server: str, timeout_s: int) -> str:
    """Why nothing can be sent to host:port, empty if it listens."""
    host, _, port = server.rpartition(":")
    if not host or not port.isdigit():
        return f"{server!r} is not host:port"
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout_s).close()
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return ""


def configuration(address: Address) -> dict[str, str | int | Callable[[KafkaError], None]]:
    """What any client of this address is configured with."""
    # What concerns the caller arrives as an exception; librdkafka's own log would go to the terminal.
    return {"bootstrap.servers": address.bootstrap, "log_level": 0, "error_cb": lambda _: None, **address.options}


def producing(address: Address, *, most_bytes: int) -> dict[str, str | int | Callable[[KafkaError], None]]:
    """What whoever sends records is configured with: acks=all, each once and in order, partitions by CRC-32 of the key."""
    options = {"acks": "all", "enable.idempotence": "true", "linger.ms": "5", "compression.type": "lz4"}
    return configuration(address) | options | {"partitioner": "consistent_random", "message.max.bytes": str(most_bytes)}


def reason(error: KafkaException) -> str:
    """What went wrong, in Kafka's words."""
    return str(error.args[0].str())


def _text(topic_id: Uuid) -> str:
    """A topic id as Kafka's own tools write it."""
    bits = struct.pack(">qq", topic_id.get_most_significant_bits(), topic_id.get_least_significant_bits())
    return base64.urlsafe_b64encode(bits).decode("ascii").rstrip("=")
