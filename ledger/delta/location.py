"""The location of a table's files, which a task on any machine can open: no Spark, no handle, nothing that does not pickle."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tandem.infra.storage.resolve import storage_at
from tandem.infra.storage.storage import Storage
from tandem.ledger.delta.addresses import Tables


@dataclass(frozen=True)
class Location:
    """A folder's path, or a table's address; `options` are delta-rs storage options. Files in it are named relative to it."""

    address: str
    options: Mapping[str, str] = field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, tables: Tables, address: str) -> "Location":
        """The location of a table's files."""
        return cls(address, dict(tables.options))

    def storage(self) -> Storage:
        """The storage that is rooted here."""
        return storage_at(self.address, self.options)
