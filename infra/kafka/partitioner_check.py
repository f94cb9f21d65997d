"""Checks that the keys of a topic's records are partitioned as by this platform's producers.

Older versions partitioned keys by CRC-32. A key in two partitions has no order, so the platform refuses to write to such a topic.
The newest records of the topic decide, so that a topic which other programs partition by CRC-32 is found, too.
"""

from collections.abc import Iterable, Mapping
from typing import Final
from zlib import crc32

from tandem.infra.kafka.kafka_python.client import Connection
from tandem.infra.kafka.kafka_python.offsets import ends, starts
from tandem.infra.kafka.kafka_python.records import records
from tandem.infra.kafka.kafka_python.topics import describe
from tandem.infra.kafka.partitioner import partition_of
from tandem.views.errors import TandemError

_SAMPLE: Final = 100
"""The number of newest offsets of each partition that are checked."""


class OtherPartitioner(TandemError):
    """The keys of a topic are in other partitions than new records of the same keys would be."""


def refuse_crc32(connection: Connection, names: Mapping[str, str]) -> None:
    """Raise OtherPartitioner for a topic with keys placed by CRC-32; `names` of topics give the source that keys its records.

    A topic that does not exist has no records. Raises NoBroker.
    """
    found = list(describe(connection, names).values())
    lows, ends_now = starts(connection, found), ends(connection, found)
    newest = {place: max(lows[place], end - _SAMPLE) for place, end in ends_now.items() if lows[place] < end}
    sampled = records(connection, found, newest, most=_SAMPLE)
    for topic in found:
        keys = [(number, one.key) for (of, number), held in sampled.items() if of == topic.id for one in held if one.key]
        if placed_by_crc32(keys, topic.partitions):
            raise OtherPartitioner(
                f"topic '{topic.name}' of source '{names[topic.name]}' was partitioned by CRC-32, by an earlier version of "
                "Tandem; new records are partitioned by murmur2, so a key would be in two partitions and lose its order; name a "
                "new topic in the source and feed it again, or remove `key` from the source if only other programs write to the "
                "topic"
            )


def placed_by_crc32(keys: Iterable[tuple[int, bytes]], partitions: int) -> bool:
    """Whether these keys, none of them empty, were partitioned by CRC-32: it fits all of them, and murmur2 does not."""
    other = False
    for number, key in keys:
        if crc32(key) % partitions != number:
            return False
        other = other or partition_of(key, partitions) != number
    return other
