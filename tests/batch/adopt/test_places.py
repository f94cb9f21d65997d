"""Rows that have the offsets of their records keep them: below the source's start they count, and never twice."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tandem import Event, Source
from tandem.batch.adopt import adopt
from tandem.batch.adopt.adopt import AdoptRequest, seam_of
from tandem.batch.adopt.mapping import map_rows
from tandem.batch.adopt.places import PlaceSpan, check_places, order_by_place, spans
from tandem.batch.adopt.table import HistoryTable, NotAdopted
from tandem.batch.adopt.write_rows import RowTask, all_files, write_at_places
from tandem.batch.archive import write_archive
from tandem.batch.recompute import recompute
from tandem.batch.release.declared_starts import StartImpossible, resolve_starts
from tandem.batch.runtime.parquet_writer import Written
from tests.batch.adopt.test_adopt import adopted, expected, sale
from tests.batch.shop import DEFINITIONS, MemoryShop, Shop, answers

NO_IDENTITY = DEFINITIONS.replace('identity=("id",)', "identity=()")
FROM_OFFSETS = DEFINITIONS.replace('identity=("id",)', "start={0: 10, 1: 7}")
COORDINATES = ("topic", "partition", "offset")
AT = datetime(2026, 1, 1, tzinfo=UTC)


class Parcel(Event):
    id: str
    at: datetime


PARCELS = Source(topic="parcels", event=Parcel, event_time="at")


def sales_with_places(topic: str, *ends: int) -> list[dict[str, Any]]:
    """Sales at the offsets from 0 to the end of each partition: the even numbers in partition 0, the odd ones in 1."""
    return [
        {**sale(2 * offset + partition), "topic": topic, "partition": partition, "offset": offset}
        for partition, end in enumerate(ends)
        for offset in range(end)
    ]


def save_rows(folder: Path, rows: list[dict[str, Any]], name: str = "a") -> Path:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / f"{name}.parquet")
    return folder


def write_in_this_process(task: RowTask, table: HistoryTable, files: list[str]) -> tuple[Written, ...]:
    """In place of Spark's job: a task for all files."""
    rows = [row for name in files for row in pq.ParquetFile(table.path / name).read().to_pylist()]
    columns = {
        "value": [json.dumps({name: row[name] for name in ("id", "at", "shop", "cents")}) for row in rows],
        "file": files[:1] * len(rows),
        "partition": pa.array([row["partition"] for row in rows], pa.int32()),
        "offset": pa.array([row["offset"] for row in rows], pa.int64()),
    }
    done = list(write_at_places(task, iter([pa.RecordBatch.from_pydict(columns)])))
    return all_files(pa.Table.from_batches(done))


def adopt_by_offset(shop: Shop, table: Path) -> adopt.AdoptResult:
    request = AdoptRequest(table, {}, coordinates=COORDINATES)
    write = write_in_this_process if isinstance(shop, MemoryShop) else None
    return adopt.run(shop.run("adopt"), shop.project().sources["sales"], request, write=write)


@pytest.mark.parametrize(("until", "declared"), [(AT, AT), (AT, None), (None, AT)])
def test_offsets_and_a_time_are_two_rules_for_one_seam(until: datetime | None, declared: datetime | None) -> None:
    request = AdoptRequest(Path("lake"), {}, until=until, coordinates=COORDINATES)
    with pytest.raises(NotAdopted, match="two rules for one seam"):
        seam_of(replace(PARCELS, history_until=declared), request)


