"""The last record of each partition among records as columns; apart, because commands that read tables compute nothing."""

import pyarrow as pa

from tandem.ledger.log.last_records import LastRecord, hash_of
from tandem.views.arrow.partitions import by_partition
from tandem.views.source.offset_ranges import Partition


def last_of(records: pa.Table) -> dict[Partition, LastRecord]:
    """The last record of each partition; of the columns of RECORDS_SCHEMA it reads place, timestamp and value."""
    last: dict[Partition, LastRecord] = {}
    rows, offsets = by_partition(records["topic_id"], records["partition"]), records["offset"].to_numpy()
    for place, row in zip(rows.partitions, rows.rows_of_most(offsets), strict=True):
        stamp = records["timestamp"][row].cast(pa.timestamp("us", "UTC"))
        last[place] = LastRecord(int(offsets[row]), hash_of(stamp.value, records["value"][row].as_py()))
    return last
