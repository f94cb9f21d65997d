"""docs/debezium.md: its project is what its commands are run on, and they show what the page shows."""

import json
import re
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tandem.cli.__main__ import main
from tandem.serving.memory.store import Store
from tandem.serving.sql.limits import StatementLimits
from tandem.serving.sql.merged_views import MergedViews, ask
from tandem.serving.sql.sandbox import Sandbox
from tests.documented import DOCS, File, steps
from tests.serving.world import World

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


def test_commands_on_debezium_show_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tandem.toml").touch()
    monkeypatch.chdir(tmp_path)
    for step in steps("debezium.md"):
        if isinstance(step, File):
            step.write(tmp_path)
            continue
        assert main(shlex.split(step.line)[1:]) == 0
        out, err = capsys.readouterr()
        shown = "\n".join(line.rstrip() for line in (out + err).splitlines()) + "\n"
        assert step.missing(shown) is None, f"{step.line}: {step.missing(shown)!r} is not in\n{shown}"


def change(op: str, sku: str, minute: int) -> bytes:
    row, time = {"sku": sku, "price": "1.00"}, (NEW_YEAR + timedelta(minutes=minute)).timestamp()
    before, after = (row, None) if op == "d" else (None, row)
    return json.dumps({"op": op, "before": before, "after": after, "source": {"ts_us": int(time * 10**6)}}).encode()


def test_rows_that_a_later_snapshot_lacks_are_named_and_deleted(tmp_path: Path) -> None:
    """Of three rows one is deleted while the slot is lost; a snapshot at noon has the others."""
    page = (DOCS / "debezium.md").read_text("utf-8")
    (statement,) = re.findall(r"^```sql\n(SELECT.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (delete,) = re.findall(r'`({"op": "d".*?)`', page)
    (definitions,) = (step for step in steps("debezium.md") if isinstance(step, File) and step.name == "definitions.py")
    table = 'product = Table(products, key={"sku": "sku"}, gone="deleted", order="log")\n'
    assert table.strip() in page
    text = definitions.text.replace("Source, View", "Source, Table, View") + table
    world = World(tmp_path, definitions=text, source="products", appended=NEW_YEAR)
    world.append(0, change("r", "a", 0), change("r", "b", 0), change("c", "c", 5), change("c", "x", 6), change("d", "x", 7))
    world.trigger()
    world.recompute(world.writer.end)
    world.append(0, change("r", "a", 720), change("r", "c", 720))
    world.trigger()

    def rows_of(sql: str) -> list[str]:
        with Sandbox(StatementLimits()) as sandbox:
            return sorted(ask(sandbox, MergedViews(Store(world.tables, 7)), sql).table["sku"].to_pylist())

    assert rows_of(statement) == ["b"]
    assert rows_of("SELECT sku FROM product") == ["a", "b", "c"]
    world.append(0, delete.encode())
    world.trigger()
    assert rows_of(statement) == []
    assert rows_of("SELECT sku FROM product") == ["a", "c"]


def test_a_source_in_sql_reads_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tandem.toml").touch()
    (tmp_path / "definitions.sql").write_text(
        """CREATE SOURCE products (
    sku TEXT NOT NULL,
    changed TIMESTAMP NOT NULL OPTIONS (name = '__source_ts_us'),
    deleted BOOLEAN NOT NULL OPTIONS (name = '__deleted'),
    price DECIMAL(38, 2),
    WATERMARK FOR changed
) WITH (topic = 'shop.public.products', format = 'debezium', debezium.before = TRUE);

CREATE VIEW current AS SELECT sku, last(price) AS price, last(deleted) AS gone FROM products GROUP BY sku;
"""
    )
    (changes,) = (step for step in steps("debezium.md") if isinstance(step, File) and step.name == "changes.jsonl")
    changes.write(tmp_path)
    assert main(["try", "current", str(tmp_path / "changes.jsonl"), "--project", str(tmp_path)]) == 0
    assert "11.00  true" in capsys.readouterr().out
