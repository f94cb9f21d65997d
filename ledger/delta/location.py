"""The location of a table's files, which a task on any machine can open: no Spark, no handle, nothing that does not pickle."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlparse

from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSystem, LocalFileSystem, PyFileSystem, SubTreeFileSystem

from ledger.delta.addresses import Tables


@dataclass(frozen=True)
class Location:
    """A folder or an object-store URI; `options` are delta-rs storage options. Files in it are named relative to it."""

    address: str
    options: Mapping[str, str] = field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, tables: Tables, address: str) -> "Location":
        """The location of a table's files."""
        return cls(address, dict(tables.options))

    @property
    def local(self) -> bool:
        """Whether this is a folder, not an object store."""
        return len(urlparse(self.address).scheme) < 2 or self.address.startswith("file:")

    @property
    def folder(self) -> str:
        """The folder's path; only for a local location."""
        return unquote(urlparse(self.address).path) if self.address.startswith("file:") else self.address

    def file_system(self) -> FileSystem:
        """A file system rooted here."""
        if self.local:
            return SubTreeFileSystem(self.folder, LocalFileSystem(use_mmap=True))
        return PyFileSystem(DeltaStorageHandler(self.address, options=dict(self.options)))
