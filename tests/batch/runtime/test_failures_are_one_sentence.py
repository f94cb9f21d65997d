"""An error inside Spark reaches the user as one line without a stack."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tandem.batch.runtime import spark_jobs
from tandem.ledger.delta.errors import Unreadable
from tandem.ledger.delta.location import Location, opened

_FULL = "No space left on device"


def _full_disk(_: int) -> int:
    Path("/dev/full").write_bytes(b"x" * 100_000)
    return 0


def _own(number: int) -> int:
    raise Unreadable(f"cannot read table {number}")


@pytest.mark.parametrize("found", [None, b"", b"PAR1 and no more of it"])
def test_a_missing_or_torn_file_is_one_sentence(tmp_path: Path, found: bytes | None) -> None:
    if found is not None:
        (tmp_path / "part.parquet").write_bytes(found)
    with pytest.raises(Unreadable, match=rf"^cannot read table {tmp_path}: part.parquet: .*; restore it, or remove it if"):
        opened(Location(str(tmp_path)), "part.parquet")


@pytest.mark.spark
def test_a_failed_task_is_one_sentence(spark: SparkSession) -> None:
    with pytest.raises(spark_jobs.TaskFailed) as full:
        spark_jobs.each(spark, _full_disk, [1])
    with pytest.raises(spark_jobs.TaskFailed) as own:
        spark_jobs.each(spark, _own, [7])

    assert str(full.value) == f"OSError: [Errno 28] {_FULL}"
    assert str(own.value) == "cannot read table 7"
