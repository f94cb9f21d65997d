"""An export outlives formats of the state: `export_of_format_1` was written by `tandem export --all` of commit 60b41f2."""

import json
from pathlib import Path

import pytest

from tandem.cli.__main__ import main
from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.archive_runs import ArchiveLedger

EXPORT = Path(__file__).with_name("export_of_format_1")
SOURCE = "orders"


def test_it_is_imported_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = tmp_path / "shop"
    assert main(["init", str(project)]) == 0
    capsys.readouterr()
    assert main(["import", str(EXPORT), "--project", str(project), "--json"]) == 0
    (imported,) = json.loads(capsys.readouterr().out)["sources"].values()
    assert (imported["new"], imported["records"]) == (True, 12)
    tables = Tables(str(project / ".tandem" / "tables"))
    handle = delta_tables.open_table(tables, tables.archive(SOURCE))
    assert handle is not None
    rows = handle.to_pyarrow_table().to_pylist()
    sent = (project / "orders.jsonl").read_bytes().splitlines()[:12]
    assert sorted(row["value"] for row in rows) == sorted(sent)
    assert ArchiveLedger(tables, SOURCE).archived()
