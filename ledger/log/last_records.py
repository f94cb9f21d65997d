"""What the log said where reading stopped: of each partition the last record that was read, as its offset and a hash.

A log that was cut back and has grown again has other records at the same offsets: a broker's volume was restored from an older
copy, or a replica was elected that lacked the newest records. Neither ends nor topic ids show it; the record at the offset does.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from tandem.views.instant import GREGORIAN, LAST
from tandem.views.source.offset_ranges import Partition

_BYTES: Final = 16


@dataclass(frozen=True)
class LastRecord:
    """The offset of a record, and the hash of its timestamp and value."""

    offset: int
    hash: str


LastRecords = Mapping[Partition, LastRecord]


def hash_of(microseconds: int, value: bytes | None) -> str:
    """The hash of a record. All readers have these parts of it, and the nearest time within the calendar."""
    stamp = min(max(microseconds, GREGORIAN), LAST)
    return blake2b(b"%d%s" % (stamp, b"" if value is None else b":" + value), digest_size=_BYTES).hexdigest()


def newest_of(several: Iterable[LastRecords]) -> dict[Partition, LastRecord]:
    """The record with the highest offset of each partition."""
    newest: dict[Partition, LastRecord] = {}
    for records in several:
        for partition, record in records.items():
            if partition not in newest or record.offset > newest[partition].offset:
                newest[partition] = record
    return newest


def to_json(records: LastRecords) -> list[list[Any]]:
    """A JSON document, sorted by partition."""
    return [
        [topic, number, record.offset, record.hash]
        for (topic, number), record in sorted(records.items(), key=lambda item: item[0])
    ]


def from_json(document: Iterable[Iterable[Any]]) -> dict[Partition, LastRecord]:
    """Inverse of `to_json`."""
    return {(topic, number): LastRecord(offset, text) for topic, number, offset, text in document}
