"""What Kafka has of a source's log: asked before a query starts, and again before each of its commits."""

from dataclasses import dataclass

from infra import kafka
from ledger.fetched import refuse_changed_log
from ledger.positions import Position
from views.ranges import Offsets


@dataclass(frozen=True)
class Log:
    """A topic, known by its id."""

    connection: kafka.Connection
    topic: kafka.Topic

    def require(self, start: Position, firsts: Offsets) -> None:
        """Refuse unless the topic still is this one, and still has what lies from `start` on.

        `firsts` are the first offsets of partitions that `start` lacks. What was read before this passes was there while it
        was read. Raises LogChanged, NoBroker, NoTopic.
        """
        partitions = [(self.topic.id, number) for number in range(self.topic.partitions)]
        planned = {partition: start.get(partition, firsts.get(partition, 0)) for partition in partitions}
        now = [kafka.topic(self.connection, self.topic.name)]
        lows, ends = kafka.starts(self.connection, now), kafka.ends(self.connection, now)
        refuse_changed_log(planned, firsts=lows, ends=ends)
