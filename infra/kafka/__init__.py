"""The platform's Kafka client: one port, two clients behind it, each with one role. Callers use only the names of this package.

kafka-python is the client of requests (`requests`): topics, offsets, configurations, logins, and samples of single records.
librdkafka carries records: `sending` appends all, one or many, and `bulk_reader` reads for the hot tail. A record of 200 bytes
takes librdkafka 2.6 µs of CPU to send and 1.9 to read, kafka-python 16 to 22 and 5.4; a lone append 0.6 and 2.5 ms.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tandem.infra.kafka.address import Address, jaas, java_options, login, outside
from tandem.infra.kafka.described_topic import Topic
from tandem.infra.kafka.errors import BrokerRefused, NoBroker, NoTopic, NotSent
from tandem.infra.kafka.outcome import Appended, NotAppended, Outcome, Told
from tandem.infra.kafka.record import MOST_BYTES, Record

if TYPE_CHECKING:
    from tandem.infra.kafka.requests import (
        BrokerConnection,
        configurations,
        connect,
        create,
        delete_before,
        describe,
        ends,
        newest_timestamps,
        record_login,
        records,
        replicas,
        starts,
        topic,
        topics,
    )
    from tandem.infra.kafka.sending import Appender, Sender

__all__ = [
    "MOST_BYTES",
    "Address",
    "Appended",
    "Appender",
    "BrokerConnection",
    "BrokerRefused",
    "NoBroker",
    "NoTopic",
    "NotAppended",
    "NotSent",
    "Outcome",
    "Record",
    "Sender",
    "Told",
    "Topic",
    "configurations",
    "connect",
    "create",
    "delete_before",
    "describe",
    "ends",
    "jaas",
    "java_options",
    "login",
    "newest_timestamps",
    "outside",
    "record_login",
    "records",
    "replicas",
    "starts",
    "topic",
    "topics",
]

_SENDING: Final = ("Appender", "Sender")


def __getattr__(name: str) -> Any:
    """Import a client when it is first used: that takes time, and a command without a broker does not use it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"tandem.infra.kafka.{'sending' if name in _SENDING else 'requests'}"), name)
