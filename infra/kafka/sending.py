"""Sending to the log: by librdkafka if it is installed, by kafka-python otherwise."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final, Protocol, Self

from tandem.infra.kafka.address import Address
from tandem.infra.kafka.outcome import Told
from tandem.infra.kafka.record import Record

MOST_BYTES: Final = 1_000_000
"""The most bytes of a record that Kafka's brokers accept by default, less those that Kafka adds."""

SLOWER: Final = "confluent-kafka is not installed; sending with kafka-python, which uses several times the CPU per record"


class Sender(Protocol):
    """Sends records with acks=all, each once and in order; use it in a `with`, whose end waits for every acknowledgement.

    Records of one key are in one partition, that of murmur2, as Java's clients have it; those without a key in any.
    `acknowledged` counts records that all replicas hold; `positions` is, per topic name and partition, the offset after the last
    of them. The timestamp of a record is the time of its sending unless one is given. A record of more than `most_bytes` is
    refused here, a smaller one perhaps by the broker. After NotSent it sends nothing more.
    """

    acknowledged: int
    positions: dict[tuple[str, int], int]

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: object) -> None: ...

    def send(self, topic: str, value: bytes | None, key: bytes | None = None) -> None:
        """Hand over one record; blocks while too many are in flight, raises NotSent if an earlier or this one was refused."""

    def send_as(self, topic: str, partition: int, record: Record) -> None:
        """As `send`, to this very partition, with the record's headers and timestamp, which must not be 0."""

    def poll(self) -> None:
        """Process acknowledgements while nothing is sent; raises NotSent if a record was refused."""

    def finish(self) -> None:
        """Wait until every record is acknowledged; raises NotSent if one is not."""


class Appender(Protocol):
    """Appends with acks=all, each record once and in order, with the partitions of a Sender; for one thread at a time.

    A record that is not acknowledged within `seconds` is given up. `told` is called in a thread of the appender: it must neither
    raise nor block. If `broken` is true, create another appender.
    """

    address: Address

    @property
    def broken(self) -> bool:
        """Whether it takes nothing any more."""

    def append(self, topic: str, records: Sequence[Record], told: Told) -> None:
        """Hand over at least one record; `told` receives an outcome for each, in their order, in any case.

        A record's own milliseconds are left out: its timestamp is the time of its sending, or the log's.
        """

    def close(self) -> None:
        """Wait until all records are acknowledged or given up, then end."""


def bulk_installed() -> bool:
    """Whether librdkafka is installed."""
    return find_spec("confluent_kafka") is not None


def sender(address: Address, *, most_bytes: int = MOST_BYTES) -> Sender:
    """A sender to this address. Raises NoBroker if it has to connect first and cannot."""
    if not bulk_installed():
        from tandem.infra.kafka.kafka_python.sender import PythonSender  # noqa: PLC0415 - its package takes time to import

        return PythonSender(address, most_bytes=most_bytes)
    from tandem.infra.kafka.bulk import BulkSender  # noqa: PLC0415 - of a package that need not be installed

    return BulkSender(address, most_bytes=most_bytes)


def appender(address: Address, *, seconds: float) -> Appender:
    """An appender to this address."""
    if not bulk_installed():
        from tandem.infra.kafka.kafka_python.appender import PythonAppender  # noqa: PLC0415 - see above

        return PythonAppender(address, seconds=seconds)
    from tandem.infra.kafka.bulk import BulkAppender  # noqa: PLC0415 - of a package that need not be installed

    return BulkAppender(address, seconds=seconds, most_bytes=MOST_BYTES)
