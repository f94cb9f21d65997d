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
from tandem.batch.adopt.plan_adoption import SAMPLE, AdoptPlan, SeamDay, plan
from tandem.batch.adopt.table import HistoryTable, NotAdopted
from tandem.batch.archive import archive
from tests.batch.adopt.test_adopt import UNTIL, adopted, sale, save
from tests.batch.shop import DEFINITIONS, MemoryShop, Shop

FIRST, SECOND = date(2026, 3, 1), date(2026, 3, 2)


@dataclass(frozen=True)
class PlainRows:
    """In place of Spark's rows: sales."""

    rows: Sequence[Mapping[str, Any]]

    def by_day(self, until: datetime | None) -> Mapping[tuple[date, bool], int]:
        times = [datetime.fromisoformat(row["at"]) for row in self.rows]
        return Counter((time.date(), until is not None and time >= until) for time in times)

    def sample(self, since: datetime | None) -> pa.Table:
        rows = [row for row in self.rows if since is None or datetime.fromisoformat(row["at"]) >= since][:SAMPLE]
        columns = {
            "value": [json.dumps(row) for row in rows],
            "timestamp": [datetime.fromisoformat(row["at"]) for row in rows],
            "file": ["file"] * len(rows),
        }
        return pa.table(columns)


def of_parquet(table: HistoryTable, files: list[str]) -> PlainRows:
    return PlainRows([row for name in files for row in pq.ParquetFile(table.path / name).read().to_pylist()])


def plan_of(shop: Shop, table: Path) -> AdoptPlan:
    read = of_parquet if isinstance(shop, MemoryShop) else None
    return plan(shop.run("adopt"), shop.project().sources["sales"], AdoptRequest(table, {}), read=read)


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
    assert result.days == (SeamDay(FIRST, 208, None), SeamDay(SECOND, 44, None))
    assert (result.log, result.others, result.duplicates, result.refusal) == (None, 0, None, None)
    assert not file_times(shop)


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
    archive.run(shop.run("archive"), shop.project)
    save(lake, "b", range(100, 400))
    before = file_times(shop)
    result = plan_of(shop, lake)
    assert file_times(shop) == before
    assert (result.files, result.rows, result.log, result.compared, result.duplicates) == (1, 300, 150, 194, 100)
    assert result.days == (SeamDay(FIRST, 106, 0), SeamDay(SECOND, 194, 112))
    assert adopted(shop, lake).rows == 300
    again = plan_of(shop, lake)
    assert (again.files, again.rows, again.log) == (0, 0, 150)


def test_what_adopt_would_refuse_is_in_the_plan(shop: Shop, tmp_path: Path) -> None:
    save(tmp_path / "lake", "a", range(3))
    sell(shop, range(2, 9))
    archive.run(shop.run("archive"), shop.project)
    result = plan_of(shop, tmp_path / "lake")
    assert result.refusal is not None
    assert "has already read topic" in result.refusal
    assert (result.log, result.compared, result.duplicates) == (7, 3, 1)
    shop.define(DEFINITIONS.replace('identity=("id",)', "identity=()"))
    with pytest.raises(NotAdopted, match="would count twice"):
        plan_of(shop, tmp_path / "lake")
