"""Files become part of a table once, whatever the client says of a commit that landed."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from tandem.batch.runtime.delta_commits import add_files, make_table
from tandem.batch.runtime.parquet_writer import TableFile, Written
from tandem.ledger.delta import delta_tables, retries
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.errors import Conflict, Unwritable, Vanished
from tandem.ledger.delta.location import Location
from tandem.ledger.delta.one_writer.refuse_other_writers import Fenced, Unclaimed

SCHEMA = pa.schema([("n", pa.int64())])
TOLD = {"a conflict": CommitFailedError("newer version"), "an error": OSError("connection reset")}
EXPECTED = {"a conflict": Conflict, "an error": Unwritable}


@pytest.fixture
def table(tmp_path: Path) -> tuple[DeltaTable, Written]:
    tables = Tables(str(tmp_path))
    handle = make_table(tables, tables.view("v", "f00d"), SCHEMA)
    with TableFile(Location.of(tables, tables.view("v", "f00d")), SCHEMA) as file:
        file.write(pa.table({"n": [1, 2]}))
    assert file.written is not None
    return handle, file.written


def telling(patch: pytest.MonkeyPatch, error: Exception, *, lands: bool) -> None:
    """Commits end in this error, and land or not."""
    real: Any = DeltaTable.create_write_transaction

    def commit(handle: DeltaTable, *given: Any, **named: Any) -> None:
        if lands:
            real(delta_tables.reopen(handle), *given, **named)
        raise error

    patch.setattr(DeltaTable, "create_write_transaction", commit)


@pytest.mark.parametrize("told", TOLD)
@pytest.mark.parametrize("transaction", [None, ("app", 1)], ids=["without a transaction", "with a transaction"])
def test_a_commit_that_landed_is_no_error(
    table: tuple[DeltaTable, Written], monkeypatch: pytest.MonkeyPatch, told: str, transaction: tuple[str, int] | None
) -> None:
    handle, file = table
    with monkeypatch.context() as patch:
        telling(patch, TOLD[told], lands=True)
        add_files(handle, [file], transaction=transaction)
    assert list(delta_tables.files(delta_tables.reopen(handle))) == [file.path]


@pytest.mark.parametrize("told", TOLD)
@pytest.mark.parametrize("transaction", [None, ("app", 1)], ids=["without a transaction", "with a transaction"])
def test_a_commit_that_did_not_land_is_one(
    table: tuple[DeltaTable, Written], monkeypatch: pytest.MonkeyPatch, told: str, transaction: tuple[str, int] | None
) -> None:
    handle, file = table
    with monkeypatch.context() as patch:
        telling(patch, TOLD[told], lands=False)
        with pytest.raises(EXPECTED[told]):
            add_files(handle, [file], transaction=transaction)
    assert delta_tables.files(delta_tables.reopen(handle)) == {}
    add_files(handle, [file], transaction=transaction)
    assert list(delta_tables.files(delta_tables.reopen(handle))) == [file.path]


@dataclass(frozen=True)
class Held:
    """A lease that its process believes in for ever."""

    token: int

    def check(self) -> None:
        """It lasts."""

    def now_held(self) -> str:
        return "tandem archive"


def test_a_fenced_run_takes_no_commit_of_another_for_its_own(table: tuple[DeltaTable, Written]) -> None:
    """Of an archive run's number the next holder may have committed other rows."""
    handle, file = table
    stale, fresh = Held(1), Held(2)
    handle = retries.claim(handle, stale)
    newest = retries.claim(delta_tables.reopen(handle), fresh)
    add_files(newest, [file], lease=fresh, transaction=("app", 1))
    for one in (handle, delta_tables.reopen(handle)):
        with pytest.raises(Fenced, match="is written by tandem archive, with token 2"):
            add_files(one, [file], lease=stale, transaction=("app", 1))


def test_a_table_that_is_not_claimed_is_not_written(table: tuple[DeltaTable, Written]) -> None:
    handle, file = table
    with pytest.raises(Unclaimed, match="by a process that has not claimed it"):
        add_files(handle, [file], lease=Held(1))


def test_a_file_that_was_deleted_is_not_committed(table: tuple[DeltaTable, Written]) -> None:
    handle, file = table
    delta_tables.storage(handle).delete([file.path])
    with pytest.raises(Vanished, match="was deleted or replaced before its commit; nothing was committed"):
        add_files(handle, [file])
    assert delta_tables.files(delta_tables.reopen(handle)) == {}
