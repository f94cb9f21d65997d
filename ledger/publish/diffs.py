"""Diffs: how the answers of a release differed from the live one's when it was built. Gates decide a promotion by them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.journal import Journal, Row

SCHEMA: Final = pa.schema(
    [("at", pa.timestamp("us", "UTC")), ("release", pa.int64()), ("against", pa.int64()), ("views", pa.string())]
)
"""`views` is JSON."""


@dataclass(frozen=True)
class ReleaseDiff:
    """The diff of every view that both releases have, as release_diff.to_json writes it, `unchanged` ones without figures."""

    at: datetime
    release: int
    against: int
    views: Mapping[str, Mapping[str, Any]] = field(hash=False)


@dataclass
class ReleaseDiffs:
    """The diffs of all releases. Their journal is opened once: a read polls for what is new."""

    tables: Tables
    journal: Journal = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.journal = Journal(self.tables, self.tables.control("diffs"), SCHEMA)

    def record(self, diff: ReleaseDiff) -> None:
        """Store a diff. Raises Unwritable."""
        row = {"at": diff.at, "release": diff.release, "against": diff.against, "views": json.dumps(diff.views)}
        self.journal.add(lambda _: row)

    def of_release(self, release: int) -> ReleaseDiff | None:
        """The newest diff of a release; None if it was never compared. Raises Unreadable."""
        return self.newest().get(release)

    def newest(self) -> dict[int, ReleaseDiff]:
        """The newest diff of every release that was compared, by its number. Raises Unreadable."""
        rows = {row["release"]: row for row in self.journal.read().rows()}
        return {release: _from_row(row) for release, row in rows.items()}


def _from_row(row: Row) -> ReleaseDiff:
    return ReleaseDiff(row["at"], row["release"], row["against"], json.loads(row["views"]))
