"""The location of a table's files, which a task on any machine can open: no Spark, no handle, nothing that does not pickle."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from tandem.infra.storage.resolve import storage_at
from tandem.infra.storage.storage import Storage
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.errors import unreadable


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


def opened(place: Location, path: str, *, verified: bool = False) -> pq.ParquetFile:
    """The open file; `verified` checks its pages against their checksums. Raises Unreadable if it is missing or torn."""
    try:
        return pq.ParquetFile(place.storage().open(path), page_checksum_verification=verified)
    except (OSError, pa.ArrowException) as error:
        unreadable(f"{place.address}: {path}", error)
