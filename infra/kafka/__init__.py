"""The platform's Kafka client: one port, two clients behind it.

kafka-python makes requests, creates topics, and reads single records. librdkafka sends many records (`bulk`); kafka-python does
so if librdkafka is not installed. Callers use only the names of this package.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tandem.infra.kafka.address import Address, jaas, java_options, login, outside
from tandem.infra.kafka.described_topic import Topic
from tandem.infra.kafka.errors import BrokerRefused, NoBroker, NoTopic, NotSent
from tandem.infra.kafka.outcome import Appended, NotAppended, Outcome, Told
from tandem.infra.kafka.record import Record
from tandem.infra.kafka.sending import MOST_BYTES, SLOWER, Appender, Sender, appender, bulk_installed, sender

if TYPE_CHECKING:
    from tandem.infra.kafka.requests import (
        Connection,
        OtherPartitioner,
        configurations,
        connect,
        create,
        delete_before,
        describe,
        ends,
        newest_timestamps,
        record_login,
        records,
        refuse_crc32,
        replicas,
        starts,
        topic,
        topics,
    )

__all__ = [
    "MOST_BYTES",
    "SLOWER",
    "Address",
    "Appended",
    "Appender",
    "BrokerRefused",
    "Connection",
    "NoBroker",
    "NoTopic",
    "NotAppended",
    "NotSent",
    "OtherPartitioner",
    "Outcome",
    "Record",
    "Sender",
    "Told",
    "Topic",
    "appender",
    "bulk_installed",
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
    "refuse_crc32",
    "replicas",
    "sender",
    "starts",
    "topic",
    "topics",
]


def __getattr__(name: str) -> Any:
    """Import what makes requests when it is first used: that takes time, and a command without a broker does not use it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("tandem.infra.kafka.requests"), name)
