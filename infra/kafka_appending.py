"""Appending to the log for many at a time: batches are handed over at once, and each is told what became of its records."""

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from infra.kafka import Address, Record, producing

MOST_BYTES: Final = 1_000_000
"""Of one record, which Kafka's brokers take unless they are told otherwise; some are for what Kafka writes around it."""

_POLL_S: Final = 0.2
_LATE_S: Final = 10.0
"""How long after its time a record may be given up: the client looks once a second, if the machine lets it."""
_RECONNECT_MS: Final = 1_000
# The broker has not taken the record, and no earlier attempt of it can have been taken.
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


@dataclass(frozen=True)
class Appended:
    """All replicas hold the record, at this place of its topic; no offset where the broker knows only that it has it already."""

    partition: int
    offset: int | None


@dataclass(frozen=True)
class NotAppended:
    """No acknowledgement came; `sure` where the record is not in the log, else it may be there or not. Kafka's words on it."""

    why: str
    sure: bool


Outcome = Appended | NotAppended
Told = Callable[[Sequence[Outcome]], object]


@dataclass
class _Batch:
    """Records under way; `told` is called once all outcomes are there. Only the thread that hears writes after the hand-over."""

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
    """Appends with acks=all, each record once and in order, with partitions as `kafka.Sender` has them; for one thread at a time.

    A record that is not acknowledged within `seconds` is given up. What becomes of records is heard by a thread of its own, in
    which `told` is called: it must not raise, nor wait for anything. `broken` says that another one has to be made.
    """

    def __init__(self, address: Address, *, seconds: float) -> None:
        self.address = address
        self._seconds = seconds
        self._broken, self._closed, self._lock = threading.Event(), threading.Event(), threading.Lock()
        own = {"message.timeout.ms": str(int(seconds * 1000)), "reconnect.backoff.max.ms": str(_RECONNECT_MS)}
        self._producer = Producer(producing(address, most_bytes=MOST_BYTES) | own | {"error_cb": self._told_of})
        self._thread = threading.Thread(target=self._hear, name="appending", daemon=True)
        self._thread.start()

    @property
    def broken(self) -> bool:
        """Whether it takes nothing any more."""
        return self._broken.is_set()

    def append(self, topic: str, records: Sequence[Record], told: Told) -> None:
        """Hand over records, one at the least; `told` gets an outcome for each, in their order, whatever happens.

        A record's own milliseconds are left out: its timestamp is the time of its sending, or the log's.
        """
        batch = _Batch(told, [None] * len(records))
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
        """Wait until all that was handed over is acknowledged or given up, then end."""
        with contextlib.suppress(KafkaException):
            self._producer.flush(self._seconds + _LATE_S)
        self._closed.set()
        self._thread.join()

    def _hear(self) -> None:
        while not self._closed.is_set():
            self._producer.poll(_POLL_S)

    def _delivered(self, batch: _Batch, number: int, error: KafkaError | None, message: Message) -> None:
        if error is None:
            offset = int(message.offset() or 0)
            self._heard(batch, number, Appended(int(message.partition() or 0), offset if offset >= 0 else None))
        else:
            self._told_of(error)
            self._heard(batch, number, NotAppended(str(error.str()), sure=error.code() in _REFUSALS))

    def _heard(self, batch: _Batch, number: int, outcome: Outcome) -> None:
        # Callbacks come to whoever polls: the thread that hears, and the one that flushes at the end.
        with self._lock:
            batch.heard(number, outcome)

    def _told_of(self, error: KafkaError) -> None:
        if error.fatal() or error.code() == KafkaError._FATAL:  # noqa: SLF001 - its name
            self._broken.set()
