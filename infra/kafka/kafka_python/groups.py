"""The committed offsets of consumer groups, which Kafka's tools and exporters of lag read."""

from collections.abc import Iterable

from kafka import TopicPartition
from kafka.structs import OffsetAndMetadata

from tandem.infra.kafka.contract import Topic
from tandem.infra.kafka.kafka_python.client import BrokerConnection, ask
from tandem.views.source.offset_ranges import Offsets


def commit_offsets(connection: BrokerConnection, group: str, topics: Iterable[Topic], offsets: Offsets) -> None:
    """Commit an offset for each partition of these topics as a group without members; 0 where `offsets` has none.

    A repeated commit has the same effect. Raises NoBroker, and BrokerRefused if the login may not do so or the group has members.
    """
    wanted = {
        TopicPartition(topic.name, number): OffsetAndMetadata(offsets.get((topic.id, number), 0), "", -1)
        for topic in topics
        for number in range(topic.partitions)
    }

    def question() -> None:
        for error in connection.admin.alter_group_offsets(group, wanted).values():
            if error.errno:  # of one partition: the client raises none, also while a new group has no coordinator yet
                raise error

    ask(connection, f"the offsets of group '{group}'", question)
