"""The state folder must be usable, and the disk must have room for what the next runs write."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tandem.cli.doctor.disk import FULL, SHORT
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.positions import LOG_START
from tests.cli.doctor.looked import fine, wrong
from tests.ledger.tiny import AT, at


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tandem.toml").touch()
    return tmp_path


def sparse(path: Path, size: int) -> None:
    """A file of a size that takes no room."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)


def shown(size: float) -> Any:
    """Gigabytes about as many as these bytes; sizes have at least one digit after the point, and the disk is used meanwhile."""
    return pytest.approx(size / 1e9, rel=0.01, abs=0.06)


def test_a_state_folder_that_cannot_be_created_is_a_finding(folder: Path) -> None:
    state = folder / ".tandem"
    assert fine(folder, "state") == f"{state}, not created yet"
    state.mkdir()
    assert fine(folder, "state") == str(state)
    assert "its path contains a '%'" in wrong(folder, "state", environ={"TANDEM_STATE": str(folder / "50%25")}).what
    state.rmdir()
    state.write_text("a file")
    assert wrong(folder, "state").what == f"cannot create {state}: {state} is not a folder"


def test_space_is_needed_for_rewriting_the_tables(folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    assert " free; " in fine(folder, "disk")
    sparse(folder / ".tandem/broker/data/segment", 2 * free)  # what is never written anew
    sparse(folder / ".tandem/tables/views/sales/f00d/part.parquet", free // 2)
    fine(folder, "disk")
    sparse(folder / ".tandem/tables/log/sales/archive/part.parquet", free)
    told = wrong(folder, "disk", SHORT).what
    assert float(told.split("log and views ")[1].split(" GB")[0]) == shown(1.5 * free)


def test_space_is_needed_for_an_archive_run_like_the_last(folder: Path) -> None:
    tables, free = Tables(str(folder / ".tandem" / "tables")), shutil.disk_usage(folder).free
    sparse(folder / ".tandem/tables/log/numbers/archive/part.parquet", 4 * free)
    ledger = ArchiveLedger(tables, "numbers")
    ledger.intend(start=LOG_START, end=at(90, 0), by="test", at=AT)
    ledger.intend(start=at(90, 0), end=at(100, 0), by="test", at=AT)
    told = wrong(folder, "disk", SHORT).what  # the last run had a tenth of the offsets
    assert float(told.split("wrote about ")[1].split(" GB")[0]) == shown(0.4 * free)
    ledger.intend(start=at(100, 0), end=at(100, 100), by="test", at=AT)
    wrong(folder, "disk", FULL)


def test_tables_in_another_folder_are_checked_there(folder: Path) -> None:
    root, free = folder / "elsewhere", shutil.disk_usage(folder).free
    environ = {"TANDEM_STORAGE_ROOT": str(root)}
    assert fine(folder, "state", environ=environ) == f"{folder / '.tandem'}, not created yet; tables in {root}, not created yet"
    sparse(root / "log/sales/archive/part.parquet", 2 * free)
    assert wrong(folder, "disk", SHORT, environ=environ).what.split("; ")[1].startswith(f"{root} uses ")
    (root / "log/sales/archive/part.parquet").unlink()
    told = fine(folder, "disk", environ=environ)
    assert f"{folder / '.tandem'} uses 0.0 GB; " in told
    assert f"{root} uses 0.0 GB, of which log and views 0.0 GB" in told


def test_a_damaged_journal_is_a_finding(folder: Path) -> None:
    tables = Tables(str(folder / ".tandem" / "tables"))
    ArchiveLedger(tables, "numbers").intend(start=LOG_START, end=at(1, 1), by="test", at=AT)
    sparse(folder / ".tandem/tables/log/numbers/archive/part.parquet", 1)
    fine(folder, "disk")
    for file in Path(tables.control("runs", "numbers")).glob("*.parquet"):
        file.unlink()
    assert "runs/numbers" in wrong(folder, "disk").what
