"""`tandem init`: create a new, working project as a starting point, for sample events or for a file of one's own."""

import shlex
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlsplit

import typer

from tandem.cli.command.call import Call, Output
from tandem.cli.command.typed_command import program
from tandem.cli.project.project_templates import DEFAULT, SHOP, project_templates
from tandem.views.errors import TandemError, listed

if TYPE_CHECKING:
    from tandem.cli.project.infer.tried_project import ProjectForFile

_COLUMNS: Final = 80
_FOR_A_FILE: Final = ("tandem.toml", "conftest.py")
"""The files of the template that a project for a file has, too."""


def run(
    call: Call,
    directory: Annotated[Path | None, typer.Argument(metavar="DIR", help="The project's folder, created if absent.")] = None,
    *,
    template: Annotated[
        str | None, typer.Option(metavar="NAME", help="Begin with this template, which --list shows. Default: shop.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the templates.")] = False,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="Write the definitions for this file: CSV, JSON lines, a JSON array, GeoJSON, Parquet, or the log of a server; "
            "for a topic, kafka://HOST:PORT/TOPIC; or for a subject of a schema registry, http://HOST:PORT/subjects/NAME. "
            "Comments in them name each guess.",
        ),
    ] = None,
    registry: Annotated[
        str | None,
        typer.Option(metavar="URL", help="With --from a topic: the registry of the schemas that its records name."),
    ] = None,
    zone: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With --from: the zone of times without one, such as Europe/Oslo; UTC by default."),
    ] = None,
) -> Output:
    """Create a small project: definitions, settings, a test of the definitions, and sample events, a few of them invalid.

    The template `sql` has the definitions in SQL. The other templates have a generator in place of sample events.
    """
    if list_:
        return _templates()
    if directory is None:
        raise TandemError("name the project's folder: `tandem init DIR`; --list lists templates", code="usage-invalid")
    if from_ is None:
        for option, value in (("--zone", zone), ("--registry", registry)):
            if value is not None:
                raise TandemError(f"{option} belongs to --from", code="usage-invalid")
        return _from_template(call, directory, template or DEFAULT)
    if template is not None:
        raise TandemError("--from and --template cannot be combined", code="usage-invalid")
    if registry is not None and not from_.startswith("kafka://"):
        raise TandemError("--registry belongs to --from kafka://HOST:PORT/TOPIC", code="usage-invalid")
    if "@" in urlsplit(from_).netloc:
        raise TandemError(
            "a login does not belong in the address of --from, which is printed and stored; set the variables "
            "TANDEM_KAFKA_SECURITY, TANDEM_KAFKA_USERNAME and TANDEM_KAFKA_PASSWORD, or TANDEM_REGISTRY_USERNAME and _PASSWORD",
            code="usage-invalid",
        )
    call.say(f"reading {from_}")
    begun = _begin(call, from_, registry, zone)
    files = {**{name: (SHOP / name).read_bytes() for name in _FOR_A_FILE}, **begun.files}
    write_project(directory, files)
    document: dict[str, Any] = {"project": str(directory.resolve()), "files": [*files], **begun.to_json()}
    in_topic = "://" in from_
    events = begun.events if in_topic else from_
    steps = _next(program(call.environ), directory, files, begun.view, events=events, source=None if in_topic else begun.source)
    return Output(document, f"{begun.summary()}\n{steps}")


def _begin(call: Call, origin: str, registry: str | None, zone: str | None) -> "ProjectForFile":
    """The project for a file, a topic or a subject."""
    from tandem.cli.project.infer import project_for_file as of_file  # noqa: PLC0415 - DuckDB and Arrow take time to import
    from tandem.cli.project.infer import project_for_schema as of_schema  # noqa: PLC0415 - see above
    from tandem.cli.project.infer.schemas.registered_schema import parse_subject  # noqa: PLC0415 - see above
    from tandem.cli.project.infer.topic_sample import sample_topic, settings_without_project  # noqa: PLC0415 - see above

    if origin.startswith("kafka://"):
        return of_schema.project_for_topic(sample_topic(origin, call.environ), registry, zone)
    if (subject := parse_subject(origin)) is not None:
        return of_schema.project_for_subject(subject, zone, settings_without_project(call.environ).registry)
    if "://" in origin:
        raise TandemError(
            f"--from {origin}: expected a file, kafka://HOST:PORT/TOPIC or http://HOST:PORT/subjects/NAME", code="usage-invalid"
        )
    return of_file.project_for_file(Path(origin), zone)


def _templates() -> Output:
    summaries = {name: each.summary for name, each in project_templates().items()}
    width = max(map(len, summaries))
    indent = " " * (width + 2)
    lines = (textwrap.fill(f"{name:<{width}}  {text}", _COLUMNS, subsequent_indent=indent) for name, text in summaries.items())
    return Output({"templates": summaries}, "\n".join(lines))


def _from_template(call: Call, directory: Path, name: str) -> Output:
    templates = project_templates()
    if name not in templates:
        raise TandemError(f"no template {name!r}; templates: {listed(name, templates)}", code="usage-invalid")
    files, tandem = templates[name].files(), program(call.environ)
    write_project(directory, files)
    if templates[name].sample:
        steps = _next(tandem, directory, files, "sales", events="orders.jsonl")
    else:
        project = shlex.quote(str(directory))
        typed = (f"  {tandem} {step} --project {project}" for step in ("views", "up", "generate --events 10000", "status"))
        steps = "\n".join([f"wrote {', '.join(files)} to {project}; next:", *typed])
    return Output({"project": str(directory.resolve()), "files": [*files]}, steps)


def write_project(directory: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of a new project. Raises TandemError if one of them is there, or the folder cannot be written."""
    taken = [name for name in files if (directory / name).exists()]
    if taken:
        raise TandemError(
            f"{directory} already has {', '.join(taken)}, and init does not overwrite files; name a new folder",
            code="file-unusable",
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            (directory / name).write_bytes(data)
    except OSError as error:
        raise TandemError(f"cannot write a project to {directory}: {error.strerror}", code="file-unusable") from error


def _next(
    tandem: str, directory: Path, files: Mapping[str, bytes], view: str, *, events: str | None, source: str | None = "orders"
) -> str:
    """The next steps. `events` is a file, if there is one; it is sent to the source, unless its topic has the events already."""
    project = shlex.quote(str(directory))
    file = None if events is None else shlex.quote(events if events not in files else f"{directory}/{events}")
    return "\n".join(
        [
            f"wrote {', '.join(files)} to {project}; next:",
            f"  {tandem} check --project {project}",
            *([f"  {tandem} try {view} {file} --project {project}"] if file else []),
            f"  {tandem} up --project {project}",
            *([f"  {tandem} feed {file} --source {source} --wait --project {project}"] if file and source else []),
            f"  {tandem} query {view}{'' if file and source else ' --wait'} --project {project}",
        ]
    )
