"""A table that is looked at again and again: of a local one without news two questions to the file system tell so."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from deltalake import DeltaTable

from ledger.delta import delta_tables
from ledger.delta.addresses import Tables

T = TypeVar("T")


class _Entry(NamedTuple):
    """What tells one file from another that takes its place later."""

    inode: int
    written_ns: int


@dataclass
class Watched(Generic[T]):
    """What is made of the table at `address`, which need not be there yet: built again only where it has something new."""

    tables: Tables
    address: str
    make: Callable[[DeltaTable | None], T]
    _handle: DeltaTable | None = field(default=None, init=False, repr=False)
    _newest: _Entry | None = field(default=None, init=False, repr=False)
    _made: tuple[DeltaTable, int, T] | None = field(default=None, init=False, repr=False)

    def read(self) -> T:
        """What is made of the table at its newest version, or of None if there is none; without news the very same.

        Raises Unreadable, and what `make` raises.
        """
        handle = self._look()
        if handle is None:
            return self.make(None)
        if self._made is None or self._made[0] is not handle or self._made[1] != handle.version():
            self._made = handle, handle.version(), self.make(handle)
        return self._made[2]

    def _look(self) -> DeltaTable | None:
        """The table; without news the same handle, at the same version, and a new one of a table in the place of another."""
        handle = self._handle
        if handle is None:
            handle = delta_tables.open_table(self.tables, self.address)
        else:
            # A version's entry is written after that of the one before, and expires after it.
            more, entry = self._entry(handle.version() + 1) is not None, self._entry(handle.version())
            if entry != self._newest:
                handle = delta_tables.open_table(self.tables, self.address)
            elif more or entry is None:
                handle = delta_tables.refresh(handle)
            else:
                return handle
        self._handle = handle
        self._newest = None if handle is None else self._entry(handle.version())
        return handle

    def _entry(self, version: int) -> _Entry | None:
        """None also where it cannot be asked for, as of a table that is not on this machine."""
        try:
            found = Path(self.address, "_delta_log", f"{version:020}.json").stat()
        except OSError:
            return None
        return _Entry(found.st_ino, found.st_mtime_ns)
