"""Every record that the platform appends to the log is sent here, by librdkafka."""

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tandem.infra.kafka.address import Address
from tandem.infra.kafka.contract import MOST_BYTES, Appended, NotAppended, NotSent, Outcome, Record, Told
from tandem.infra.kafka.native_errors import NativeErrors
from tandem.infra.kafka.refusals import refusal_of

# A record that no broker has acknowledged for this long is given up: the sender reports it instead of retrying for minutes.
_DELIVERY_S: Final = 30
_POLL_S: Final = 0.2
_LATE_S: Final = 10.0
"""The longest delay until a record whose time is over is given up: the client checks about once a second."""
_RECONNECT_MS: Final = 1_000
# The broker has refused the record, and no earlier attempt of it can be in the log.
_REFUSALS: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - its name
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 - its name
        KafkaError._QUEUE_FULL,  # noqa: SLF001 - its name
    }
)


@dataclass
class _Batch:
    """Records in flight; `told` is called once all outcomes are known. After the hand-over only the polling thread writes."""

    told: Told
    outcomes: list[Outcome | None]
    left: int = field(init=False)

    def __post_init__(self) -> None:
        self.left = len(self.outcomes)

    def heard(self, number: int, outcome: Outcome) -> None:
        self.outcomes[number] = outcome
        self.left -= 1
        if not self.left:
            self.told([outcome for outcome in self.outcomes if outcome is not None])


class Appender:
    """Appends with acks=all, each record once and in order, with the partitions of a Sender; for one thread at a time.

    A record that is not acknowledged within `seconds` is given up. Its own thread polls for the outcomes of records. If `broken`
    is true, create another appender.
    """

    def __init__(self, address: Address, *, seconds: float) -> None:
        self.address = address
        self._seconds = seconds
        self._broken, self._closed, self._changed = threading.Event(), threading.Event(), threading.Condition()
        self._in_flight = 0
        own = {"message.timeout.ms": str(int(seconds * 1000)), "reconnect.backoff.max.ms": str(_RECONNECT_MS)}
        self._errors = NativeErrors(address)
        self._producer = Producer(producer_options(address, most_bytes=MOST_BYTES) | own | {"error_cb": self._told_of})
        self._thread = threading.Thread(target=self._hear, name="appending", daemon=True)
        self._thread.start()

    @property
    def broken(self) -> bool:
        """Whether it no longer accepts records."""
        return self._broken.is_set()

    def append(self, topic: str, records: Sequence[Record], told: Told) -> None:
        """Hand over at least one record; `told` receives an outcome for each, in their order, in any case.

        `told` is called in a thread of the appender: it must neither raise nor block. A record's own milliseconds are left out:
        its timestamp is the time of its sending, or the log's.
        """
        batch = _Batch(told, [None] * len(records))
        with self._changed:
            self._in_flight += len(records)
        for number, record in enumerate(records):
            try:
                self._producer.produce(
                    topic,
                    record.value,
                    record.key,
                    headers=list(record.headers),
                    on_delivery=partial(self._delivered, batch, number),
                )
            except (BufferError, KafkaException) as error:
                why = "the queue is full" if isinstance(error, BufferError) else str(error.args[0].str())
                self._heard(batch, number, NotAppended(why, sure=True))

    def close(self) -> None:
        """Wait until all records are acknowledged or given up, then end."""
        with self._changed:
            self._changed.wait_for(lambda: not self._in_flight, self._seconds + _LATE_S)
        self._closed.set()
        self._thread.join()

    def _hear(self) -> None:
        while not self._closed.is_set():
            try:
                self._producer.poll(_POLL_S)
            except KafkaException as error:  # a fatal one, once; the outcomes of the records follow
                self._told_of(error.args[0])

    def _delivered(self, batch: _Batch, number: int, error: KafkaError | None, message: Message) -> None:
        if error is None:
            offset = int(message.offset() or 0)
            self._errors.clear()
            self._heard(batch, number, Appended(int(message.partition() or 0), offset if offset >= 0 else None))
        else:
            self._told_of(error)
            cause = self._errors.refusal
            why = str(error.str()) if cause is None else f"{error.str()}: {cause}"
            self._heard(batch, number, NotAppended(why, sure=error.code() in _REFUSALS))

    def _heard(self, batch: _Batch, number: int, outcome: Outcome) -> None:
        # Called by the polling thread, and by `append` for a record that the client does not take.
        with self._changed:
            self._in_flight -= 1
            batch.heard(number, outcome)
            self._changed.notify_all()

    def _told_of(self, error: KafkaError) -> None:
        self._errors(error)
        if error.fatal() or error.code() == KafkaError._FATAL:  # noqa: SLF001 - its name
            self._broken.set()


