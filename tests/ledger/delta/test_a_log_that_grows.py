"""A listing of a log during writes may lack an entry; that is not damage, and the next listing has it."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.errors import Unreadable


@pytest.fixture
def table(tables: Tables) -> Path:
    """Where a table of one version is."""
    address = Path(tables.view("growing", "f"))
    append(address)
    return address


def append(table: Path) -> None:
    write_deltalake(str(table), pa.table({"n": [1]}), mode="append")


class Lacking:
    """Calls of a function to which, so many times, a log seems to lack its second entry of four."""

    def __init__(self, table: Path, look: Callable[..., object], times: int) -> None:
        self.entry, self.look, self.times = table / "_delta_log" / f"{1:020}.json", look, times

    def __call__(self, *given: object, **named: object) -> object:
        if not self.times:
            return self.look(*given, **named)
        self.times -= 1
        away = self.entry.rename(self.entry.with_suffix(".away"))
        try:
            with pytest.raises(Exception, match="gap"):
                self.look(*given, **named)
            return self.look(*given, **named)
        finally:
            away.rename(self.entry)


def opened(tables: Tables, table: Path) -> DeltaTable:
    handle = delta_tables.open_table(tables, str(table))
    assert handle is not None
    return handle


@pytest.mark.parametrize("way", ["refresh", "open", "reopen"])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_listing_that_lacks_an_entry_once_is_not_damage(
    tables: Tables, table: Path, monkeypatch: pytest.MonkeyPatch, way: str, times: int
) -> None:
    handle = opened(tables, table)
    for _ in range(3):
        append(table)

    def looked() -> DeltaTable:
        if way == "open":
            return opened(tables, table)
        return delta_tables.refresh(handle) if way == "refresh" else delta_tables.reopen(handle)

    if way == "refresh":
        monkeypatch.setattr(DeltaTable, "update_incremental", Lacking(table, handle.update_incremental, times))
    else:
        monkeypatch.setattr(delta_tables, "DeltaTable", Lacking(table, DeltaTable, times))
    if times < 3:
        assert looked().version() == 3
    else:
        with pytest.raises(Unreadable, match=r"growing.*gap"):
            looked()
        assert looked().version() == 3
