"""Spark's tasks read the archive's records themselves, with the same result for any storage and any files."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from tandem.ledger.delta.addresses import Tables
from tandem.speed.source.record_frames import of_archive
from tandem.views.project.project import load_files
from tandem.views.source.offset_ranges import Ranges
from tandem.views.source.source import RECORDS_SCHEMA, Source, record_columns
from tests.infra.storage.s3 import a_bucket
from tests.speed.sales import project_files

pytestmark = pytest.mark.spark

AT = datetime(2026, 11, 1, tzinfo=UTC)
RUNS = ((("a", 0), 0, 40_000), (("a", 1), 7, 3_000), (("a", 0), 40_000, 40_010), (("b", 0), 0, 5))
"""Partition, first offset and end of each file's records."""


@pytest.fixture(scope="module", params=["a folder", "a bucket"])
def tables(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    if request.param == "a folder":
        yield Tables(str(tmp_path_factory.mktemp("tables")))
        return
    with a_bucket() as (url, options):
        yield Tables(url, options)


@pytest.fixture(scope="module")
def source() -> Source:
    return load_files(project_files("t")).sources["sales"]


def records(partition: tuple[str, int], start: int, end: int) -> pa.Table:
    offsets = range(start, end)
    rows = {
        "topic_id": [partition[0]] * len(offsets),
        "partition": [partition[1]] * len(offsets),
        "offset": offsets,
        "timestamp": [AT + timedelta(milliseconds=offset) for offset in offsets],
        "timestamp_type": [0] * len(offsets),
        "key": [None if offset % 3 else b"%d" % offset for offset in offsets],
        "value": [b"%d" % offset for offset in offsets],
        "headers": [[{"key": "h", "value": b"x"}] if offset % 2 else None for offset in offsets],
    }
    return pa.table(rows, RECORDS_SCHEMA)


def archived(tables: Tables, source: Source) -> None:
    for run in RUNS:
        write_deltalake(tables.archive(source.name), records(*run), mode="append", storage_options=dict(tables.options))


def read(spark: SparkSession, tables: Tables, source: Source, ranges: Ranges) -> list[dict[str, object]]:
    rows = of_archive(spark, tables, source, ranges).toArrow().select(record_columns(source)).to_pylist()
    return sorted(rows, key=lambda row: (row["topic_id"], row["partition"], row["offset"]))


def test_no_archive_has_no_records(spark: SparkSession, tables: Tables, source: Source) -> None:
    assert read(spark, tables.below("none"), source, Ranges.of({("a", 0): (0, 5)})) == []


def test_just_the_records_of_the_ranges_are_read_once(spark: SparkSession, tables: Tables, source: Source) -> None:
    archived(tables, source)
    dice = random.Random(3)
    for _ in range(3):
        bounds = {
            p: sorted(dice.sample(range(41_000), 2)) for p in (("a", 0), ("a", 1), ("b", 0), ("c", 0)) if dice.random() < 0.8
        }
        ranges = Ranges.of({p: (low, high) for p, (low, high) in bounds.items()} or {("a", 0): (0, 41_000)})
        within = dict(ranges.intervals)
        expected = [
            row
            for partition, start, end in RUNS
            for row in records(partition, start, end).select(record_columns(source)).to_pylist()
            if any(low <= row["offset"] < high for low, high in within.get(partition, ()))
        ]
        expected.sort(key=lambda row: (row["topic_id"], row["partition"], row["offset"]))
        assert read(spark, tables, source, ranges) == expected
