"""Single records by kafka-python: the first of partitions from an offset on."""

import io
import time
from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa
from kafka import KafkaConsumer, TopicPartition, codec
from kafka.errors import KafkaError
from kafka.record import default_records

from tandem.infra.kafka.contract import NoBroker, Record, Topic
from tandem.infra.kafka.kafka_python.client import BrokerConnection, heals, opening, refusal
from tandem.infra.kafka.kafka_python.topics import ends
from tandem.views.source.offset_ranges import Offsets, Partition

_POLL_MS: Final = 100
_LENGTH_BITS: Final = 7


def records(
    connection: BrokerConnection, topics: Iterable[Topic], starts: Offsets, *, most: int, committed: bool = True
) -> dict[Partition, list[Record]]:
    """The first records of each of these partitions from an offset on, only `committed` ones or all: `most`, or as many as there
    are.

    Raises NoBroker if nothing comes for the address's time.
    """
    consumed = _consume(connection, topics, starts, most=most, committed=committed)
    return {partition: list(map(_record, batch)) for partition, batch in consumed.items()}


def records_at(connection: BrokerConnection, topics: Iterable[Topic], offsets: Offsets) -> dict[Partition, Record | None]:
    """The committed records at these offsets; None where the log has no record at the offset. Raises NoBroker."""
    consumed = _consume(connection, topics, offsets, most=1, committed=True)
    return {
        partition: next((_record(each) for each in consumed[partition] if each.offset == offset), None)
        for partition, offset in offsets.items()
    }


def _consume(
    connection: BrokerConnection, topics: Iterable[Topic], starts: Offsets, *, most: int, committed: bool
) -> dict[Partition, list[Any]]:
    """The same as the client has them."""
    described = list(topics)
    ids = {topic.name: topic.id for topic in described}
    names = {topic: name for name, topic in ids.items()}
    found: dict[Partition, list[Any]] = {partition: [] for partition in starts}
    if not starts:
        return found
    limits = ends(connection, described, committed=committed)
    provide_codecs()
    with opening(connection.address) as options:
        consumer = KafkaConsumer(
            **options,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed" if committed else "read_uncommitted",
            fetch_max_wait_ms=10,
        )
    try:
        left = {
            TopicPartition(names[topic], number): (topic, number)
            for (topic, number), offset in starts.items()
            if offset < limits[topic, number]
        }
        consumer.assign(list(left))
        for place, partition in left.items():
            consumer.seek(place, starts[partition])
        deadline = time.monotonic() + connection.address.timeout_s
        while left:
            told = consumer.poll(_POLL_MS)
            if told:
                deadline = time.monotonic() + connection.address.timeout_s
            for place, batch in told.items():
                held = found[left[place]] if place in left else []
                held += batch[: most - len(held)]
            for place, partition in list(left.items()):
                if len(found[partition]) == most or consumer.position(place) >= limits[partition]:
                    del left[place]
                    consumer.pause(place)
            if left and time.monotonic() > deadline:
                raise NoBroker(f"Kafka at {connection.address.bootstrap} did not return records of {', '.join(ids)} in time")
    except KafkaError as error:
        if heals(error):
            raise NoBroker(
                f"Kafka at {connection.address.bootstrap} did not return records of {', '.join(ids)} in time"
            ) from None
        raise refusal(connection, f"records of {', '.join(ids)}", error) from None
    finally:
        consumer.close()
    return found


def _record(given: Any) -> Record:
    return Record(given.timestamp, given.key, given.value, tuple(given.headers))


class _Buffer(bytearray):
    """The bytes of a batch. A header's name that is not UTF-8 has U+FFFD in the place of what is not, as in Java's clients."""

    def __getitem__(self, place: Any) -> Any:
        part = super().__getitem__(place)
        return _Buffer(part) if isinstance(place, slice) else part

    def decode(self, encoding: str = "utf-8", errors: str = "replace") -> str:
        return super().decode(encoding, errors)


class _Snappy:
    """The functions of the package `snappy` that kafka-python uses: one raw block after its length, seven bits per byte."""

    @staticmethod
    def decompress(block: bytes) -> bytes:
        size = place = 0
        while True:
            byte = block[place]
            size |= (byte & 0x7F) << (_LENGTH_BITS * place)
            place += 1
            if byte < 0x80:
                break
        found: bytes = pa.Codec("snappy").decompress(block, decompressed_size=size, asbytes=True)
        return found


def provide_codecs() -> None:
    """Register pyarrow's codecs in kafka-python, which without a package for each reads no compression but gzip's.

    Also have it read records whose headers have names that are not UTF-8.
    """
    read: Any = default_records
    read.bytearray = _Buffer
    if codec.snappy is None:
        codec.snappy = _Snappy
    if codec.lz4 is None:
        codec.lz4 = pa
        read.lz4_decode = lambda payload: _streamed(payload, "lz4")
    if codec.zstd is None:
        codec.zstd = pa
        read.zstd_decode = lambda payload: _streamed(payload, "zstd")


def _streamed(payload: bytes, name: str) -> bytes:
    with pa.CompressedInputStream(io.BytesIO(payload), name) as stream:
        found: bytes = stream.read()
    return found
