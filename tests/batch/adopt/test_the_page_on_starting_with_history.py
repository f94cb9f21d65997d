"""The commands of docs/start-with-history.md, run as they stand there, show what it shows."""

import csv
import json
import shlex
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tandem.batch.adopt import adopt
from tandem.batch.adopt.adopt import AdoptRequest
from tandem.batch.adopt.plan_adoption import plan
from tandem.batch.adopt.table import HistoryTable
from tandem.batch.adopt.write_rows import RowTask, all_files, write_partition
from tandem.batch.archive import write_archive
from tandem.batch.recompute import recompute
from tandem.batch.runtime.parquet_writer import Written
from tandem.cli.__main__ import main
from tandem.cli.log.adopt import adoption_sentence, plan_lines
from tests.batch.adopt.test_adopt import expected, sale
from tests.batch.adopt.test_plan_adoption import PlainRows
from tests.batch.shop import MemoryShop, Shop, answers
from tests.documented import Command, steps

PARTS = {"shops": range(250), "web": range(250, 350), "tills": range(350, 400)}
"""The sales of each table; the topic has those from 300 to 499."""


def save_tables(lake: Path) -> None:
    """A folder of CSV, a Delta table, and a folder of JSON Lines with columns of its own."""
    shops, web, tills = ([sale(number) for number in numbers] for numbers in PARTS.values())
    for name in ("shops", "tills"):
        (lake / name).mkdir(parents=True)
    with (lake / "shops" / "2025.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(shops[0]))
        writer.writeheader()
        writer.writerows(shops)
    write_deltalake(str(lake / "web"), pa.Table.from_pylist([{**row, "at": datetime.fromisoformat(row["at"])} for row in web]))
    lines = [
        {"number": int(row["id"]), "at": row["at"], "shop": row["shop"], "euros": row["cents"] / 100, "till": 7} for row in tills
    ]
    (lake / "tills" / "2026.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def rows_of(table: HistoryTable, _: list[str]) -> PlainRows:
    return PlainRows([sale(number) for number in PARTS[table.path.name]])


def write(task: RowTask, table: HistoryTable, files: list[str]) -> tuple[Written, ...]:
    rows = rows_of(table, files).first(1_000)
    return all_files(pa.Table.from_batches(list(write_partition(task, 0, iter(rows.to_batches())))))


def in_this_process(shop: Shop, command: str, arguments: list[str]) -> str:
    """What the command prints, with tasks of Spark in this process."""
    if command == "adopt":
        source, request = shop.project().sources["sales"], AdoptRequest(Path(arguments[2]), {})
        if "--plan" in arguments:
            return "\n".join(plan_lines("sales", plan(shop.run("adopt"), source, request, read=rows_of))) + "\n"
        return adoption_sentence("sales", adopt.run(shop.run("adopt"), source, request, write=write)) + "\n"
    if command == "archive":
        write_archive.run(shop.run("archive"), shop.project)
        return ""
    counts = recompute.run(shop.run("recompute"), shop.project).publication.counts["sales"]
    return f"sales: {counts.events} events, {counts.duplicates} duplicates and {counts.rejects} rejects below the cut\n"


def test_the_outputs_on_the_page_are_true(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    save_tables(tmp_path / "lake")
    live = [json.dumps(sale(number)).encode() for number in range(300, 500)]
    shop.sell({0: live[::2], 1: live[1::2]})
    run = []
    for step in steps("start-with-history.md"):
        assert isinstance(step, Command)
        program, command, *arguments = shlex.split(step.line)
        assert program == "tandem"
        run.append(command)
        if isinstance(shop, MemoryShop) and command != "query":
            shown = in_this_process(shop, command, arguments)
        else:
            assert main([command, *arguments, "--project", str(shop.folder)]) == 0, capsys.readouterr().err
            shown = capsys.readouterr().out
        assert step.missing(shown) is None, shown
    assert run == ["adopt", "adopt", "adopt", "adopt", "archive", "recompute", "query"]
    live_now = shop.run("query").standing.publications.latest()
    assert live_now is not None
    rows = answers(shop, live_now, "per_hour")
    assert (sum(row["n"] for row in rows), sum(row["cents"] for row in rows)) == (500, expected(range(500)))
