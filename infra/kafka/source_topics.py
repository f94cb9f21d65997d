"""The topics of sources as they are at the broker now."""

from collections.abc import Iterable

from tandem.infra import kafka
from tandem.views.source.source import Source


def topics_of(connection: "kafka.BrokerConnection", source: Source) -> tuple[kafka.Topic, ...]:
    """The topics that a source reads: those it names, in its order, or those that match its pattern now, by name.

    Raises NoBroker, and NoTopic if a topic that it names does not exist.
    """
    return kafka.topics(connection, source.topics) if source.pattern is None else kafka.matching(connection, source.pattern)


def topics_there(connection: "kafka.BrokerConnection", sources: Iterable[Source]) -> dict[str, kafka.Topic]:
    """The topics of all these sources that exist, by name. Raises NoBroker."""
    wanted = list(sources)
    there = kafka.describe(connection, dict.fromkeys(name for source in wanted for name in source.topics))
    patterns = dict.fromkeys(source.pattern for source in wanted if source.pattern is not None)
    return {**there, **{topic.name: topic for pattern in patterns for topic in kafka.matching(connection, pattern)}}


def topic_to_send_to(connection: "kafka.BrokerConnection", source: Source, name: str) -> kafka.Topic:
    """The topic of this name, to send records of the source to. Raises NoBroker, NoTopic."""
    try:
        return kafka.topic(connection, name)
    except kafka.NoTopic as error:
        if source.pattern is None:
            raise
        raise kafka.NoTopic(
            f"topic '{name}' does not exist at {connection.address.bootstrap}; `tandem up` creates no topic for a pattern, so "
            "create it first"
        ) from error
