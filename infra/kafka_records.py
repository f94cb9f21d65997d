"""Questions about a topic beyond its offsets: its first records from an offset on, and what its configuration says."""

import time
from collections.abc import Iterable, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import ConfigResource

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


def _record(message: Message) -> Record:
    _, milliseconds = message.timestamp()
    return Record(milliseconds, message.key(), message.value(), tuple(message.headers() or ()))
