"""The log's offsets by kafka-python: starts, ends, and the newest timestamps."""

from collections.abc import Iterable

from kafka import IsolationLevel, TopicPartition
from kafka.admin import OffsetSpec

from tandem.infra.kafka.described_topic import Topic
from tandem.infra.kafka.errors import NoTopic
from tandem.infra.kafka.kafka_python.client import BrokerConnection, ask
from tandem.infra.kafka.kafka_python.topics import describe
from tandem.views.source.offset_ranges import Offsets


def starts(connection: BrokerConnection, topics: Iterable[Topic]) -> Offsets:
    """The first offset that each partition still has. Raises NoBroker, NoTopic if a topic was deleted since it was described."""
    return _offsets(connection, topics, OffsetSpec.EARLIEST)


def ends(connection: BrokerConnection, topics: Iterable[Topic]) -> Offsets:
    """The offset after the last that a reader of committed records may read, of each partition.

    Raises NoBroker, NoTopic if a topic was deleted since it was described.
    """
    return _offsets(connection, topics, OffsetSpec.LATEST)


def newest_timestamps(connection: BrokerConnection, topics: Iterable[Topic]) -> dict[str, int]:
    """The newest timestamp of each of these topics that has records, by name, in milliseconds since 1970. Raises NoBroker."""
    wanted = dict.fromkeys(_places(topics), OffsetSpec.MAX_TIMESTAMP)
    if not wanted:
        return {}
    found: dict[str, int] = {}
    told = ask(connection, "the log's timestamps", lambda: connection.admin.list_partition_offsets(wanted))
    for place, at in told.items():
        if at.timestamp >= 0:
            found[place.topic] = max(at.timestamp, found.get(place.topic, 0))
    return found


def delete_before(connection: BrokerConnection, topics: Iterable[Topic], offsets: Offsets) -> None:
    """Delete the records below these offsets, as retention does: each partition then starts there. Raises NoBroker."""
    names = {topic.id: topic.name for topic in topics}
    wanted = {TopicPartition(names[topic], number): offset for (topic, number), offset in offsets.items()}
    ask(connection, "records to delete", lambda: connection.admin.delete_records(wanted))


def _offsets(connection: BrokerConnection, topics: Iterable[Topic], spec: int) -> Offsets:
    described = list(topics)
    ids = {topic.name: topic.id for topic in described}
    wanted = dict.fromkeys(_places(described), spec)
    if not wanted:
        return {}
    told = ask(
        connection,
        "the log's offsets",
        lambda: connection.admin.list_partition_offsets(wanted, isolation_level=IsolationLevel.READ_COMMITTED),
    )
    # Kafka answers by a topic's name, so the name must still have the same id afterwards.
    now = describe(connection, ids)
    for name, id_ in ids.items():
        if name not in now or now[name].id != id_:
            raise NoTopic(f"topic '{name}' was deleted or created again while its offsets were asked for; run the command again")
    return {(ids[place.topic], place.partition): at.offset for place, at in told.items()}


def _places(topics: Iterable[Topic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for topic in topics for number in range(topic.partitions)]
