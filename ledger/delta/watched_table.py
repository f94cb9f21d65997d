"""A cached value of a table that is polled: for an unchanged local table, a poll costs two calls to the file system."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from deltalake import DeltaTable

from tandem.infra.storage.resolve import storage_at
from tandem.infra.storage.storage import Head, Storage
from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables

T = TypeVar("T")
POLL_REQUESTS: Final = 2
"""How many requests a poll of an unchanged table sends to an object store."""
SELDOM_S: Final = 5.0
"""Seconds between two polls of an object store while all of the log is counted: only a publication can be new."""


@dataclass
class Watched(Generic[T]):
    """A value that `make` computes from the table at `address`, again only after a change. The table need not exist yet."""

    tables: Tables
    address: str
    make: Callable[[DeltaTable | None], T]
    _files: Storage = field(init=False, repr=False)
    _handle: DeltaTable | None = field(default=None, init=False, repr=False)
    _newest: Head | None = field(default=None, init=False, repr=False)
    _made: tuple[DeltaTable, int, T] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self._files = storage_at(self.address, self.tables.options)

    def stands_at(self, handle: DeltaTable | None) -> None:
        """Continue with a handle that is at the table's newest version, as after a commit through it."""
        self._handle = handle
        self._newest = None if handle is None else self._entry(handle.version())

    def read(self) -> T:
        """The value for the table's newest version, or for None if there is no table; the same object if nothing changed.

        Raises Unreadable, and what `make` raises.
        """
        handle = self._look()
        if handle is None:
            return self.make(None)
        if self._made is None or self._made[0] is not handle or self._made[1] != handle.version():
            self._made = handle, handle.version(), self.make(handle)
        return self._made[2]

    def _look(self) -> DeltaTable | None:
        """The table: the same handle at the same version if nothing changed, a new handle if another table replaced it."""
        handle = self._handle
        if handle is None:
            handle = delta_tables.open_table(self.tables, self.address)
        else:
            # The entry of a version is written after that of the version before, and expires after it.
            more, entry = self._entry(handle.version() + 1) is not None, self._entry(handle.version())
            if entry != self._newest:
                handle = delta_tables.open_table(self.tables, self.address)
            elif more or entry is None:
                handle = delta_tables.refresh(handle)
            else:
                return handle
        self.stands_at(handle)
        return handle

    def _entry(self, version: int) -> Head | None:
        """The entry of a version, whose tag differs if another file has replaced it; None if it is missing or cannot be read."""
        try:
            return self._files.head(f"_delta_log/{version:020}.json")
        except OSError:
            return None
