"""A state folder of another format is refused in one sentence and stays unchanged."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tandem.cli.__main__ import main
from tandem.cli.command.exit_codes import FAILED
from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.state_format import DESCRIPTION, FORMAT
from tandem.ledger.publish import adoption
from tandem.views.project.project import load
from tests.serving.world import World, hit


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a first publication."""
    folder = tmp_path / "shop"
    assert main(["init", str(folder)]) == 0
    adoption.live(Tables(str(folder / ".tandem" / "tables")), lambda: load(folder), by="test", at=datetime.now(UTC))
    return folder


def mark(root: Path, description: str | None) -> None:
    """Give every table below a folder this description instead of today's format."""
    for log in root.rglob("_delta_log/00000000000000000000.json"):
        today = f'"description":{json.dumps(DESCRIPTION)}'
        text = log.read_text()
        assert today in text
        log.write_text(text.replace(today, f'"description":{json.dumps(description)}'))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


COMMANDS = (
    *(["status"], ["query", "sales"], ["sql", "FROM sales"], ["history"], ["check"], ["plan"], ["apply"], ["recompute"]),
    *(["archive"], ["maintain"], ["verify", "--all"], ["metrics"], ["up"], ["serve", "--port", "0"]),
    *(["token", "create", "desk", "--may", "read"], ["feed", "orders.jsonl", "--source", "orders"]),
    *(["export", "--all", "exported"], ["import", "exported"]),
)


def test_every_command_refuses_it_in_one_sentence(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    tables = project / ".tandem" / "tables"
    mark(tables, f"Tandem state format {FORMAT - 1}")
    before = contents(tables / "control")
    capsys.readouterr()
    for command in COMMANDS:
        assert main([*command, "--project", str(project)]) == FAILED, command
        *_, sentence = capsys.readouterr().err.splitlines()
        assert f"the state in {tables} has format {FORMAT - 1}, and this version of Tandem needs format {FORMAT}: " in sentence
        for told in ("`tandem archive` and `tandem export --all DIR`", "`tandem import DIR`", "docs/recover.md"):
            assert told in sentence
        assert contents(tables / "control") == before, command


def test_a_state_without_a_number_is_refused(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mark(project / ".tandem" / "tables", None)
    capsys.readouterr()
    assert main(["doctor", "--project", str(project), "--json"]) == FAILED
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert any(one["outcome"] == "fail" and "has no format number" in one["found"] for one in checks)
    assert main(["history", "--project", str(project)]) == FAILED
    assert f"has no format number, and this version of Tandem needs format {FORMAT}: " in capsys.readouterr().err


def test_tables_in_the_state_folder_itself_are_refused(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = project / ".tandem"
    (state / "tables" / "control").rename(state / "control")
    before = contents(state / "control")
    capsys.readouterr()
    assert main(["archive", "--project", str(project)]) == FAILED
    assert f"the state in {state} has no format number" in capsys.readouterr().err
    assert contents(state / "control") == before
    assert not (state / "tables" / "control").exists()


def test_every_table_carries_the_format(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.append(0, hit("/", 1))
    world.trigger()
    logs = {path.parent for path in Path(world.tables.root).rglob("_delta_log")}
    assert logs
    for table in logs:
        handle = delta_tables.open_table(world.tables, str(table))
        assert handle is not None
        assert handle.metadata().description == DESCRIPTION, table
