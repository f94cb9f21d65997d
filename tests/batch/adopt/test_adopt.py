"""A history in a table and the rest in a topic: adopted and recomputed, they are as one log."""

import json
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tandem import csv
from tandem.batch.adopt import adopt
from tandem.batch.adopt.adopt import AdoptRequest
from tandem.batch.adopt.table import HistoryTable, NotAdopted
from tandem.batch.adopt.write_rows import RowTask, all_files, write_partition
from tandem.batch.archive import write_archive
from tandem.batch.erase.find_records import NotForgotten
from tandem.batch.maintain import maintain
from tandem.batch.recompute import recompute
from tandem.batch.runtime import delta_commits
from tandem.batch.runtime.parquet_writer import Written
from tandem.batch.transfer import replay
from tandem.batch.transfer.replay import NotReplayed
from tandem.ledger.log.adoptions import Adoptions
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.positions import LOG_START
from tests.batch.shop import DEFINITIONS, Shop, answers

START = datetime(2026, 3, 1, tzinfo=UTC)
SEAM = START + timedelta(hours=3)
UNTIL = DEFINITIONS.replace("from datetime import datetime", "from datetime import UTC, datetime").replace(
    'identity=("id",)', "history_until=datetime(2026, 3, 1, 3, tzinfo=UTC)"
)


def sale(number: int) -> dict[str, Any]:
    at = START + timedelta(minutes=7 * number)
    return {"id": str(number), "at": at.isoformat(), "shop": f"shop {number % 3}", "cents": 10 * number - 40}


def save(folder: Path, name: str, numbers: range) -> None:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(map(sale, numbers))), folder / f"{name}.parquet")


def in_this_process(task: RowTask, table: HistoryTable, files: list[str]) -> tuple[Written, ...]:
    """In place of Spark's job: a task for each file."""
    done = []
    for number, name in enumerate(files):
        rows = pq.ParquetFile(table.path / name).read().to_pylist()
        columns = {
            "value": [json.dumps(row) for row in rows],
            "file": [name] * len(rows),
        }
        done += list(write_partition(task, number % 2, iter([pa.RecordBatch.from_pydict(columns)])))
    return all_files(pa.Table.from_batches(done))


def adopted(shop: Shop, table: Path, until: datetime | None = None) -> adopt.AdoptResult:
    request = AdoptRequest(table, {}, until)
    source = shop.project().sources["sales"]
    real = not hasattr(shop, "log")
    return adopt.run(shop.run("adopt"), source, request, write=None if real else in_this_process)


def counted(shop: Shop) -> dict[str, Any]:
    write_archive.run(shop.run("archive"), shop.project)
    live = recompute.run(shop.run("recompute"), shop.project).publication
    return {view: sorted(answers(shop, live, view), key=str) for view in ("per_hour", "refunds")}


def expected(numbers: range) -> int:
    return sum(sale(number)["cents"] for number in numbers)


@pytest.mark.parametrize("definitions", [DEFINITIONS, UNTIL], ids=["identity", "until"])
@pytest.mark.parametrize(("reaches", "begins"), [(26, 26), (40, 20), (30, 10)])
def test_a_table_and_a_topic_that_overlap_are_as_one_log(
    shop: Shop, tmp_path: Path, definitions: str, reaches: int, begins: int
) -> None:
    """Event 26 is the first after the seam's time; the table is in two files, and the topic in two partitions."""
    shop.define(definitions)
    save(tmp_path / "lake", "a", range(13))
    save(tmp_path / "lake", "b", range(13, reaches))
    done = adopted(shop, tmp_path / "lake", SEAM if definitions == UNTIL else None)
    assert (done.files, done.rows) == (2, reaches)
    live = [json.dumps(sale(number)).encode() for number in range(begins, 60)]
    shop.sell({0: live[::2], 1: live[1::2]})
    rows = counted(shop)
    assert sum(row["n"] for row in rows["per_hour"]) == 60
    assert sum(row["cents"] for row in rows["per_hour"]) == expected(range(60))
    assert sum(row["n"] for row in rows["refunds"]) == 4


