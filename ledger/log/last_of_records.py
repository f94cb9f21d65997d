"""The last record of each partition among records as columns; apart, because commands that read tables compute nothing."""

import pyarrow as pa
import pyarrow.compute as pc

from tandem.ledger.log.last_records import LastRecord, hash_of
from tandem.views.arrow.python_values import scalar
from tandem.views.source.offset_ranges import Partition


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
