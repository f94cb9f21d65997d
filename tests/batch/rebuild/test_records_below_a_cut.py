"""The number of archived records below a cut is exact, also if the cut lies within files and row groups."""

from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from tandem.batch.rebuild.gather_events import records_within
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.files.file_ranges import RECORDS, log_table
from tandem.views.source.offset_ranges import Ranges
from tests.views.logged import records


def test_records_are_counted_by_position(tmp_path: Path) -> None:
    tables = Tables(str(tmp_path))
    assert records_within(log_table(tables, tables.archive("sales"), RECORDS), Ranges.of({("topic", 0): (0, 9)})) == 0
    # Offsets 0 to 39 of two partitions, a hole at every tenth; partition 1 in one file, partition 0 in two.
    held = {0: [(0, 20), (20, 40)], 1: [(0, 40)]}
    for partition, stretches in held.items():
        for low, high in stretches:
            rows = records([b""] * (high - low), partition=partition, first=low)
            kept = rows.filter(pa.array([offset % 10 != 0 for offset in range(low, high)]))
            write_deltalake(tables.archive("sales"), kept, mode="append")
    archive = log_table(tables, tables.archive("sales"), RECORDS)
    for first, second in ((0, 0), (1, 40), (20, 5), (27, 39), (40, 40)):
        covered = Ranges.of({("topic", 0): (0, first), ("topic", 1): (0, second)})
        expected = sum(offset % 10 != 0 for end in (first, second) for offset in range(end))
        assert records_within(archive, covered) == expected
