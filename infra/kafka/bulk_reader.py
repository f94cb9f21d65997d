"""The bulk reader, for all records of partitions as they come: librdkafka."""

import time
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tandem.infra.kafka.address import Address
from tandem.infra.kafka.contract import BrokerRefused, NoBroker, RightMissing, Topic
from tandem.infra.kafka.native_errors import NativeErrors
from tandem.infra.kafka.refusals import refusal_of
from tandem.views.arrow.arrays import from_numpy
from tandem.views.arrow.python_values import array, scalar
from tandem.views.source.offset_ranges import Interval, Offsets, Partition
from tandem.views.source.source import RECORDS_SCHEMA

_END: Final = KafkaError._PARTITION_EOF  # noqa: SLF001 - its name
_GONE: Final = frozenset(
    {
        KafkaError.OFFSET_OUT_OF_RANGE,
        KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001 - its name
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - its name
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 - its name
    }
)
_MOST_MS: Final = (2**63 - 1) // 1000
"""The largest timestamp, in milliseconds, of which the microseconds fit in 64 bits: of the year 294247."""
_AT_ONCE: Final = 10_000
_WAIT_S: Final = 1.0
_NAMELESS: Final = "(<NULL>,"
"""The beginning of the text of a header whose name confluent-kafka cannot return."""


class LogMoved(Exception):
    """The log no longer has the offset that is read next, or the topic no longer exists."""


@dataclass(frozen=True)
class ReadRecords:
    """Records in the order of their partitions, and the next offset of each partition of which the reader heard."""

    records: pa.Table
    ends: Offsets


class BulkReader:
    """Reads committed records of partitions from given offsets on; it commits no offsets. For one thread at a time.

    A timestamp of which the microseconds do not fit in 64 bits, such as nanoseconds for milliseconds, becomes the nearest one.
    """

    def __init__(self, address: Address, topics: Sequence[Topic], starts: Offsets, *, columns: Sequence[str]) -> None:
        self._address, self._columns, self._errors = address, columns, NativeErrors(address)
        self._ids = {topic.name: topic.id for topic in topics}
        names = {topic.id: topic.name for topic in topics}
        self._consumer = Consumer(
            {
                "bootstrap.servers": address.bootstrap,
                "log_level": 0,
                "error_cb": self._errors,
                "group.id": "tandem-hot",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 100,
                "fetch.error.backoff.ms": 20,
                "queued.max.messages.kbytes": 4_096,
                # By default the client waits for a second before it fetches more, whenever its queue was full.
                "fetch.queue.backoff.ms": 5,
                "reconnect.backoff.max.ms": 1_000,
                **address.options,
            }
        )
        self._consumer.assign([TopicPartition(names[topic], number, offset) for (topic, number), offset in starts.items()])

    def read(self, *, most: int, wait_s: float) -> ReadRecords:
        """Up to `most` records: those that are there, after at most `wait_s` seconds for the first.

        Raises LogMoved, BrokerRefused, NoBroker. After an error do not read on: the client may be behind records that it did not
        return.
        """
        deadline = time.monotonic() + wait_s
        messages: list[Message] = []
        ends: dict[Partition, int] = {}
        while len(messages) < most:
            # The client waits for as many as it is asked for: so the first call asks for one record, the next for the rest.
            left = 0.0 if messages or ends else max(0.0, deadline - time.monotonic())
            try:
                some = self._consumer.consume(1 if left else most - len(messages), left)
            except KafkaException as error:
                raise NoBroker(f"Kafka at {self._address.bootstrap} did not return records: {error}") from None
            messages += self._records_of(some, ends)
            if some:
                self._errors.clear()
            if not some or (not left and len(some) < most):
                break
        self._errors.raise_lasting()
        return ReadRecords(self._table(messages), ends)

    @property
    def refusal(self) -> BrokerRefused | None:
        """Why the broker refuses the client; None if it never did, or has answered since."""
        return self._errors.refusal

    def nothing(self) -> pa.Table:
        """No records."""
        return self._table([])

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close()

    def _records_of(self, some: Sequence[Message], ends: dict[Partition, int]) -> list[Message]:
        """The records among the messages; all of them move `ends`."""
        records = [message for message in some if message.error() is None]
        if len(records) < len(some):
            for message in some:
                self._hear(message, ends)
        places = zip(map(Message.topic, records), map(Message.partition, records), strict=True)
        for (topic, partition), offset in dict(zip(places, map(Message.offset, records), strict=True)).items():
            self._reach(ends, topic, partition, int(offset or 0) + 1)
        return records

    def _hear(self, message: Message, ends: dict[Partition, int]) -> None:
        """Take notice of an error, or of a partition's end."""
        error = message.error()
        if error is None:
            return
        if error.code() == _END:
            self._reach(ends, message.topic(), message.partition(), int(message.offset() or 0))
        elif error.code() in _GONE:
            raise LogMoved(str(error.str()))
        elif error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            what = f"records of topic '{message.topic()}'"
            raise refusal_of(self._address, str(error.str()), what=what) or RightMissing(what)
        elif error.fatal() and not error.retriable():
            raise NoBroker(f"Kafka at {self._address.bootstrap} did not return records: {error.str()}")
        # Else the client tries again, or needs no answer: it asks for its group's coordinator, and no group is used.

    def _reach(self, ends: dict[Partition, int], topic: str | None, partition: int | None, end: int) -> None:
        place = self._ids[str(topic)], int(partition or 0)
        ends[place] = max(end, ends.get(place, 0))

    def _table(self, messages: Sequence[Message]) -> pa.Table:
        fields = [RECORDS_SCHEMA.field(name) for name in self._columns]
        stamps = np.fromiter(chain.from_iterable(map(Message.timestamp, messages)), np.int64, 2 * len(messages)).reshape(-1, 2)
        return pa.Table.from_arrays(
            [self._column(field, messages, stamps) for field in fields],
            schema=pa.schema(fields),
        )

    def _column(self, field: pa.Field, messages: Sequence[Message], stamps: "np.ndarray[Any, np.dtype[np.int64]]") -> pa.Array:
        """A column of the records. `stamps` are type and milliseconds of each; the client counts types from 0, Kafka from -1."""
        match field.name:
            case "topic_id":
                if len(self._ids) == 1:
                    return pa.repeat(scalar(next(iter(self._ids.values())), field.type), len(messages))
                return array([self._ids[str(topic)] for topic in map(Message.topic, messages)], field.type)
            case "partition":
                return array(list(map(Message.partition, messages)), field.type)
            case "offset":
                return array(list(map(Message.offset, messages)), field.type)
            case "timestamp":
                return from_numpy(np.clip(stamps[:, 1], -_MOST_MS, _MOST_MS) * 1000, field.type)
            case "timestamp_type":
                return from_numpy((stamps[:, 0] - 1).astype(np.int32), field.type)
            case "key":
                return array(list(map(Message.key, messages)), field.type)
            case "value":
                return array(list(map(Message.value, messages)), field.type)
            case "headers":
                return _headers(messages, field.type)
        raise ValueError(f"a record has no column {field.name!r}")


