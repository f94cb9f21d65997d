"""The adoptions of a source: which files of which table became which offsets, recorded before any of their rows is visible.

The rows of a table are records of a topic of their own, ROWS, which comes before all topics of the broker in the log's order.
Those that have the offsets of their records are records of PLACED, at these offsets.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.journal import Journal
from tandem.ledger.log.positions import Position
from tandem.views.start import PLACED

ROWS: Final = "table-rows"
"""The topic id of rows of a table."""
TABLES: Final = {ROWS: "rows of a table", PLACED: "rows of a table by offset"}
"""The names of the topics of rows, which no topic of Kafka can have."""

SCHEMA: Final = pa.schema(
    [
        ("table", pa.string()),
        ("version", pa.string()),
        ("files", pa.string()),
        ("end_position", pa.string()),
        ("rows", pa.int64()),
        ("archive_files", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)


@dataclass(frozen=True)
class Adoption:
    """The rows of some files of a table, which end at `end` in ROWS or PLACED.

    Args:
        version: of a Delta table; empty for a folder.
        files: the size and the time of change of each file, by its path in the table.
        archive_files: the files of the archive that hold the rows, as JSON.
    """

    table: str
    version: str
    files: Mapping[str, str] = field(hash=False)
    end: Position
    rows: int
    archive_files: str
    at: datetime


@dataclass
class Adoptions:
    """The journal of a source's adoptions."""

    tables: Tables
    source: str

    def __post_init__(self) -> None:
        self._journal = Journal(self.tables, self.tables.control("adoptions", self.source), SCHEMA)

    def record(self, adoption: Adoption) -> None:
        """Add an adoption."""
        row = {
            "table": adoption.table,
            "version": adoption.version,
            "files": json.dumps(dict(adoption.files)),
            "end_position": json.dumps(adoption.end.to_json()),
            "rows": adoption.rows,
            "archive_files": adoption.archive_files,
            "at": adoption.at,
        }
        self._journal.add(lambda _: row)

    def every(self) -> list[Adoption]:
        """All adoptions in their order. Raises Unreadable."""
        return [_adoption(row) for row in self._journal.read().rows()]

    def pending(self, archived: Position) -> Adoption | None:
        """The newest adoption if the archive, which has reached `archived`, lacks its rows: its files are in no commit yet."""
        last = next(reversed(self.every()), None)
        return None if last is None or not last.rows or last.end.at_or_below(archived) else last


def _adoption(row: Mapping[str, Any]) -> Adoption:
    return Adoption(
        row["table"],
        row["version"],
        json.loads(row["files"]),
        Position.from_json(json.loads(row["end_position"])),
        row["rows"],
        row["archive_files"],
        row["at"],
    )
