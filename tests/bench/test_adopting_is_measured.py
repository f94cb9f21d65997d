"""`bench adopt` has all sides write every row of one table, and sets their rates beside each other."""

import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tandem.bench import adopt
from tandem.bench.adopt import AdoptRates, AdoptScale
from tandem.bench.peers.estimates import middle


@pytest.mark.slow  # starts Spark
@pytest.mark.spark
def test_every_side_writes_every_row(tmp_path: Path) -> None:
    rates = adopt.measure(tmp_path, AdoptScale(2_000, 1), cores=2, memory="1g", environ=os.environ, say=lambda _: None)
    assert rates.right
    assert set(rates.per_second) == {"adopt", "copy", "json"}
    assert set(rates.ratios) == {"copy", "json"}


def test_a_table_has_its_rows_in_files_and_every_identity_once(tmp_path: Path) -> None:
    adopt.write_table(tmp_path / "lake", 1_001)
    rows = pq.read_table(tmp_path / "lake")
    assert rows.num_rows == 1_001
    assert len(set(rows["id"].to_pylist())) == 1_001
    assert rows.column_names == ["id", "at", "user", "path", "bytes"]


def test_a_rate_below_the_aim_is_named() -> None:
    def rates(copy: float) -> AdoptRates:
        per_second = {"adopt": middle([70.0]), "copy": middle([100.0]), "json": middle([80.0])}
        return AdoptRates(per_second, {"copy": middle([copy]), "json": middle([0.9])}, right=True)

    assert adopt.document(rates(0.71))["reached"]
    assert not adopt.document(rates(0.69))["reached"]
    assert adopt.table(rates(0.69)).row_count == 3
