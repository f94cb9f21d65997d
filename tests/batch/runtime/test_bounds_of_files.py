"""The bounds of a file hold for all of its rows, also for times that Delta's statistics cannot express."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tandem.batch.runtime.parquet_writer import TableFile
from tandem.ledger.delta.location import Location
from tandem.views.instant import FIRST, LAST
from tandem.views.source.event import TIMESTAMP

SCHEMA = pa.schema([("offset", pa.int64()), ("timestamp", TIMESTAMP)])
NOON = int(datetime(2026, 11, 1, 12, tzinfo=UTC).timestamp()) * 1_000_000


@pytest.mark.parametrize("beyond", [LAST + 1, FIRST - 1, 2**63 - 1])
@pytest.mark.parametrize("first", [0, 1])
def test_a_time_outside_the_calendar_leaves_its_column_without_bounds(tmp_path: Path, beyond: int, first: int) -> None:
    """In whichever piece it comes; the rows are as they were."""
    pieces = [[NOON, beyond], [NOON - 1, NOON]]
    file = TableFile(Location(str(tmp_path)), SCHEMA, SCHEMA.names)
    with file:
        for number, stamps in enumerate(pieces[first:] + pieces[:first]):
            times = pa.array(stamps, pa.int64()).cast(TIMESTAMP)
            file.write(pa.Table.from_arrays([pa.array([2 * number, 2 * number + 1], pa.int64()), times], schema=SCHEMA))
    assert file.written is not None
    assert file.written.bounds == {"offset": (0, 3)}
    file.written.add_action()
    found = pq.read_table(tmp_path / file.written.path)["timestamp"].cast(pa.int64()).to_pylist()
    assert sorted(found) == sorted(pieces[0] + pieces[1])


def test_times_of_the_calendar_have_bounds(tmp_path: Path) -> None:
    file = TableFile(Location(str(tmp_path)), SCHEMA, SCHEMA.names)
    with file:
        file.write(pa.table({"offset": [0, 1], "timestamp": pa.array([FIRST, LAST], pa.int64()).cast(TIMESTAMP)}, SCHEMA))
        file.write(pa.table({"offset": [2], "timestamp": pa.array([None], TIMESTAMP)}, SCHEMA))
    assert file.written is not None
    low, high = file.written.bounds["timestamp"]
    assert (low.year, high.year) == (1, 9999)
