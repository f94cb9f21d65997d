"""Where the topics of a project end, if the broker answers."""

from collections.abc import Iterable
from dataclasses import dataclass

from tandem.infra import kafka
from tandem.infra.kafka import broker
from tandem.infra.settings import Settings
from tandem.ledger.log.positions import Position, distance
from tandem.views.source.source import Source


@dataclass(frozen=True)
class LogEnd:
    """The position after the last record that can be read, or why it is not known."""

    position: Position | None = None
    problem: str | None = None

    def lag(self, reached: Position) -> int | None:
        """How many offsets the log has beyond a position; None if that is not known."""
        return None if self.position is None else distance(reached, self.position)


def log_ends(settings: Settings, sources: Iterable[Source]) -> dict[str, LogEnd]:
    """The end of each source's topics by the source's name."""
    wanted = list(sources)
    try:
        address = broker.address(settings)  # without one, Kafka's client is not imported
        connection = kafka.connect(address)
        topics = kafka.describe(connection, {topic for source in wanted for topic in source.topics})
        ends = kafka.ends(connection, topics.values())
    except (kafka.NoBroker, kafka.NoTopic) as error:
        return {source.name: LogEnd(problem=str(error)) for source in wanted}
    found = {}
    for source in wanted:
        missing = [name for name in source.topics if name not in topics]
        if missing:
            found[source.name] = LogEnd(problem=f"topic '{missing[0]}' does not exist; `tandem up` creates it")
        else:
            ids = {topics[name].id for name in source.topics}
            found[source.name] = LogEnd(Position.of({place: offset for place, offset in ends.items() if place[0] in ids}))
    return found
