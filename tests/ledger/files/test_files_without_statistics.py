"""A file whose writer left no statistics is read row by row, and has the same rows."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tandem.ledger.delta.location import Location
from tandem.ledger.files.file_ranges import RECORDS
from tandem.ledger.files.scan import scan
from tandem.ledger.files.splits import Slice
from tandem.views.source.offset_ranges import Ranges


@pytest.mark.parametrize("statistics", [True, False])
def test_the_rows_of_the_ranges_are_read(tmp_path: Path, *, statistics: bool) -> None:
    rows = pa.table({"topic_id": ["T"] * 9, "partition": pa.array([0] * 9, pa.int32()), "offset": range(9)})
    pq.write_table(rows, tmp_path / "file.parquet", row_group_size=4, write_statistics=statistics)
    part = Slice(Ranges.of({("T", 0): (3, 8)}), ("file.parquet",), 0)
    found = pa.concat_tables(scan(Location(str(tmp_path)), part, RECORDS, ["offset"], rows=100))
    assert found["offset"].to_pylist() == [3, 4, 5, 6, 7]
