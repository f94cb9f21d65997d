"""What the log said where reading stopped: of each partition the last record that was read, as its offset and a hash.

A log that was cut back and has grown again has other records at the same offsets: a broker's volume was restored from an older
copy, or a replica was elected that lacked the newest records. Neither ends nor topic ids show it; the record at the offset does.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tandem.views.arrow.python_values import scalar
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


def last_of(records: pa.Table) -> dict[Partition, LastRecord]:
    """The last record of each partition; of the columns of RECORDS_SCHEMA it reads place, timestamp and value."""
    highest = records.group_by(["topic_id", "partition"], use_threads=False).aggregate([("offset", "max")])
    last: dict[Partition, LastRecord] = {}
    for topic, number, offset in zip(*highest.to_pydict().values(), strict=True):
        there = pc.and_(
            pc.and_(pc.equal(records["offset"], offset), pc.equal(records["partition"], number)),
            pc.equal(records["topic_id"].cast(pa.string()), scalar(topic, pa.string())),
        )
        row = records.select(["timestamp", "value"]).filter(there)
        stamp = row["timestamp"].cast(pa.timestamp("us", "UTC")).cast(pa.int64())[0].as_py()
        last[topic, number] = LastRecord(offset, hash_of(stamp, row["value"][0].as_py()))
    return last


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