def records_within(
    address: Address, topics: Sequence[Topic], place: Partition, interval: Interval, *, columns: Sequence[str]
) -> Generator[pa.Table, None, None]:
    """The committed records of these offsets of a partition, each once, in order.

    `columns` are some of RECORDS_SCHEMA, with `offset`. Raises LogMoved, BrokerRefused, and NoBroker if nothing comes for the
    address's time.
    """
    reached, end = interval
    reader = BulkReader(address, [topic for topic in topics if topic.id == place[0]], {place: reached}, columns=columns)
    try:
        deadline = time.monotonic() + address.timeout_s
        while reached < end:
            read = reader.read(most=_AT_ONCE, wait_s=_WAIT_S)
            if (now := read.ends.get(place, reached)) > reached:
                reached, deadline = now, time.monotonic() + address.timeout_s
            elif time.monotonic() > deadline:
                raise reader.refusal or NoBroker(f"Kafka at {address.bootstrap} did not return records in time")
            yield read.records if reached <= end else read.records.filter(pc.less(read.records["offset"], end))
    finally:
        reader.close()


def _headers(messages: Sequence[Message], kind: pa.DataType) -> pa.Array:
    """The headers of the records. A name that is not UTF-8 becomes U+FFFD: the client does not return it."""
    try:
        headers = list(map(Message.headers, messages))
    except SystemError:
        headers = list(map(_readable, messages))
    if not any(headers):
        return pa.nulls(len(messages), kind)
    rows = (None if each is None else [{"key": key, "value": value} for key, value in each] for each in headers)
    return array(list(rows), kind)


def _readable(message: Message) -> list[tuple[str, Any]] | None:
    """The headers of a record, of which confluent-kafka 2.16 cannot read a name: it raises SystemError at the first call alone.

    Then it returns such a header without a name, which no program may touch.
    """
    with suppress(SystemError):
        message.headers()
    headers = message.headers()
    return headers and [("\ufffd", each[1]) if repr(each).startswith(_NAMELESS) else each for each in headers]
