"""The bulk reader, for all records of partitions as they come: librdkafka."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaError, KafkaException, Message, TopicPartition

from tandem.infra.kafka.address import Address
from tandem.infra.kafka.contract import BrokerRefused, NoBroker, Topic
from tandem.views.source.offset_ranges import Offsets, Partition
from tandem.views.source.source import RECORDS_SCHEMA

_END: Final = KafkaError._PARTITION_EOF  # noqa: SLF001 - its name
_REFUSED: Final = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED})
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
        self._address, self._columns = address, columns
        self._ids = {topic.name: topic.id for topic in topics}
        names = {topic.id: topic.name for topic in topics}
        self._consumer = Consumer(
            {
                "bootstrap.servers": address.bootstrap,
                "log_level": 0,
                "error_cb": lambda _: None,
                "group.id": "tandem-hot",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 100,
                "fetch.error.backoff.ms": 20,
                "queued.max.messages.kbytes": 16_384,
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
        found: list[Message] = []
        ends: dict[Partition, int] = {}
        while len(found) < most:
            # The client waits for as many as it is asked for: so the first call asks for one record, the next for the rest.
            left = 0.0 if found or ends else max(0.0, deadline - time.monotonic())
            try:
                some = self._consumer.consume(1 if left else most - len(found), left)
            except KafkaException as error:
                raise NoBroker(f"Kafka at {self._address.bootstrap} did not return records: {error}") from None
            for message in some:
                self._take(message, found, ends)
            if not some or (not left and len(some) < most):
                break
        return ReadRecords(self._table(found), ends)

    def nothing(self) -> pa.Table:
        """No records."""
        return self._table([])

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close()

    def _take(self, message: Message, found: list[Message], ends: dict[Partition, int]) -> None:
        error = message.error()
        if error is not None and error.code() != _END:
            if error.code() in _GONE:
                raise LogMoved(str(error.str()))
            if error.code() in _REFUSED:
                raise BrokerRefused(f"Kafka at {self._address.bootstrap} refuses to return records: {error.str()}")
            if error.retriable() or not error.fatal():
                return  # the client tries again
            raise NoBroker(f"Kafka at {self._address.bootstrap} did not return records: {error.str()}")
        place = self._ids[str(message.topic())], int(message.partition() or 0)
        offset = int(message.offset() or 0)
        if error is None:
            found.append(message)
            offset += 1
        ends[place] = max(offset, ends.get(place, 0))

    def _table(self, found: Sequence[Message]) -> pa.Table:
        fields = [RECORDS_SCHEMA.field(name) for name in self._columns]
        return pa.Table.from_arrays(
            [pa.array([self._value(field.name, message) for message in found], field.type) for field in fields],
            schema=pa.schema(fields),
        )

    def _value(self, name: str, message: Message) -> Any:
        match name:
            case "topic_id":
                return self._ids[str(message.topic())]
            case "partition":
                return message.partition()
            case "offset":
                return message.offset()
            case "timestamp":
                return min(max(message.timestamp()[1], -_MOST_MS), _MOST_MS) * 1000
            case "timestamp_type":
                return int(message.timestamp()[0] == TIMESTAMP_LOG_APPEND_TIME)
            case "key":
                return message.key()
            case "value":
                return message.value()
            case "headers":
                headers = message.headers()
                return None if headers is None else [{"key": key, "value": value} for key, value in headers]
        raise ValueError(f"a record has no column {name!r}")
