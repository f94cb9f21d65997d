"""The documents of releases: their definitions as data, for readers that import no code of a project (tandem.views.document)."""

from typing import Final

import pyarrow as pa

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.journal import Journal, Row, Snapshot

SCHEMA: Final = pa.schema([("release", pa.int64()), ("document", pa.binary())])


def record(tables: Tables, release: int, document: bytes) -> None:
    """Store the document of a release, unless the newest stored one is the same."""

    def row(snapshot: Snapshot) -> Row | None:
        return None if _newest(snapshot, release) == document else {"release": release, "document": document}

    _journal(tables).add(row)


def of(tables: Tables, release: int) -> bytes:
    """The newest document of a release; empty if none is stored. Raises Unreadable."""
    return _newest(_journal(tables).read(), release)


def _newest(snapshot: Snapshot, release: int) -> bytes:
    found: list[bytes] = [row["document"] for row in snapshot.rows() if row["release"] == release]
    return found[-1] if found else b""


def _journal(tables: Tables) -> Journal:
    return Journal(tables, tables.control("documents"), SCHEMA)
