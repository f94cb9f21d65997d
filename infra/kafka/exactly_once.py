"""Appends records to one topic with a text that says what they stand for, in one transaction, by one producer at a time.

The text is the metadata of the committed offsets of a group. Kafka's brokers accept 4 096 bytes of metadata for a partition, so
the text is compressed and split over the topic's partitions. The offset of a partition is where it ended after the transaction.
"""

import base64
import contextlib
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Thread
from typing import Final, NoReturn, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition, murmur2

from tandem.infra.kafka.address import Address
from tandem.infra.kafka.contract import MOST_BYTES, BrokerRefused, NoBroker, NotSent, ProducerFenced, Record, Topic
from tandem.infra.kafka.native_errors import NativeErrors
from tandem.infra.kafka.refusals import refusal_of
from tandem.infra.kafka.sending import producer_options
from tandem.views.source.offset_ranges import Offsets

MOST_METADATA: Final = 4_000
"""Bytes of the text in the metadata of one partition."""

_TRANSACTION_S: Final = 60
_DELIVERY_S: Final = 30
_ABORT_S: Final = 5
_PAUSE_S: Final = 0.05
_FENCED: Final = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001 - its name
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.PRODUCER_FENCED,
    }
)
_REFUSED: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError._AUTHENTICATION,  # noqa: SLF001 - its name
    }
)


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key in a topic, as all producers of this package have it."""
    return int(murmur2(key, partitions))


@dataclass(frozen=True)
class StoredText:
    """The text of the newest transaction, and where the partitions ended after it."""

    text: str
    ends: Offsets


class ExactlyOnceAppender:
    """Appends to a topic under a name that is transactional id and group at once. Use a new one after an error; for one thread.

    A new appender of a name ends the transaction that an earlier one left open, and fences that one.
    Raises NoBroker, BrokerRefused.
    """

    def __init__(self, address: Address, topic: Topic, name: str, ends: Offsets) -> None:
        self._address, self._topic, self._name = address, topic, name
        self._ends = {number: ends.get((topic.id, number), 0) for number in range(topic.partitions)}
        self._failure: KafkaError | None = None
        self._began_at, self._shrunk = dict(self._ends), False
        self._errors = NativeErrors(address)
        times = {"transaction.timeout.ms": str(_TRANSACTION_S * 1000), "message.timeout.ms": str(_DELIVERY_S * 1000)}
        reporting = {"error_cb": self._errors}
        self._producer = Producer(
            {**producer_options(address, most_bytes=MOST_BYTES), "transactional.id": name, **times, **reporting}
        )
        common = {"bootstrap.servers": address.bootstrap, "log_level": 0, **reporting, **address.options}
        self._group = Consumer({**common, "group.id": name, "enable.auto.commit": False, "isolation.level": "read_committed"})
        try:
            self._producer.init_transactions(address.timeout_s)
        except KafkaException as error:
            self._raise(error.args[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave; an open transaction is ended by the next appender of the name."""
        self._group.close()

    def newest(self) -> StoredText | None:
        """The text of the newest transaction of this name; None if there is none, or the broker has deleted it."""
        asked = [TopicPartition(self._topic.name, number) for number in range(self._topic.partitions)]
        try:
            answer = self._group.committed(asked, timeout=self._address.timeout_s)
        except KafkaException as error:
            self._raise(error.args[0])
        for each in answer:
            if each.error is not None:
                self._raise(each.error)
        if any(each.offset < 0 for each in answer):
            return None
        pieces = "".join(each.metadata or "" for each in sorted(answer, key=lambda each: each.partition))
        try:
            text = zlib.decompress(base64.b64decode(pieces)).decode()
        except (ValueError, zlib.error):
            return None
        return StoredText(text, {(self._topic.id, each.partition): each.offset for each in answer})

    def renew(self, stored: StoredText) -> None:
        """Commit a stored text again as it is: brokers expire that of a group without commits. Raises as `append`."""
        self._ends = {number: max(end, stored.ends.get((self._topic.id, number), 0)) for number, end in self._ends.items()}
        self.append([], stored.text)

    def append(
        self,
        records: Sequence[Record],
        text: str,
        *,
        placed: Sequence[tuple[int, Record]] = (),
        check: Callable[[], bool] | None = None,
    ) -> bool:
        """Append the `placed` records to their partitions, then the others by their keys, and store the text: all or nothing.

        `check` is called once the log has the records, uncommitted: with False nothing is appended, and this returns False. So a
        check of what other producers have appended before them is exact. A record's own milliseconds are left out.

        Raises NotSent for a text or record that is too large, and if a partition now ends before it did, as of a topic that was
        created again; ProducerFenced if a later appender has the name, BrokerRefused,
        what `check` raises, and NoBroker: then the transaction may have been committed.
        """
        metadata, self._began_at = self._metadata(text), dict(self._ends)
        try:
            self._producer.begin_transaction()
            for number, record in placed:
                self._produce(record, number)
            for record in records:
                self._produce(record)
            if records or placed:
                # confluent-kafka 2.16 answers a fatal error here by SystemError; the next call has the reason.
                with contextlib.suppress(SystemError, KafkaError):
                    self._producer.flush(_DELIVERY_S + _ABORT_S)
            if self._shrunk:
                self._producer.abort_transaction(_ABORT_S)
                raise NotSent(f"topic {self._topic.name!r} has lost records, or was created again; run the command again")
            if self._failure is None and check is not None and not self._passes(check):
                self._producer.abort_transaction(_ABORT_S)
                return False
            if self._failure is None:
                # The marker that ends the transaction in a partition takes an offset, too.
                offsets = [
                    TopicPartition(self._topic.name, n, end, metadata[n]) for n, end in self._ends.items() if n < len(metadata)
                ]
                self._send_offsets(offsets)
            self._commit()
        except KafkaException as error:
            with contextlib.suppress(KafkaException):
                self._producer.abort_transaction(_ABORT_S)
            self._raise(error.args[0])
        return True

    def _passes(self, check: Callable[[], bool]) -> bool:
        """What the check returns. An error of it ends the transaction."""
        try:
            return check()
        except BaseException:
            with contextlib.suppress(KafkaException):
                self._producer.abort_transaction(_ABORT_S)
            raise

    def _metadata(self, text: str) -> list[str]:
        packed = base64.b64encode(zlib.compress(text.encode(), 9)).decode()
        pieces = [packed[start : start + MOST_METADATA] for start in range(0, len(packed), MOST_METADATA)]
        partitions = self._topic.partitions
        if len(pieces) > partitions:
            raise NotSent(
                f"topic {self._topic.name!r} has {partitions} partitions, and the token needs {len(pieces)}, as each holds "
                f"{MOST_METADATA} bytes of it; create the topic with more partitions"
            )
        return pieces + [""] * (partitions - len(pieces))

    def _produce(self, record: Record, partition: int = -1) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic.name,
                    record.value,
                    record.key,
                    partition,
                    on_delivery=self._note_delivery,
                    headers=list(record.headers),
                )
            except BufferError:
                self._producer.poll(_PAUSE_S)
            else:
                break
        self._producer.poll(0)

    def _send_offsets(self, offsets: Sequence[TopicPartition]) -> None:
        """Send them in a thread: librdkafka ignores its timeout while the coordinator is gone (its issues 5456 and 5511)."""
        seconds, errors = self._address.timeout_s, list[KafkaException | None]()

        def send() -> None:
            try:
                self._producer.send_offsets_to_transaction(offsets, self._group.consumer_group_metadata(), seconds)
            except KafkaException as error:
                errors.append(error)
            else:
                errors.append(None)

        thread = Thread(target=send, daemon=True)
        thread.start()
        thread.join(seconds + _ABORT_S)
        if not errors:
            self._raise(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001 - its name
        if errors[0] is not None:
            raise errors[0]

    def _commit(self) -> None:
        deadline = time.monotonic() + _DELIVERY_S
        while True:
            try:
                self._producer.commit_transaction(max(deadline - time.monotonic(), _PAUSE_S))
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise
            else:
                return

    def _note_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failure = self._failure or error
            return
        number, offset = int(message.partition() or 0), int(message.offset() or 0)
        self._shrunk = self._shrunk or offset < self._began_at.get(number, 0)
        self._ends[number] = max(self._ends.get(number, 0), offset + 2)

    def _raise(self, error: KafkaError) -> NoReturn:
        """Raise the error, or the record's that led to it, in the port's words."""
        place, causes = f"Kafka at {self._address.bootstrap}", [error, *([self._failure] if self._failure else [])]
        codes = {each.code() for each in causes}
        if codes & _FENCED:
            raise ProducerFenced(f"another process appends to topic {self._topic.name!r} as {self._name!r}; run one at a time")
        if KafkaError.MSG_SIZE_TOO_LARGE in codes:
            raise NotSent(f"{place} did not accept a record of topic {self._topic.name!r}: {causes[-1].str()}")
        self._producer.poll(0)  # a refused login is reported there alone
        what, words = f"a transaction of topic {self._topic.name!r}", str(causes[-1].str())
        if cause := refusal_of(self._address, words, what=what) or self._errors.refusal:
            raise cause
        kind = BrokerRefused if codes & _REFUSED else NoBroker
        raise kind(f"{place} did not complete {what}: {words}")
