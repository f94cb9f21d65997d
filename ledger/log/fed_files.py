"""The files of followed folders whose records are in a topic: each content once, whatever names it has.

A row is added once all records of a file are committed to the topic, or will never be.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import pyarrow as pa

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.journal import Journal

SCHEMA: Final = pa.schema(
    [
        ("source", pa.string()),
        ("topic", pa.string()),
        ("name", pa.string()),
        ("size", pa.int64()),
        ("modified", pa.int64()),
        ("sha256", pa.string()),
        ("records", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)


@dataclass(frozen=True)
class FedFile:
    """A file as it was sent.

    Args:
        name: its path in the folder.
        size: its bytes.
        modified: when it was changed last, in nanoseconds since 1970.
        sha256: of these bytes, in hexadecimal digits.
        records: how many records of it are in the topic.
    """

    name: str
    size: int
    modified: int
    sha256: str
    records: int


@dataclass
class FedFiles:
    """The journal of the files that a topic has of a source; `topic` is its id, so a topic that was created again has none."""

    tables: Tables
    source: str
    topic: str
    _journal: Journal = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._journal = Journal(self.tables, self.tables.control("fed_files"), SCHEMA)

    def every(self) -> list[FedFile]:
        """All files, in the order in which they were sent. Raises Unreadable."""
        return [
            FedFile(row["name"], row["size"], row["modified"], row["sha256"], row["records"])
            for row in self._journal.read().rows()
            if (row["source"], row["topic"]) == (self.source, self.topic)
        ]

    def add(self, file: FedFile, *, at: datetime) -> None:
        """Record that a file was sent. Raises Unwritable."""
        self._journal.add(lambda _: {"source": self.source, "topic": self.topic, **vars(file), "at": at})
