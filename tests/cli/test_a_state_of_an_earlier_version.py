"""A state folder of an earlier format is refused in one sentence, unchanged, and its export becomes part of a new one."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from tandem.cli.__main__ import main
from tandem.cli.command.exit_codes import FAILED
from tandem.ledger.delta import delta_tables, journal, state_format
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log import archive_runs
from tests.serving.world import World, hit

OLD = Path(__file__).with_name("state_of_60b41f2")
SOURCE = "orders"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of today's names in a folder, without a state."""
    folder = tmp_path / "shop"
    assert main(["init", str(folder)]) == 0
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "command",
    [
        ["status"],
        ["query", "sales"],
        ["sql", "FROM sales"],
        ["history"],
        ["check"],
        ["plan"],
        ["apply"],
        ["recompute"],
        ["archive"],
        ["maintain"],
        ["verify", "--all"],
        ["metrics"],
        ["up"],
        ["token", "create", "desk", "--may", "read"],
        ["feed", "orders.jsonl", "--source", SOURCE],
        ["export", "--all", "exported"],
        ["import", str(OLD / "export")],
    ],
    ids=lambda words: words[0],
)
def test_every_command_refuses_it_in_one_sentence(
    project: Path, command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    shutil.copytree(OLD / "state", project / ".tandem")
    capsys.readouterr()
    assert main([*command, "--project", str(project)]) == FAILED
    *_, sentence = capsys.readouterr().err.splitlines()
    refused = f"the state in {project / '.tandem'} has no format number, and this version of Tandem needs format 3: "
    assert sentence.startswith(f"tandem: {refused}")
    assert "`tandem archive` and `tandem export --all DIR`" in sentence
    assert "`tandem import DIR`" in sentence
    assert "docs/recover.md" in sentence
    before, after = contents(OLD / "state" / "control"), contents(project / ".tandem" / "control")
    assert after == before


def test_the_doctor_names_it(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(OLD / "state", project / ".tandem")
    capsys.readouterr()
    assert main(["doctor", "--project", str(project), "--json"]) == FAILED
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert any(one["outcome"] == "fail" and "has no format number" in one["found"] for one in checks)


def test_an_export_of_the_earlier_version_is_imported_whole(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["import", str(OLD / "export"), "--project", str(project), "--json"]) == 0
    (imported,) = json.loads(capsys.readouterr().out)["sources"].values()
    assert (imported["new"], imported["records"]) == (True, 12)
    tables = Tables(str(project / ".tandem" / "tables"))
    handle = delta_tables.open_table(tables, tables.archive(SOURCE))
    assert handle is not None
    rows = handle.to_pyarrow_table().to_pylist()
    sent = (project / "orders.jsonl").read_bytes().splitlines()[:12]
    assert sorted(row["value"] for row in rows) == sorted(sent)
    assert archive_runs.archived(tables, SOURCE)


def test_a_later_format_is_refused_by_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path)
    monkeypatch.setattr(state_format, "DESCRIPTION", "Tandem state format 4")
    monkeypatch.setattr(state_format, "FORMAT", 4)
    with pytest.raises(state_format.OtherStateFormat, match="has format 3, and this version of Tandem needs format 4"):
        journal.Journal(world.tables, world.tables.control("releases"), pa.schema([])).read()


def test_every_table_carries_the_format(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.append(0, hit("/", 1))
    world.trigger()
    logs = {path.parent for path in Path(world.tables.root).rglob("_delta_log")}
    assert logs
    for table in logs:
        handle = delta_tables.open_table(world.tables, str(table))
        assert handle is not None
        assert handle.metadata().description == state_format.DESCRIPTION, table
