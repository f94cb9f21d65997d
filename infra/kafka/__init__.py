"""The platform's Kafka client: one port, two clients behind it, each with one role. Callers use only the names of this package.

kafka-python is the client of requests (`kafka_python`): topics, offsets, configurations, logins, and samples of single records.
librdkafka carries records: `sending` appends one or many, `exactly_once` in transactions, and `bulk_reader` reads. A record of
200 bytes takes librdkafka 2.6 µs of CPU to send and 1.9 to read, kafka-python 16 to 22 and 5.4; a lone append 0.6 and 2.5 ms.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tandem.infra.kafka.address import Address, jaas, java_options, login, outside
from tandem.infra.kafka.contract import (
    MOST_BYTES,
    Appended,
    BrokerRefused,
    BrokerTooOld,
    LoginRefused,
    NoBroker,
    NotAppended,
    NoTopic,
    NotSent,
    OpenTransaction,
    Outcome,
    ProducerFenced,
    Record,
    RightMissing,
    Told,
    Topic,
    UnknownAuthority,
)

if TYPE_CHECKING:
    from tandem.infra.kafka.bulk_reader import BulkReader, records_within
    from tandem.infra.kafka.exactly_once import ExactlyOnceAppender, partition_of
    from tandem.infra.kafka.kafka_python.client import BrokerConnection, connect
    from tandem.infra.kafka.kafka_python.groups import commit_offsets
    from tandem.infra.kafka.kafka_python.records import records, records_at
    from tandem.infra.kafka.kafka_python.topics import (
        brokers,
        configurations,
        create,
        delete_before,
        describe,
        ends,
        first_at,
        matching,
        newest_timestamps,
        record_login,
        replicas,
        starts,
        topic,
        topics,
    )
    from tandem.infra.kafka.kafka_python.transactions import open_transactions
    from tandem.infra.kafka.sending import Appender, Sender

__all__ = [
    "MOST_BYTES",
    "Address",
    "Appended",
    "Appender",
    "BrokerConnection",
    "BrokerRefused",
    "BrokerTooOld",
    "BulkReader",
    "ExactlyOnceAppender",
    "LoginRefused",
    "NoBroker",
    "NoTopic",
    "NotAppended",
    "NotSent",
    "OpenTransaction",
    "Outcome",
    "ProducerFenced",
    "Record",
    "RightMissing",
    "Sender",
    "Told",
    "Topic",
    "UnknownAuthority",
    "brokers",
    "commit_offsets",
    "configurations",
    "connect",
    "create",
    "delete_before",
    "describe",
    "ends",
    "first_at",
    "jaas",
    "java_options",
    "login",
    "matching",
    "newest_timestamps",
    "open_transactions",
    "outside",
    "partition_of",
    "record_login",
    "records",
    "records_at",
    "records_within",
    "replicas",
    "starts",
    "topic",
    "topics",
]

_PLACES: Final = {
    **dict.fromkeys(("Appender", "Sender"), "sending"),
    **dict.fromkeys(("BulkReader", "records_within"), "bulk_reader"),
    **dict.fromkeys(("ExactlyOnceAppender", "partition_of"), "exactly_once"),
    **dict.fromkeys(("BrokerConnection", "connect"), "kafka_python.client"),
    "commit_offsets": "kafka_python.groups",
    "open_transactions": "kafka_python.transactions",
    **dict.fromkeys(("records", "records_at"), "kafka_python.records"),
}
"""The modules of names that need a client; the others are in `kafka_python.topics`."""


def __getattr__(name: str) -> Any:
    """Import a client when it is first used: that takes time, and a command without a broker does not use it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"tandem.infra.kafka.{_PLACES.get(name, 'kafka_python.topics')}"), name)
