"""The files of earlier definitions among those of a release: some of its views keep them for windows that begin before a time.

`earlier.json` has, by view, the times and the numbers of the definitions, the oldest first. The files of definition N are below
`earlier/N/`. All else are the files of the newest definitions.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from tandem.views.instant import utc_text

EARLIER_FILE: Final = "earlier.json"
_FOLDER: Final = "earlier/"

Files = Mapping[str, bytes]


@dataclass(frozen=True)
class EarlierFiles:
    """The files of the `newest` definitions; by view the files of its earlier ones, each with the time until which it counts."""

    newest: Files
    views: Mapping[str, Sequence[tuple[Files, datetime]]] = field(default_factory=dict)

    @property
    def files(self) -> dict[str, bytes]:
        """All of them as the files of one release."""
        if not self.views:
            return dict(self.newest)
        stored: list[Files] = []
        for each in self.views.values():
            stored += [files for files, _ in each if files not in stored]
        times = {
            name: [{"until": utc_text(until), "definitions": stored.index(files)} for files, until in each]
            for name, each in sorted(self.views.items())
        }
        folders = {f"{_FOLDER}{n}/{path}": content for n, files in enumerate(stored) for path, content in files.items()}
        return {**self.newest, EARLIER_FILE: json.dumps(times, indent=1).encode(), **folders}


def earlier_files(files: Files) -> EarlierFiles:
    """The inverse of `EarlierFiles.files`."""
    if EARLIER_FILE not in files:
        return EarlierFiles(files)
    newest = {path: content for path, content in files.items() if path != EARLIER_FILE and not path.startswith(_FOLDER)}
    views = {
        name: [(_below(files, f"{_FOLDER}{piece['definitions']}/"), datetime.fromisoformat(piece["until"])) for piece in each]
        for name, each in json.loads(files[EARLIER_FILE]).items()
    }
    return EarlierFiles(newest, views)


def _below(files: Files, folder: str) -> dict[str, bytes]:
    return {path.removeprefix(folder): content for path, content in files.items() if path.startswith(folder)}