def test_each_offset_counts_once_of_table_or_topic(shop: Shop, tmp_path: Path) -> None:
    """The table ends beyond the start of one partition and at that of the other; a later file has what the log counts anyway."""
    shop.define(FROM_OFFSETS)
    lake = save_rows(tmp_path / "lake", sales_with_places(shop.topic.name, 14, 7))
    assert adopt_by_offset(shop, lake).rows == 21
    live = [json.dumps(sale(number)).encode() for number in range(40)]
    shop.sell({0: live[::2], 1: live[1::2]})
    resolved = resolve_starts(shop.project(), shop.tables, lambda: shop.connection, now=datetime.now(UTC))
    for _ in range(2):
        write_archive.run(shop.run("archive"), lambda: resolved)
        rows = answers(shop, recompute.run(shop.run("recompute"), lambda: resolved).publication, "per_hour")
        assert sum(row["n"] for row in rows) == 40
        assert sum(row["cents"] for row in rows) == expected(range(40))
        later = [row for row in sales_with_places(shop.topic.name, 18, 7) if row["partition"] == 0 and row["offset"] >= 14]
        if not (lake / "b.parquet").exists():
            save_rows(lake, later, "b")
            assert adopt_by_offset(shop, lake).rows == 4
    shop.define(NO_IDENTITY)
    with pytest.raises(StartImpossible, match="without a start both would count"):
        resolve_starts(shop.project(), shop.tables, lambda: shop.connection, now=datetime.now(UTC))


def test_a_rule_for_the_seam_is_needed_and_only_one(shop: Shop, tmp_path: Path) -> None:
    lake = save_rows(tmp_path / "lake", sales_with_places(shop.topic.name, 3, 3))
    with pytest.raises(NotAdopted, match="--coordinates needs start="):
        adopt_by_offset(shop, lake)
    shop.define(FROM_OFFSETS)
    with pytest.raises(NotAdopted, match="add --coordinates"):
        adopted(shop, lake)


@pytest.mark.parametrize(
    ("span", "message"),
    [
        (PlaceSpan("sales", None, 2, 2, 0, 0, 1), "2 rows of topic 'sales', partition None have a coordinate that is NULL"),
        (PlaceSpan("sales", 0, 5, 3, 2, 0, 2), "2 rows of .* have a coordinate that is NULL or not a number"),
        (
            PlaceSpan("other", 0, 5, 5, 0, 0, 4),
            "5 rows are of topic 'other', partition 0, and source 'sales' reads topic 'TOPIC'",
        ),
        (PlaceSpan("TOPIC", 9, 5, 5, 0, 0, 4), "gives no offset, so all records of the topic would count"),
        (PlaceSpan("TOPIC", 0, 5, 4, 0, 0, 3), "1 rows of .* repeat an offset"),
        (PlaceSpan("TOPIC", 0, 5, 5, 0, 1, 5), "begin at offset 1, and rows up to 2 were adopted"),
        (PlaceSpan("TOPIC", 1, 5, 5, 0, -1, 3), "offsets are negative"),
    ],
)
def test_rows_without_a_place_of_their_own_are_refused(shop: Shop, span: PlaceSpan, message: str) -> None:
    (shop.folder / "definitions.py").write_text(FROM_OFFSETS)
    source = shop.project().sources["sales"]
    fine = PlaceSpan("TOPIC", 0, 5, 5, 0, 2, 6)
    check_places(source, [fine], {0: 2}, {0: 10, 1: 7})
    with pytest.raises(NotAdopted, match=message):
        check_places(source, [fine, span], {0: 2}, {0: 10, 1: 7})


@pytest.mark.slow
@pytest.mark.spark
def test_spark_brings_rows_in_the_order_of_their_offsets(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    """The columns are in a struct. A partition that is not a number has none."""
    rows = sales_with_places("TOPIC", 9, 5)[::-1]
    nested = [{**sale(0), "id": row["id"], "_kafka": {name: row[name] for name in COORDINATES}} for row in rows]
    table = HistoryTable.of(save_rows(tmp_path / "lake", nested))
    source = shop.project().sources["sales"]
    places = ("_kafka.topic", "_kafka.partition", "_kafka.offset")
    frame = map_rows(source, table.rows(spark, table.newer_files({})), {}, places)
    assert spans(frame) == [PlaceSpan("TOPIC", 0, 9, 9, 0, 0, 8), PlaceSpan("TOPIC", 1, 5, 5, 0, 0, 4)]
    read = order_by_place(frame, 2).toArrow().to_pylist()
    for number, end in enumerate((9, 5)):
        assert [row["offset"] for row in read if row["partition"] == number] == list(range(end))
    broken = map_rows(source, table.rows(spark, table.newer_files({})), {}, ("_kafka.topic", "'x'", "_kafka.offset"))
    assert spans(broken) == [PlaceSpan("TOPIC", None, 14, 9, 0, 0, 8)]
