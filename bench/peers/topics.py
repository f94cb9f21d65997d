"""The topics of a comparison: one with the events, which all read, and one for each run to publish to."""

from collections.abc import Iterable
from typing import Final

from tandem.infra import kafka
from tandem.infra.settings import KafkaSettings, Settings

PARTITIONS: Final = 2
_SETTINGS: Final = Settings(kafka=KafkaSettings(partitions=PARTITIONS, retention_hours=0))


def filled(connection: kafka.BrokerConnection, name: str, records: Iterable[tuple[bytes, bytes]]) -> None:
    """Create a topic and send keys and values to it; duplicates follow their event in its partition."""
    empty(connection, name)
    with kafka.Sender(connection.address) as sender:
        for key, value in records:
            sender.send(name, value, key)


def empty(connection: kafka.BrokerConnection, name: str) -> str:
    """Create an empty topic."""
    kafka.create(connection, [name], _SETTINGS)
    return name


def published(connection: kafka.BrokerConnection, name: str) -> str:
    """Create an empty topic whose records get the broker's time."""
    kafka.create(connection, [name], _SETTINGS, own_time=[name])
    return name
