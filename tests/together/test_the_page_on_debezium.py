"""docs/debezium.md: its project is what its commands are run on, and they show what the page shows."""

from pathlib import Path

import pytest

from tandem.cli.__main__ import main
from tests.documented import File, steps


def test_commands_on_debezium_show_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tandem.toml").touch()
    monkeypatch.chdir(tmp_path)
    for step in steps("debezium.md"):
        if isinstance(step, File):
            step.write(tmp_path)
            continue
        step.show(capsys)


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
