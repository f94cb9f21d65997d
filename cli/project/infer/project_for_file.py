"""The project for a file, tried on the file itself."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

from tandem.cli.project.infer.file_sample import sample_of
from tandem.cli.project.infer.first_view import choose
from tandem.cli.project.infer.project_text import check_text, definitions_text
from tandem.cli.project.try_view import TOPIC, Trial, trial
from tandem.cli.records.file_values import file_values
from tandem.infra import clock
from tandem.views.decode.sample_records import as_records
from tandem.views.decode.value_parsers import parse_values
from tandem.views.errors import TandemError
from tandem.views.project.project import Project, load_files
from tandem.views.time_zone import time_zone

_MOST_VALUES: Final = 100_000
_TEST_VALUES: Final = 1000
_DATE: Final = re.compile(r"(?<![A-Za-z0-9])(19|20)\d\d([-_.]?\d\d){0,5}(?![A-Za-z0-9])[-_. ]*")
_SUFFIXES: Final = frozenset({".gz", ".zst"})


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


def project_for_file(
    file: Path, zone: str | None, *, topic: str = "", header: bool | None = None, origin: str = ""
) -> ProjectForFile:
    """Guess the definitions for a file, or for values of a `topic` that a file holds; `header` is as in `sample_of`.

    Raises TandemError if it cannot be read, or an event could have no time.
    """
    if zone is not None:
        time_zone(zone)
    if not file.is_file():
        raise TandemError(f"no file {file}: --from reads a file, not a folder or a pipe", code="file-unusable")
    name = _without_dates((file.with_suffix("") if file.suffix in _SUFFIXES else file).stem)
    sample, origin = replace(sample_of(file, zone, header=header), topic=topic), origin or file.name
    text = definitions_text(name, origin, sample, choose(sample, origin), zone or "UTC")
    files = {"definitions.py": text.definitions.encode(), "tandem.toml": b""}
    project = load_files(files)
    source = project.sources[text.source]
    with file_values(source, file) as values:
        tried = trial(project.views[text.view], islice(values, _MOST_VALUES), at=clock.now())
    checks = check_text(origin, text, _events(project, text.source, file))
    return ProjectForFile(
        {"definitions.py": files["definitions.py"], "test_definitions.py": checks.encode()}, text.source, text.view, tried
    )


def _without_dates(stem: str) -> str:
    """A file's name without the dates and times in it: the next file of the same kind has others."""
    return _DATE.sub("", stem).strip("-_. ") or stem


def _events(project: Project, name: str, file: Path) -> list[Any]:
    """Two events of the file with different identities; one, if there are no two."""
    source = project.sources[name]
    with file_values(source, file) as values:
        some = [value.value for value in islice(values, _TEST_VALUES)]
    records = as_records(source, some, topic_id=TOPIC, offsets=range(len(some)), at=clock.now())
    events, rejects = parse_values(source, source.event, source.decoder, records.combine_chunks().to_batches()[0])
    if not events:
        reject = next(iter(rejects.values()))
        raise TandemError(f"{file}: no row of the file can be decoded: {reject.reason}: {reject.detail}", code="file-unusable")
    several: dict[Any, Any] = {}
    for row, event in events.items():
        identity = tuple(getattr(event, field) for field in source.identity) or row
        several.setdefault(identity, event)
    return [*several.values()][:2]
