"""Questions about a topic beyond its offsets: its first records from an offset on, and what its configuration says."""

import time
from collections.abc import Iterable, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicCollection, TopicPartition
from confluent_kafka.admin import ConfigResource, OffsetSpec

from infra.kafka import Connection, NoBroker, Record, Topic, answer, configuration, reason
from views.ranges import Offsets, Partition

# Nothing is committed under this name.
_GROUP = "tandem"


def records(connection: Connection, topics: Iterable[Topic], starts: Offsets, *, most: int) -> dict[Partition, list[Record]]:
    """The first committed records of each of these partitions from an offset on: `most`, or as many as there are.

    Raises NoBroker if none answers in time.
    """
    ids = {topic.name: topic.id for topic in topics}
    names = {topic: name for name, topic in ids.items()}
    found: dict[Partition, list[Record]] = {partition: [] for partition in starts}
    if not starts:
        return found
    options = {"group.id": _GROUP, "enable.auto.commit": False, "auto.offset.reset": "earliest", "enable.partition.eof": True}
    consumer = Consumer(configuration(connection.address) | options | {"fetch.wait.max.ms": 10})
    try:
        consumer.assign([TopicPartition(names[topic], number, offset) for (topic, number), offset in starts.items()])
        left, deadline = set(starts), time.monotonic() + connection.address.timeout_s
        while left:
            message = consumer.poll(0.1)
            if message is None:
                if time.monotonic() > deadline:
                    raise NoBroker(f"Kafka at {connection.address.bootstrap} did not give records of {', '.join(ids)} in time")
                continue
            partition = (ids[str(message.topic())], int(message.partition() or 0))
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - its name
                raise NoBroker(f"records of topic '{message.topic()}' at {connection.address.bootstrap}: {error.str()}")
            if error is None and len(found[partition]) < most:
                found[partition].append(_record(message))
            if error is not None or len(found[partition]) == most:
                left.discard(partition)
    finally:
        consumer.close()
    return found


def configurations(connection: Connection, names: Iterable[str]) -> dict[str, Mapping[str, str]]:
    """The configuration in effect of each of these topics, the broker's own defaults included. Raises NoBroker."""
    resources = {name: ConfigResource(ConfigResource.Type.TOPIC, name) for name in names}
    if not resources:
        return {}
    futures = connection.admin.describe_configs(list(resources.values()), request_timeout=connection.address.timeout_s)
    try:
        return {
            name: {key: str(entry.value) for key, entry in answer(connection, futures[resource]).items()}
            for name, resource in resources.items()
        }
    except KafkaException as error:
        raise NoBroker(f"the topics' configuration at {connection.address.bootstrap}: {reason(error)}") from None


def newest_timestamps(connection: Connection, topics: Iterable[Topic]) -> dict[str, int]:
    """The newest timestamp of each of these topics that has records, by name, in milliseconds since 1970. Raises NoBroker."""
    wanted = {
        TopicPartition(topic.name, number): OffsetSpec.max_timestamp() for topic in topics for number in range(topic.partitions)
    }
    if not wanted:
        return {}
    futures = connection.admin.list_offsets(wanted, request_timeout=connection.address.timeout_s)
    found: dict[str, int] = {}
    try:
        for place, future in futures.items():
            timestamp = int(answer(connection, future).timestamp)
            if timestamp >= 0:
                found[str(place.topic)] = max(timestamp, found.get(str(place.topic), 0))
    except KafkaException as error:
        raise NoBroker(f"the log's timestamps at {connection.address.bootstrap}: {reason(error)}") from None
    return found


def replicas(connection: Connection, names: Iterable[str]) -> dict[str, int]:
    """How many copies each of these topics has at the least, of any partition. Raises NoBroker."""
    wanted = list(names)
    if not wanted:
        return {}
    futures = connection.admin.describe_topics(TopicCollection(wanted), request_timeout=connection.address.timeout_s)
    try:
        return {
            name: min(len(partition.replicas) for partition in answer(connection, future).partitions)
            for name, future in futures.items()
        }
    except KafkaException as error:
        raise NoBroker(f"the topics' replicas at {connection.address.bootstrap}: {reason(error)}") from None


def _record(message: Message) -> Record:
    _, milliseconds = message.timestamp()
    return Record(milliseconds, message.key(), message.value(), tuple(message.headers() or ()))
