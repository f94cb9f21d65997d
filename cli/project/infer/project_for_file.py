"""The project for a file, tried on the file itself."""

import re
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

from tandem.cli.project.infer.change_sample import change_sample
from tandem.cli.project.infer.file_sample import change_values, sample_of
from tandem.cli.project.infer.first_view import choose
from tandem.cli.project.infer.project_for_changes import project_for_changes
from tandem.cli.project.infer.project_text import check_text, definitions_text
from tandem.cli.project.infer.tried_project import ProjectForFile
from tandem.cli.project.try_view import TOPIC, trial
from tandem.cli.records.file_values import file_values
from tandem.infra import clock
from tandem.infra.settings import RegistrySettings
from tandem.ledger.log.registry_schemas import RegistrySchemas
from tandem.views.decode.sample_records import as_records
from tandem.views.decode.value_parsers import parse_values
from tandem.views.errors import TandemError
from tandem.views.project.project import Project, load_files
from tandem.views.time_zone import time_zone

_MOST_VALUES: Final = 100_000
_TEST_VALUES: Final = 1000
_DATE: Final = re.compile(r"(?<![A-Za-z0-9])(19|20)\d\d([-_.]?\d\d){0,5}(?![A-Za-z0-9])[-_. ]*")
_SUFFIXES: Final = frozenset({".gz", ".zst"})


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
    changes = change_values(file)
    if (of_table := change_sample(changes, (), zone)) is not None:
        schemas = RegistrySchemas(RegistrySettings())
        return project_for_changes(name, origin or file.name, of_table, changes, schemas, topic=topic)
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
