"""Small append-only control tables: numbered rows, each derived from those before it.

A row's number is one more than the newest's and is put only if absent: the row is derived from what a handle saw and
committed on the condition that nothing came in between, else derived anew. So two processes never write one number, and
what a row promises about its predecessors holds.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable

from ledger import delta
from ledger.tables import Tables

Row = Mapping[str, Any]
"""One row by column name."""

_NUMBERED: Final = {"delta.dataSkippingStatsColumns": "number"}
_ATTEMPTS: Final = 100


@dataclass(frozen=True)
class Snapshot:
    """A journal as one handle saw it; `handle` is None while there is no table."""

    handle: DeltaTable | None

    def newest(self) -> Row | None:
        """The row with the highest number, read from one file; None of an empty journal."""
        if self.handle is None:
            return None
        actions = pa.table(self.handle.get_add_actions(flatten=True))
        if not actions.num_rows:
            return None
        numbers = actions["max.number"].to_pylist()
        path = actions["path"][numbers.index(max(numbers))].as_py()
        return max(_rows(self.handle, path), key=_number)

    def rows(self) -> list[Row]:
        """All rows in order of their numbers."""
        if self.handle is None:
            return []
        return sorted((row for path in delta.files(self.handle) for row in _rows(self.handle, path)), key=_number)


@dataclass(frozen=True)
class Journal:
    """The control table at `address`. `schema` is that of its rows; its first column is `number`, int64."""

    tables: Tables
    address: str
    schema: pa.Schema

    def read(self) -> Snapshot:
        """The journal now. Raises Unreadable."""
        return Snapshot(delta.open_table(self.tables, self.address))

    def add(self, derive: Callable[[Snapshot], Row | None]) -> Row | None:
        """Add the row that `derive` makes of what is there, without its number; nothing if it makes None.

        `derive` is called again whenever another row came first, and may raise to give up. Returns the row as stored.
        Raises Unreadable, Unwritable.
        """
        handle = delta.create_table(self.tables, self.address, self.schema, _NUMBERED)
        for attempt in range(_ATTEMPTS):
            snapshot = Snapshot(handle)
            newest = snapshot.newest()
            derived = derive(snapshot)
            if derived is None:
                return None
            row = {"number": _number(newest) + 1 if newest else 1, **derived}
            try:
                delta.conditional_append(handle, pa.Table.from_pylist([row], self.schema))
            except (delta.Conflict, delta.Unwritable) as error:
                handle = delta.reopen(handle)
                if _landed(Snapshot(handle), row):
                    return row
                if isinstance(error, delta.Unwritable):
                    raise
                time.sleep(0.001 * attempt)  # with many writers at once, the one that lost most often waits longest
            else:
                return row
        raise delta.Unwritable(f"cannot write to table {self.address}: other writers came first {_ATTEMPTS} times")


def _landed(snapshot: Snapshot, row: Row) -> bool:
    """Whether the very row is there: an error does not say, and another writer may have used its number."""
    return any(stored == row for stored in snapshot.rows() if stored["number"] == row["number"])


def _rows(handle: DeltaTable, path: str) -> list[dict[str, Any]]:
    return delta.read_file(handle, path).to_pylist()  # type: ignore[no-any-return]  # pyarrow has no types


def _number(row: Row) -> int:
    return int(row["number"])
