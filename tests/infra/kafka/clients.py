"""The clients behind the port that send: the contract holds for each."""

from collections.abc import Callable
from dataclasses import dataclass

from tandem.infra import kafka
from tandem.infra.kafka.bulk import BulkAppender, BulkSender
from tandem.infra.kafka.kafka_python.appender import PythonAppender
from tandem.infra.kafka.kafka_python.sender import PythonSender


@dataclass(frozen=True)
class Client:
    """One client; both functions take what `kafka.sender` and `kafka.appender` take."""

    name: str
    sender: Callable[..., kafka.Sender]
    appender: Callable[..., kafka.Appender]


def _bulk_sender(address: kafka.Address, *, most_bytes: int = kafka.MOST_BYTES) -> kafka.Sender:
    return BulkSender(address, most_bytes=most_bytes)


def _python_sender(address: kafka.Address, *, most_bytes: int = kafka.MOST_BYTES) -> kafka.Sender:
    return PythonSender(address, most_bytes=most_bytes)


def _bulk_appender(address: kafka.Address, *, seconds: float) -> kafka.Appender:
    return BulkAppender(address, seconds=seconds, most_bytes=kafka.MOST_BYTES)


CLIENTS = (
    Client("librdkafka", _bulk_sender, _bulk_appender),
    Client("kafka-python", _python_sender, PythonAppender),
)
