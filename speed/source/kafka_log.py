"""What Kafka has of a source's log: asked before a query starts, and again before each of its commits."""

from dataclasses import dataclass

from infra import kafka
from ledger.log.fetch_checks import refuse_changed_log
from ledger.log.positions import Position
from views.source.offset_ranges import Offsets, Partition


@dataclass(frozen=True)
class Log:
    """Topics, known by their ids."""

    connection: kafka.Connection
    topics: tuple[kafka.Topic, ...]

    @property
    def partitions(self) -> list[Partition]:
        """The partitions of all topics."""
        return [(topic.id, number) for topic in self.topics for number in range(topic.partitions)]

    def now(self) -> tuple[kafka.Topic, ...]:
        """The topics that have the names now. Raises NoBroker, NoTopic."""
        return kafka.topics(self.connection, [topic.name for topic in self.topics])

    def require(self, start: Position, firsts: Offsets) -> Position:
        """Where the log ends; refuses unless the topics still are these, and still have what lies from `start` on.

        `firsts` are the first offsets of partitions that `start` lacks. What was read before this passes was there while it
        was read. Raises LogChanged, NoBroker, NoTopic.
        """
        planned = {partition: start.get(partition, firsts.get(partition, 0)) for partition in self.partitions}
        now = self.now()
        lows, ends = kafka.starts(self.connection, now), kafka.ends(self.connection, now)
        refuse_changed_log(planned, firsts=lows, ends=ends)
        return Position.of(ends)
