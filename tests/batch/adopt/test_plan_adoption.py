"""The plan of an adoption counts both sides of the seam, and writes nothing."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tandem.batch.adopt.adopt import AdoptRequest
from tandem.batch.adopt.places import PlaceSpan
from tandem.batch.adopt.plan_adoption import AdoptPlan, LogSide, SeamDay, count_days, plan, rows_of_days
from tandem.batch.adopt.record_times import RecordTimes
from tandem.batch.adopt.table import HistoryTable, NotAdopted
from tandem.batch.archive import write_archive
from tandem.views.source.event import TIMESTAMP, Field
from tests.batch.adopt.test_adopt import UNTIL, adopted, sale, save
from tests.batch.adopt.test_places import COORDINATES, FROM_OFFSETS, adopt_by_offset, sales_with_places, save_rows
from tests.batch.shop import DEFINITIONS, MemoryShop, Shop

SALE_TIMES = RecordTimes(("at",), Field("at", "at", datetime, TIMESTAMP))
FIRST, SECOND = date(2026, 3, 1), date(2026, 3, 2)


@dataclass(frozen=True)
class PlainRows:
    """In place of Spark's rows: sales."""

    rows: Sequence[Mapping[str, Any]]
    times: RecordTimes = SALE_TIMES

    def by_day(self, side: LogSide) -> Mapping[tuple[date, bool], int]:
        counts = Counter[tuple[date, bool]]()
        for batch in count_days(self.times, side, [self.batch(self.rows)]):
            counts += Counter({(row["day"], row["late"]): row["n"] for row in batch.to_pylist()})
        return counts

    def first(self, number: int, days: tuple[date, date] | None = None) -> pa.Table:
        batches = [self.batch(self.rows)]
        return pa.Table.from_batches(batches if days is None else rows_of_days(self.times, days, batches)).slice(0, number)

    def places(self) -> list[PlaceSpan]:
        by_partition = [[row for row in self.rows if row["partition"] == number] for number in (0, 1)]
        offsets = [[row["offset"] for row in rows] for rows in by_partition]
        return [
            PlaceSpan(rows[0]["topic"], number, len(rows), len(set(of)), 0, min(of), max(of))
            for number, (rows, of) in enumerate(zip(by_partition, offsets, strict=True))
        ]

    @staticmethod
    def batch(rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
        columns: dict[str, Any] = {
            "value": [json.dumps({name: row[name] for name in ("id", "at", "shop", "cents")}) for row in rows],
            "file": ["file"] * len(rows),
        }
        for name in ("topic", "partition", "offset"):
            if "offset" in rows[0]:
                columns[name] = [row[name] for row in rows]
        return pa.RecordBatch.from_pydict(columns)


def of_parquet(table: HistoryTable, files: list[str]) -> PlainRows:
    return PlainRows([row for name in files for row in pq.ParquetFile(table.path / name).read().to_pylist()])


def plan_of(shop: Shop, table: Path, coordinates: tuple[str, str, str] | None = None) -> AdoptPlan:
    read = of_parquet if isinstance(shop, MemoryShop) else None
    request = AdoptRequest(table, {}, coordinates=coordinates)
    return plan(shop.run("adopt"), shop.project().sources["sales"], request, read=read)


def file_times(shop: Shop) -> dict[Path, int]:
    files = Path(shop.settings.state).rglob("*")
    return {file: file.stat().st_mtime_ns for file in files if file.is_file() and "locks" not in file.parts}


def sell(shop: Shop, numbers: range) -> None:
    shop.sell({0: [json.dumps(sale(number)).encode() for number in numbers], 1: []})


def test_without_an_archive_the_table_alone_is_counted(shop: Shop, tmp_path: Path) -> None:
    """Event 206 is the first of the second day. A row of another kind than its field's is a reject."""
    lake = tmp_path / "lake"
    save(lake, "a", range(250))
    pq.write_table(pa.Table.from_pylist([{**sale(3), "shop": None}, sale(4)]), lake / "b.parquet")
    result = plan_of(shop, lake)
    assert (result.files, result.rows, result.sampled, sum(result.rejects.values())) == (2, 252, 252, 1)
    assert result.days == (SeamDay(FIRST, 208, None, 1, None), SeamDay(SECOND, 44, None, 0, None))
    assert (result.log, result.others, result.compared, result.refusal) == (None, 0, 251, None)
    assert not file_times(shop)
    assert result.read == sum(file.stat().st_size for file in lake.iterdir())
    values = [json.dumps({**sale(number), "at": str(sale(number)["at"])}) for number in range(250)]
    assert sum(map(len, values)) < result.written < 4 * sum(map(len, values))


def test_rows_on_the_log_side_of_a_declared_time_are_counted(shop: Shop, tmp_path: Path) -> None:
    shop.define(UNTIL)
    save(tmp_path / "lake", "a", range(40))
    result = plan_of(shop, tmp_path / "lake")
    assert (result.rows, result.others) == (40, 14)
    assert result.days == (SeamDay(FIRST, 40, None),)


def test_new_files_are_compared_with_the_archived_log(shop: Shop, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    save(lake, "a", range(100))
    adopted(shop, lake)
    sell(shop, range(300, 450))
    write_archive.run(shop.run("archive"), shop.project)
    save(lake, "b", range(100, 400))
    before = file_times(shop)
    result = plan_of(shop, lake)
    assert file_times(shop) == before
    assert (result.files, result.rows, result.log, result.compared) == (1, 300, 150, 300)
    assert result.days == (SeamDay(FIRST, 106, 0, 0, 0), SeamDay(SECOND, 194, 112, 0, 100))
    assert adopted(shop, lake).rows == 300
    again = plan_of(shop, lake)
    assert (again.files, again.rows, again.log) == (0, 0, 150)


def test_by_offset_the_plan_counts_the_rows_of_each_side(shop: Shop, tmp_path: Path) -> None:
    """Of partition 0 the rows from offset 10 on are the log's, of partition 1 none."""
    shop.define(FROM_OFFSETS)
    lake = save_rows(tmp_path / "lake", sales_with_places(shop.topic.name, 14, 7))
    result = plan_of(shop, lake, COORDINATES)
    assert (result.rows, result.others, result.compared, result.refusal) == (21, 4, 0, None)
    assert result.days == (SeamDay(FIRST, 21, None),)
    assert not file_times(shop)


@pytest.mark.parametrize("fault", ["twice", "topic"])
def test_the_plan_refuses_the_places_that_adopt_refuses(shop: Shop, tmp_path: Path, fault: str) -> None:
    shop.define(FROM_OFFSETS)
    rows = sales_with_places(shop.topic.name if fault == "twice" else "other", 3, 3)
    lake = save_rows(tmp_path / "lake", [*rows, *(rows[:1] if fault == "twice" else [])])
    result = plan_of(shop, lake, COORDINATES)
    assert result.refusal is not None
    assert ("repeat an offset" if fault == "twice" else "rows are of topic 'other'") in result.refusal
    if not isinstance(shop, MemoryShop):
        with pytest.raises(NotAdopted, match="nothing was adopted"):
            adopt_by_offset(shop, lake)


def test_rows_of_later_files_below_what_was_adopted_are_refused_by_the_plan(shop: Shop, tmp_path: Path) -> None:
    shop.define(FROM_OFFSETS)
    rows = sales_with_places(shop.topic.name, 5, 5)
    lake = save_rows(tmp_path / "lake", rows)
    adopt_by_offset(shop, lake)
    save_rows(lake, rows[3:], "b")
    result = plan_of(shop, lake, COORDINATES)
    assert result.refusal is not None
    assert "begin at offset 3, and rows up to 5 were adopted" in result.refusal


def test_what_adopt_would_refuse_is_in_the_plan(shop: Shop, tmp_path: Path) -> None:
    save(tmp_path / "lake", "a", range(3))
    sell(shop, range(2, 9))
    write_archive.run(shop.run("archive"), shop.project)
    result = plan_of(shop, tmp_path / "lake")
    assert result.refusal is not None
    assert "has already read topic" in result.refusal
    assert (result.log, result.days) == (7, (SeamDay(FIRST, 3, 7, 0, 1),))
    shop.define(DEFINITIONS.replace('identity=("id",)', "identity=()"))
    with pytest.raises(NotAdopted, match="would count twice"):
        plan_of(shop, tmp_path / "lake")
