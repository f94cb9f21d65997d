"""Compaction rewrites small files as large ones: the same rows in log order, in one commit, with the same bounds."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tandem.batch.maintain.compact import compact
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.files.file_ranges import RECORDS, file_ranges
from tandem.ledger.log.positions import Position

AT = datetime(2026, 11, 1, tzinfo=UTC)
END = Position.of({("T", 0): 40, ("T", 1): 40})


def small_files(folder: str, configuration: dict[str, str | None] | None) -> None:
    """Eight files of five records each of two partitions."""
    for start in range(0, 40, 5):
        offsets = [*range(start, start + 5)] * 2
        columns = {"topic_id": ["T"] * 10, "partition": [0] * 5 + [1] * 5, "offset": offsets, "size": [7 * n for n in offsets]}
        arrays = {name: pa.array(values, pa.int32() if name == "partition" else None) for name, values in columns.items()}
        write_deltalake(folder, pa.table(arrays), mode="append", configuration=configuration if start == 0 else None)


@pytest.mark.parametrize("more", [None, "topic_id,partition,offset,size"])
def test_rows_and_bounds_stay(tmp_path: Path, more: str | None) -> None:
    """Also in a table that names no columns of which statistics are kept, as Spark writes the archive."""
    tables, address = Tables(str(tmp_path)), str(tmp_path / "records")
    small_files(address, {"delta.dataSkippingStatsColumns": more} if more else None)
    before = DeltaTable(address).to_pyarrow_table().sort_by([("partition", "ascending"), ("offset", "ascending")])
    version = DeltaTable(address).version()

    assert compact(tables, address, RECORDS, END, file_bytes=10**9, at=AT) == (8, 2)

    after = DeltaTable(address)
    assert after.version() == version + 1
    assert after.to_pyarrow_table().sort_by([("partition", "ascending"), ("offset", "ascending")]) == before
    found = [(span.rows, span.topics, span.partitions, span.offsets) for span in file_ranges(after, RECORDS)]
    assert sorted(found) == [(40, ("T", "T"), (partition, partition), (0, 40)) for partition in (0, 1)]
    for action in pa.table(after.get_add_actions(flatten=True)).to_pylist():
        assert (action.get("min.size"), action.get("max.size")) == ((0, 273) if more else (None, None))
    assert compact(tables, address, RECORDS, END, file_bytes=10**9, at=AT) == (0, 0)


def test_a_missing_table_has_no_files_to_compact(tmp_path: Path) -> None:
    assert compact(Tables(str(tmp_path)), str(tmp_path / "records"), RECORDS, END, file_bytes=10**9, at=AT) == (0, 0)
