"""A project that was begun from a file, a topic or a schema, and what it makes of the records that were read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tandem.cli.project.try_view import Trial


@dataclass(frozen=True)
class ProjectForFile:
    """The files of a project by name, the names of its source and view, and what the view makes of the file.

    `events` is that of the files that holds sampled records; None without one.
    """

    files: Mapping[str, bytes]
    source: str
    view: str
    tried: Trial
    events: str | None = None

    def to_json(self) -> dict[str, Any]:
        """What was tried, as a document."""
        return {
            "source": self.source,
            "view": self.view,
            "records": self.tried.records,
            "events": self.tried.events,
            "duplicates": self.tried.duplicates,
            "quarantined": self.tried.rejects.reasons,
        }

    def summary(self) -> str:
        """What was tried, for a person."""
        if not self.tried.records:
            whence = "from the schema alone; the comments in definitions.py name each guess"
            return f"view {self.view} of source {self.source}: {whence}"
        copies = f", {self.tried.duplicates} duplicates" if self.tried.duplicates else ""
        return (
            f"view {self.view} of source {self.source}: of {self.tried.records} rows {self.tried.events} are events{copies}, "
            f"{self.tried.rejects.total} go to quarantine; the comments in definitions.py name each guess"
        )
