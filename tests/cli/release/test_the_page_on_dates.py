"""docs/change-from-a-date-on.md: its commands print what the page shows, over tables of its own project."""

import json
import shlex
from pathlib import Path

import pytest

from tandem.batch.archive import write_archive
from tandem.batch.recompute import recompute
from tandem.batch.release import apply
from tandem.batch.release.release_plan import Terms
from tandem.cli.__main__ import main
from tandem.cli.release.start_option import start_of
from tests.batch.release.test_apply import promoted
from tests.batch.shop import MemoryShop
from tests.documented import File, steps

SALES = [("11-30", 500), ("11-30", -20), ("12-01", 300), ("12-01", -20)]
LATE = ("11-30", -7)


def _sale(number: int, day: str, cents: int) -> bytes:
    return json.dumps({"id": str(number), "at": f"2026-{day}T12:00:00Z", "shop": "north", "cents": cents}).encode()


def test_each_command_prints_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "shop"
    folder.mkdir()
    shop = MemoryShop.of(folder, monkeypatch)
    live, typed = False, list[str]()
    for step in steps("change-from-a-date-on.md"):
        if isinstance(step, File):
            assert step.name == "shop/definitions.py"
            shop.define(step.text.replace('"sales"', '"TOPIC"'))
            if not live:
                shop.sell({0: [_sale(number, *each) for number, each in enumerate(SALES)]})
                write_archive.run(shop.run("archive"), shop.project)
                recompute.run(shop.run("recompute"), shop.project)
                live = True
            continue
        program, command, *arguments = shlex.split(step.line)
        assert program == "./tandem"
        typed.append(command)
        if command == "apply":
            # Spark's tasks run in this process.
            apply.run(shop.run("apply"), shop.project, Terms(start=start_of(arguments[-1])))
            continue
        if command == "promote":
            promoted(shop)
            continue
        step.show(capsys, code=3 if command == "plan" else 0)
    assert typed == ["plan", "apply", "promote", "query", "views"]

    shop.sell({1: [_sale(len(SALES), *LATE)]})
    write_archive.run(shop.run("archive"), shop.project)
    recompute.run(shop.run("recompute"), shop.project)
    assert main(["query", "per_day", "--project", "shop", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["n"], row["cents"], row["largest"]) for row in rows] == [(3, 473, None), (1, 300, 300)]