def test_a_later_adoption_adds_the_new_files_alone(shop: Shop, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    save(lake, "a", range(10))
    assert adopted(shop, lake).rows == 10
    assert adopted(shop, lake).rows == 0
    shop.sell({0: [json.dumps(sale(number)).encode() for number in range(30, 40)], 1: []})
    assert sum(row["n"] for row in counted(shop)["per_hour"]) == 20
    save(lake, "b", range(10, 30))
    assert (adopted(shop, lake).rows, adopted(shop, lake).files) == (20, 0)
    rows = counted(shop)["per_hour"]
    assert (sum(row["n"] for row in rows), sum(row["cents"] for row in rows)) == (40, expected(range(40)))
    save(lake, "a", range(11))
    with pytest.raises(NotAdopted, match=r"changed its past: 1 files .* such as a\.parquet"):
        adopted(shop, lake)


def test_rows_of_a_table_are_not_replayed_for_another_decoder(shop: Shop, tmp_path: Path) -> None:
    save(tmp_path / "lake", "a", range(3))
    adopted(shop, tmp_path / "lake")
    source = replace(shop.project().sources["sales"], decoder=csv(columns=("id", "at", "shop", "cents")))
    with pytest.raises(NotReplayed, match="begins with rows of a table, which are JSON objects"):
        replay.run(shop.settings, source, "copy", LOG_START, say=print)


def test_a_source_without_a_seam_or_with_a_log_is_refused(shop: Shop, tmp_path: Path) -> None:
    save(tmp_path / "lake", "a", range(3))
    with pytest.raises(NotAdopted, match="needs history_until="):
        adopted(shop, tmp_path / "lake", SEAM)
    shop.define(DEFINITIONS.replace('identity=("id",)', "identity=()"))
    with pytest.raises(NotAdopted, match="would count twice"):
        adopted(shop, tmp_path / "lake")
    shop.define(DEFINITIONS)
    shop.sell({0: [json.dumps(sale(1)).encode()], 1: []})
    write_archive.run(shop.run("archive"), shop.project)
    with pytest.raises(NotAdopted, match="has already read topic"):
        adopted(shop, tmp_path / "lake")


def killed_before(step: str, patch: pytest.MonkeyPatch, shop: Shop, lake: Path) -> None:
    """An adoption that ends just before this write."""

    def killed(*args: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    with patch.context() as patched:
        patched.setattr({"intend": ArchiveLedger, "add_files": delta_commits}[step], step, killed)
        with pytest.raises(KeyboardInterrupt):
            adopted(shop, lake)


def archive_files(shop: Shop) -> set[Path]:
    return set(Path(shop.tables.archive("sales").removeprefix("file://")).glob("*.parquet"))


def half_adopted(shop: Shop, monkeypatch: pytest.MonkeyPatch, lake: Path, step: str) -> set[Path]:
    """One file of the table is in the archive and in answers, and the adoption of another was killed. Returns its files."""
    save(lake, "a", range(10))
    adopted(shop, lake)
    counted(shop)
    before = archive_files(shop)
    save(lake, "b", range(10, 30))
    killed_before(step, monkeypatch, shop, lake)
    left = archive_files(shop) - before
    assert left
    return left


@pytest.mark.parametrize("step", ["intend", "add_files"])
def test_maintain_keeps_the_files_of_an_unfinished_adoption(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    left = half_adopted(shop, monkeypatch, tmp_path / "lake", step)
    later = datetime.now(UTC) + timedelta(days=30)
    for file in left:
        os.utime(file, (START.timestamp(), START.timestamp()))
    maintain.run(shop.settings, now=lambda: later, say=print)
    assert left <= archive_files(shop)
    adopted(shop, tmp_path / "lake")
    assert sum(row["n"] for row in counted(shop)["per_hour"]) == 30
    maintain.run(shop.settings, now=lambda: later, say=print)


def test_nothing_is_erased_while_an_adoption_is_unfinished(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = half_adopted(shop, monkeypatch, tmp_path / "lake", "intend")
    with pytest.raises(
        NotForgotten, match=r"an adoption of table .*lake is incomplete; run `tandem adopt` with that table first"
    ):
        shop.forget(None)
    assert left <= archive_files(shop)
    adopted(shop, tmp_path / "lake")
    counted(shop)
    assert shop.forget(None) == []


@pytest.mark.parametrize("step", ["intend", "add_files"])
def test_an_adoption_whose_files_were_deleted_writes_them_again(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Before that it refuses another table, and a table without the same files."""
    lake = tmp_path / "lake"
    for file in half_adopted(shop, monkeypatch, lake, step):
        file.unlink()
    save(tmp_path / "other", "a", range(3))
    with pytest.raises(NotAdopted, match=r"an adoption of table .*lake is incomplete"):
        adopted(shop, tmp_path / "other")
    (lake / "b.parquet").rename(tmp_path / "b.parquet")
    with pytest.raises(NotAdopted, match=r"changed its past: 1 files .* such as b\.parquet"):
        adopted(shop, lake)
    (tmp_path / "b.parquet").rename(lake / "b.parquet")
    save(lake, "c", range(30, 35))
    assert adopted(shop, lake).rows == 5
    rows = counted(shop)["per_hour"]
    assert (sum(row["n"] for row in rows), sum(row["cents"] for row in rows)) == (35, expected(range(35)))


@pytest.mark.each_run("*before-record", "*after-intend", "*after-add_files")
@pytest.mark.parametrize("step", ["record", "intend", "add_files"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_killed_adoption_is_finished_by_the_next(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, when: str
) -> None:
    """It ends just before or after each of its writes; each row is there once."""
    save(tmp_path / "lake", "a", range(10))
    place: Any = {"record": Adoptions, "intend": ArchiveLedger, "add_files": delta_commits}[step]
    write = getattr(place, step)

    def killed(*args: Any, **options: Any) -> None:
        if when == "after":
            write(*args, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(place, step, killed)
        with pytest.raises(KeyboardInterrupt):
            adopted(shop, tmp_path / "lake")
    adopted(shop, tmp_path / "lake")
    shop.sell({0: [json.dumps(sale(number)).encode() for number in range(8, 12)], 1: []})
    assert sum(row["n"] for row in counted(shop)["per_hour"]) == 12
