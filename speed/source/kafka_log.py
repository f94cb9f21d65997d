"""Polls Kafka for a source's log, before a query starts and before each of its commits."""

from dataclasses import dataclass

from tandem.infra import kafka
from tandem.ledger.log.fetch_checks import refuse_changed_log
from tandem.ledger.log.positions import Position
from tandem.views.source.offset_ranges import Offsets, Partition


@dataclass(frozen=True)
class KafkaLog:
    """Topics, identified by their ids."""

    connection: kafka.BrokerConnection
    topics: tuple[kafka.Topic, ...]

    @property
    def partitions(self) -> list[Partition]:
        """The partitions of all topics."""
        return [(topic.id, number) for topic in self.topics for number in range(topic.partitions)]

    def now(self) -> tuple[kafka.Topic, ...]:
        """The topics that now have these names. Raises NoBroker, NoTopic."""
        return kafka.topics(self.connection, [topic.name for topic in self.topics])

    def require(self, start: Position, firsts: Offsets) -> Position:
        """The end of the log. Refuses other topics under the names, and a log that lost records from `start` on.

        `firsts` are the first offsets of partitions that `start` lacks. If it returns, records that were read before existed
        while they were read. Raises LogChanged, NoBroker, NoTopic.
        """
        planned = {partition: start.get(partition, firsts.get(partition, 0)) for partition in self.partitions}
        now = self.now()
        lows, ends = kafka.starts(self.connection, now), kafka.ends(self.connection, now)
        refuse_changed_log(planned, firsts=lows, ends=ends)
        return Position.of(ends)
