"""Files become part of a table once, whatever the client says of a commit that landed."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from batch.runtime.delta_commits import add_files, make_table
from batch.runtime.parquet_writer import TableFile, Written
from ledger.delta import delta_tables
from ledger.delta.addresses import Tables
from ledger.delta.location import Location

SCHEMA = pa.schema([("n", pa.int64())])
TOLD = {"a conflict": CommitFailedError("newer version"), "an error": OSError("connection reset")}
EXPECTED = {"a conflict": delta_tables.Conflict, "an error": delta_tables.Unwritable}


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
