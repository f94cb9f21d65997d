"""The hash of each event's identity, which files of an events table have beside the table's columns.

Two events are duplicates only if their hashes are equal (`batch/fold/duplicates.py`). The task that decodes events has their
identities at hand, so it writes the hashes once: a search then reads eight bytes an event, and no identity.

The table's schema lacks the column, so readers of the table do not see it, and files without it stay valid: those written with
another version of DuckDB, or before the source's identity was changed. Of these files a job of Spark reads the identity.
"""

import hashlib
from dataclasses import dataclass
from typing import Final

import duckdb
import msgspec
import pyarrow as pa

from tandem.ledger.delta.location import Location, opened
from tandem.ledger.files.scan import stored
from tandem.ledger.files.splits import Slice
from tandem.views.kernel.deduplicate import identity_columns
from tandem.views.source.source import Source
from tandem.views.sql.engine import query, quoted

_PREFIX: Final = "_identity_hash_"
_EVENTS: Final = "hashed_events"


@dataclass(frozen=True)
class IdentityHash:
    """The column with the hash of these columns: a `tandem.ledger.files.scan.DerivedColumn`."""

    columns: tuple[str, ...]

    @classmethod
    def of_source(cls, source: Source) -> "IdentityHash | None":
        """The column with the hash of `identity_columns`; None for a source without identity."""
        columns = identity_columns(source)
        return cls(tuple(columns)) if columns else None

    @property
    def name(self) -> str:
        """The name, another one for other columns and for each version of DuckDB, whose next version may hash differently."""
        meaning = msgspec.json.encode([duckdb.__version__, self.columns])
        return _PREFIX + hashlib.sha256(meaning).hexdigest()[:16]

    @property
    def field(self) -> pa.Field:
        """The column's name and type in files."""
        return pa.field(self.name, pa.uint64())

    def made(self, events: pa.Table) -> pa.ChunkedArray:
        """The hash of each event; equal values have equal hashes on every machine."""
        names = ", ".join(quoted(name) for name in self.columns)
        return query(f"SELECT hash({names}) AS h FROM {_EVENTS}", {_EVENTS: events})["h"]

    def added(self, events: pa.Table) -> pa.Table:
        """The events with the column."""
        return events.append_column(self.field, self.made(events))


def kept_beside(place: Location, part: Slice) -> list[pa.Field]:
    """The columns of hashes that all files of a slice have: whoever rewrites these files can keep them. Raises Unreadable."""
    if not part.files:
        return []
    with opened(place, part.files[0]) as file:
        found = [field for field in file.schema_arrow if field.name.startswith(_PREFIX)]
    return [field for field in found if stored(place, part, field.name)]
