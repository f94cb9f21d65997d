"""Small append-only control tables: numbered rows, each derived from those before it.

A row's number is one more than the newest's, and is put only if absent: the row is derived from the rows that a handle read, and
committed on the condition that nothing was committed in between; else it is derived again. So two processes never write the same
number, and a row's statements about its predecessors hold.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, Final, TypeVar
from uuid import uuid4

import pyarrow as pa
from deltalake import DeltaTable

from tandem.infra import clock
from tandem.ledger.delta import delta_tables, retries
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.errors import Conflict, Unwritable
from tandem.ledger.delta.watched_table import Watched

T = TypeVar("T")

Row = Mapping[str, Any]
"""One row by column name."""

_NUMBERED: Final = {"delta.dataSkippingStatsColumns": "number"}
_ATTEMPTS: Final = 100
_FILES: Final = 64
"""More files than this are merged into one, because a reader opens each."""


@dataclass(frozen=True)
class JournalSnapshot:
    """A journal at one version; `handle` is None while the table does not exist."""

    handle: DeltaTable | None

    def newest(self) -> Row | None:
        """The row with the highest number, read from one file; None if the journal is empty."""
        if self.handle is None:
            return None
        actions = pa.table(self.handle.get_add_actions(flatten=True))
        if not actions.num_rows:
            return None
        numbers = actions["max.number"].to_pylist()
        path = actions["path"][numbers.index(max(numbers))].as_py()
        rows = delta_tables.read_file(self.handle, path)
        # A slice, since to take a row loads pyarrow.compute.
        last: Row = rows.slice(max(range(rows.num_rows), key=rows["number"].to_pylist().__getitem__), 1).to_pylist()[0]
        return last

    def rows(self) -> list[Row]:
        """All rows in order of their numbers."""
        if self.handle is None:
            return []
        return sorted((row for path in delta_tables.files(self.handle) for row in _rows(self.handle, path)), key=_number)


@dataclass
class Journal:
    """The control table at `address`: `number` (int64, from 1), `id` (unique, so that a writer knows its own row), `columns`.

    The table is opened by the first call and stays open: later calls poll for new rows. Threads may share a journal.
    """

    tables: Tables
    address: str
    columns: pa.Schema
    _table: Watched[JournalSnapshot] = field(init=False, repr=False)
    _derived_from: JournalSnapshot | None = field(default=None, init=False, repr=False)
    _lock: RLock = field(default_factory=RLock, init=False, repr=False)

    def __post_init__(self) -> None:
        self._table = Watched(self.tables, self.address, JournalSnapshot)

    @property
    def schema(self) -> pa.Schema:
        """The table's schema."""
        return pa.schema([("number", pa.int64()), ("id", pa.string()), *self.columns])

    def read(self) -> JournalSnapshot:
        """The journal now, the same object if nothing has changed; inside `derive` what it derives from. Raises Unreadable."""
        with self._lock:
            return self._derived_from or self._table.read()

    def watched(self, make: Callable[[JournalSnapshot], T]) -> Watched[T]:
        """A cached value that `make` computes from the journal, again only when it has changed."""
        return Watched(self.tables, self.address, lambda handle: make(JournalSnapshot(handle)))

    def add(self, derive: Callable[[JournalSnapshot], Row | None]) -> Row | None:
        """Add the row that `derive` returns for the stored rows, without number and id; nothing if it returns None.

        `derive` is called again if another row was added first, and may raise to give up. Returns the row as stored. Raises
        Unreadable, Unwritable; Fenced if this process has the lease of the journal's rows, and a later holder has claimed it.
        """
        lease = self.tables.lease(self.address)
        with self._lock:
            for attempt in range(_ATTEMPTS):
                handle = self._opened()
                self._derived_from = snapshot = JournalSnapshot(handle)
                try:
                    newest, derived = snapshot.newest(), derive(snapshot)
                finally:
                    self._derived_from = None
                if derived is None:
                    return None
                row = {"number": _number(newest) + 1 if newest else 1, "id": uuid4().hex, **derived}
                try:
                    delta_tables.conditional_append(handle, pa.Table.from_pylist([row], self.schema), lease=lease)
                except (Conflict, Unwritable) as error:
                    handle = delta_tables.reopen(handle)
                    self._table.stands_at(handle)
                    if _landed(JournalSnapshot(handle), row):
                        return row
                    if isinstance(error, Unwritable):
                        raise
                    time.sleep(0.001 * attempt)  # with many writers at once, the writer that lost most often waits longest
                else:
                    self._tidy(handle)
                    self._table.stands_at(handle)
                    return row
        raise Unwritable(f"cannot write to table {self.address}: other writers committed first {_ATTEMPTS} times")

    def claim(self) -> None:
        """Fence the rows of earlier holders of the lease, before reading what is decided on. Raises Fenced, Unwritable."""
        lease = self.tables.lease(self.address)
        if lease is not None:
            with self._lock:
                self._table.stands_at(retries.claim(self._opened(), lease))

    def _opened(self) -> DeltaTable:
        """The table at its newest version, created if it does not exist."""
        handle = self._table.read().handle
        if handle is None:
            handle = delta_tables.create_table(self.tables, self.address, self.schema, _NUMBERED)
            self._table.stands_at(handle)
        return handle

    def _tidy(self, handle: DeltaTable) -> None:
        """Merge many files into one. The row has landed even if this fails; the next row's writer tries again."""
        paths = delta_tables.files(handle)
        if len(paths) <= _FILES:
            return
        with suppress(Conflict, Unwritable):
            rows = pa.concat_tables(delta_tables.read_file(handle, path) for path in paths).cast(self.schema)
            delta_tables.conditional_replace(handle, paths, [rows], at=clock.now(), bounds="number")


def _landed(snapshot: JournalSnapshot, row: Row) -> bool:
    """Whether this row landed: the error does not tell, and another writer may have used its number for an equal row."""
    return any(stored["id"] == row["id"] for stored in snapshot.rows())


def _rows(handle: DeltaTable, path: str) -> list[dict[str, Any]]:
    return delta_tables.read_file(handle, path).to_pylist()  # type: ignore[no-any-return]  # pyarrow has no types


def _number(row: Row) -> int:
    return int(row["number"])
