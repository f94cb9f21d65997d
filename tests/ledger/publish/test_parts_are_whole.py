"""The files of a part of a batch view hold all of its rows, or reading it raises."""

import re
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.errors import Unreadable
from tandem.ledger.log.positions import Position
from tandem.ledger.publish.batch_parts import BatchPart, files_of

END = Position.of({("T", 0): 9})


def test_a_table_that_does_not_exist_is_named_with_the_version(tmp_path: Path) -> None:
    address = str(tmp_path / "gone")
    with pytest.raises(Unreadable, match=re.escape(f"table {address} of batch version 7 does not exist")):
        files_of(Tables(str(tmp_path)), address, BatchPart(7, 1, END))


def test_rows_that_are_missing_are_counted(tmp_path: Path) -> None:
    address = str(tmp_path / "view")
    for version, rows in ((6, 2), (7, 3), (7, 1)):
        states = pa.table({"batch_version": [version] * rows, "n": [0] * rows})
        write_deltalake(address, states, mode="append", partition_by=["batch_version"])
    with pytest.raises(Unreadable, match="has 4 of the 5 rows of batch version 7; restore it"):
        files_of(Tables(str(tmp_path)), address, BatchPart(7, 5, END))
    _, files = files_of(Tables(str(tmp_path)), address, BatchPart(7, 4, END))
    assert sorted(file.rows for file in files) == [1, 3]
