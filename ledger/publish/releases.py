"""Releases: numbered, stored copies of a project's definitions.

Archive, recompute, speed and serve run the stored files of the published release, never the working tree.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import pyarrow as pa

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.journal import Journal, JournalSnapshot, Row
from tandem.views.errors import TandemError


class NoRelease(TandemError, code="release-unknown"):
    """No release has this number."""


@dataclass(frozen=True)
class Release:
    """The project's `files` by path, the decoder fingerprints of its `sources` and the fingerprints of its `views` by name.

    `revision` names the files in version control, if it was known.
    """

    number: int
    at: datetime
    by: str
    sources: Mapping[str, str] = field(hash=False)
    views: Mapping[str, str] = field(hash=False)
    files: Mapping[str, bytes] = field(hash=False, repr=False)
    revision: str = ""


SCHEMA: Final = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        ("by", pa.string()),
        ("sources", pa.string()),
        ("views", pa.string()),
        ("files", pa.list_(pa.struct([("path", pa.string()), ("content", pa.binary())]))),
        ("revision", pa.string()),
    ]
)
"""`sources` and `views` are JSON objects of name to fingerprint."""


@dataclass
class Releases:
    """The stored releases of a project. Their journal is opened once: a read polls for what is new."""

    tables: Tables
    journal: Journal = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.journal = Journal(self.tables, self.tables.control("releases"), SCHEMA)

    def store(
        self,
        files: Mapping[str, bytes],
        *,
        sources: Mapping[str, str],
        views: Mapping[str, str],
        by: str,
        at: datetime,
        revision: str = "",
    ) -> Release:
        """The release of these files: the newest if its files and fingerprints are the same, else a new one, by put-if-absent.

        Equal files have different fingerprints under another version of Tandem or of a package that their code reaches.
        """
        same: list[Release] = []

        def row(snapshot: JournalSnapshot) -> Row | None:
            row = snapshot.newest()
            newest = None if row is None else _from_row(row)
            if newest is not None and (newest.files, newest.sources, newest.views) == (files, sources, views):
                same.append(newest)
                return None
            return _to_row(Release(0, at, by, sources, views, files, revision))

        stored = self.journal.add(row)
        return same[-1] if stored is None else _from_row(stored)

    def add(self, release: Release) -> bool:
        """Store a release under its number; False if that is not the next number. Raises Unreadable, Unwritable."""

        def row(snapshot: JournalSnapshot) -> Row | None:
            newest = snapshot.newest()
            return _to_row(release) if release.number == (0 if newest is None else newest["number"]) + 1 else None

        return self.journal.add(row) is not None

    def load(self, number: int) -> Release:
        """A stored release. Raises NoRelease, Unreadable."""
        releases = self.every()
        for release in releases:
            if release.number == number:
                return release
        stored = ", ".join(str(release.number) for release in releases) or "none"
        raise NoRelease(f"release {number} is not stored in {self.tables.root}; stored: {stored}")

    def every(self) -> list[Release]:
        """All stored releases, oldest first."""
        return [_from_row(row) for row in self.journal.read().rows()]


def _to_row(release: Release) -> Row:
    return {
        "at": release.at,
        "by": release.by,
        "sources": json.dumps(dict(release.sources)),
        "views": json.dumps(dict(release.views)),
        "files": [{"path": path, "content": release.files[path]} for path in sorted(release.files)],
        "revision": release.revision,
    }


def _from_row(row: Row) -> Release:
    return Release(
        number=row["number"],
        at=row["at"],
        by=row["by"],
        sources=json.loads(row["sources"]),
        views=json.loads(row["views"]),
        files={file["path"]: file["content"] for file in row["files"]},
        revision=row["revision"],
    )