class Sender:
    """Sends records with acks=all, each once and in order; use it in a `with`, whose end waits for every acknowledgement.

    Records of one key are in one partition, that of murmur2, as Java's clients have it; those without a key in any.
    `acknowledged` counts records that all replicas hold; `positions` is, per topic name and partition, the offset after the last
    of them. The timestamp of a record is the time of its sending unless one is given. A record of more than `most_bytes` is
    refused here, a smaller one perhaps by the broker. After NotSent it sends nothing more.
    """

    def __init__(self, address: Address, *, most_bytes: int = MOST_BYTES) -> None:
        self.acknowledged = 0
        self.positions: dict[tuple[str, int], int] = {}
        self._refused: KafkaError | None = None
        self._address, self._errors = address, NativeErrors(address)
        limits = {"message.timeout.ms": str(_DELIVERY_S * 1000), "error_cb": self._errors}
        self._producer = Producer(producer_options(address, most_bytes=most_bytes) | limits)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: object) -> None:
        if kind is None:
            self.finish()
        else:
            self._producer.purge()

    def send(
        self, topic: str, value: bytes | None, key: bytes | None = None, *, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> None:
        """Hand over one record; blocks while too many are in flight, raises NotSent if an earlier or this one was refused."""
        self._send(topic, value, key, {"headers": list(headers)} if headers else {})

    def send_as(self, topic: str, partition: int, record: Record) -> None:
        """As `send`, to this very partition, with the record's headers and timestamp, which must not be 0."""
        timed = {"partition": partition, "timestamp": record.milliseconds, "headers": list(record.headers)}
        self._send(topic, record.value, record.key, timed)

    def _send(self, topic: str, value: bytes | None, key: bytes | None, further: Mapping[str, Any]) -> None:
        while True:
            try:
                self._producer.produce(topic, value, key, on_delivery=self._delivered, **further)
            except BufferError:
                self._hear(0.1)
            except KafkaException as error:
                # Records that were handed over before are still sent, so that the number of acknowledged records is correct.
                self._drain(_DELIVERY_S)
                self._raise_refusal()
                complaint = self._complaint(error.args[0])
                raise NotSent(f"{complaint}; the record has {len(value or b'')} bytes") from None
            else:
                break
            self._raise_refusal()
        self._hear(0)
        self._raise_refusal()

    def poll(self) -> None:
        """Process acknowledgements while nothing is sent; raises NotSent if a record was refused."""
        self._hear(0)
        self._raise_refusal()

    def _hear(self, seconds: float) -> None:
        """Have the client process acknowledgements. It raises a fatal error, once, which no record survives.

        `poll` ends with that error, and the next one continues. `flush` of confluent-kafka 2.16 goes on: it calls back with the
        error set, so that the callback fails and its record has no outcome.
        """
        try:
            self._producer.poll(seconds)
        except KafkaException as error:
            self._errors(error.args[0])
            self._refused = self._refused or error.args[0]

    def _drain(self, seconds: float) -> None:
        """Wait until no record is in flight, but no longer than that, nor beyond a refusal."""
        deadline = time.monotonic() + seconds
        while len(self._producer) and self._refused is None and time.monotonic() < deadline:
            self._hear(_POLL_S)

    def finish(self) -> None:
        """Wait until every record is acknowledged; raises NotSent if one is not."""
        self._drain(2 * _DELIVERY_S)
        self._raise_refusal()
        if left := len(self._producer):
            raise NotSent(f"{self._address.bootstrap} did not acknowledge {left} records in time")

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._refused = self._refused or error
            return
        self._errors.clear()
        self.acknowledged += 1
        self.positions[(str(message.topic()), int(message.partition() or 0))] = int(message.offset() or 0) + 1

    def _raise_refusal(self) -> None:
        if self._refused is not None:
            if cause := refusal_of(self._address, str(self._refused.str()), what="an append") or self._errors.refusal:
                raise NotSent(f"{cause}; {self.acknowledged} records were acknowledged", code=cause.code)
            raise NotSent(self._complaint(self._refused))

    def _complaint(self, error: KafkaError) -> str:
        return f"Kafka at {self._address.bootstrap} did not accept a record: {error.str()}; {self.acknowledged} were acknowledged"


def _silent() -> logging.Logger:
    logger = logging.getLogger("librdkafka")
    logger.setLevel(logging.CRITICAL + 1)
    return logger


def producer_options(address: Address, *, most_bytes: int) -> dict[str, Any]:
    """The configuration of a producer: acks=all, each record once and in order, partitions as in Java's producer."""
    return {
        "bootstrap.servers": address.bootstrap,
        # Errors reach the caller as exceptions; librdkafka's own log would go to the terminal, of fatal errors at any level.
        "log_level": 0,
        "logger": _silent(),
        "error_cb": lambda _: None,
        "acks": "all",
        "enable.idempotence": "true",
        "linger.ms": "5",
        "compression.type": "lz4",
        "partitioner": "murmur2_random",
        "message.max.bytes": str(most_bytes),
        # Else a broker at Kafka's defaults creates a deleted topic again, empty and under a new id, and acknowledges the record.
        "allow.auto.create.topics": "false",
        **address.options,
    }
