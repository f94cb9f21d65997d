"""Kafka's own Java clients in Spark's JVM: the oracle of what the log holds."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from infra import kafka

_LOOKS = 200


class Found(NamedTuple):
    """A record as Java's consumer has it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Java:
    """Asks and sends by org.apache.kafka.clients."""

    def __init__(self, spark: SparkSession, connection: kafka.Connection) -> None:
        self._jvm: Any = spark._jvm
        self._address = connection.address

    def starts(self, topic: kafka.Topic) -> dict[tuple[str, int], int]:
        """The first offset of each partition."""
        with self._consumer(topic) as (consumer, partitions):
            return self._offsets(topic, consumer.beginningOffsets(partitions))

    def ends(self, topic: kafka.Topic) -> dict[tuple[str, int], int]:
        """The offset after the last committed record of each partition."""
        with self._consumer(topic) as (consumer, partitions):
            return self._offsets(topic, consumer.endOffsets(partitions))

    def topic_id(self, name: str) -> str:
        """The id of a topic as Kafka writes it."""
        admin = self._jvm.org.apache.kafka.clients.admin.Admin.create(self._properties())
        try:
            names = self._jvm.java.util.Collections.singletonList(name)
            return str(admin.describeTopics(names).allTopicNames().get().get(name).topicId().toString())
        finally:
            admin.close()

    def records(self, topic: kafka.Topic) -> list[Found]:
        """Every committed record, partition by partition."""
        with self._consumer(topic) as (consumer, partitions):
            ends = {partition: consumer.endOffsets(partitions).get(partition) for partition in partitions}
            consumer.assign(partitions)
            consumer.seekToBeginning(partitions)
            found: list[Found] = []
            for _ in range(_LOOKS):
                if all(consumer.position(partition) >= end for partition, end in ends.items()):
                    break
                found += map(_found, _each(consumer.poll(self._jvm.java.time.Duration.ofMillis(200))))
            return sorted(found)

    def produce(self, topic: kafka.Topic, records: Sequence[tuple[bytes | None, bytes | None]]) -> None:
        """Send keys and values."""
        bytes_of = self._jvm.org.apache.kafka.common.serialization.ByteArraySerializer
        producer = self._jvm.org.apache.kafka.clients.producer.KafkaProducer(self._properties(), bytes_of(), bytes_of())
        for key, value in records:
            producer.send(self._jvm.org.apache.kafka.clients.producer.ProducerRecord(topic.name, key, value))
        producer.close()

    def _consumer(self, topic: kafka.Topic) -> "_Consumer":
        return _Consumer(self._jvm, self._properties(), topic)

    def _properties(self) -> Any:
        properties = self._jvm.java.util.Properties()
        for name, value in kafka.java_options(self._address).items():
            properties.put(name, value)
        properties.put("isolation.level", "read_committed")
        return properties

    def _offsets(self, topic: kafka.Topic, told: Any) -> dict[tuple[str, int], int]:
        return {(topic.id, partition.partition()): told.get(partition) for partition in told.keySet()}


class _Consumer:
    def __init__(self, jvm: Any, properties: Any, topic: kafka.Topic) -> None:
        bytes_of = jvm.org.apache.kafka.common.serialization.ByteArrayDeserializer
        self._consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(properties, bytes_of(), bytes_of())
        self._partitions = jvm.java.util.ArrayList()
        for number in range(topic.partitions):
            self._partitions.add(jvm.org.apache.kafka.common.TopicPartition(topic.name, number))

    def __enter__(self) -> tuple[Any, Any]:
        return self._consumer, self._partitions

    def __exit__(self, *_: object) -> None:
        self._consumer.close()


def _found(record: Any) -> Found:
    headers = tuple((header.key(), _bytes(header.value())) for header in _each(record.headers()))
    return Found(record.partition(), record.offset(), _bytes(record.key()), _bytes(record.value()), headers)


def _each(iterable: Any) -> Iterator[Any]:
    iterator = iterable.iterator()
    while iterator.hasNext():
        yield iterator.next()


def _bytes(given: Any) -> bytes | None:
    return None if given is None else bytes(given)
