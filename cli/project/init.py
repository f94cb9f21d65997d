"""`tandem init`: create a new, working project as a starting point, for sample events or for a file of one's own."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from tandem.cli.command.call import Call, Output
from tandem.cli.command.typed_command import program
from tandem.views.errors import TandemError

TEMPLATE: Final = Path(__file__).parent / "template"
_FOR_A_FILE: Final = ("tandem.toml", "conftest.py")
"""The files of the template that a project for a file has, too."""


def run(
    call: Call,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The project's folder, created if absent.")],
    *,
    from_: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="Write the definitions for this file: CSV, JSON lines, a JSON array, GeoJSON, Parquet, or the log of a server. "
            "Comments in them name each guess.",
        ),
    ] = None,
    zone: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With --from: the zone of times without one, such as Europe/Oslo; UTC by default."),
    ] = None,
) -> Output:
    """Create a small project: definitions, settings, a test of the definitions, and sample events, a few of them invalid."""
    if from_ is None:
        if zone is not None:
            raise TandemError("--zone belongs to --from", code="usage-invalid")
        files: Mapping[str, bytes] = {path.name: path.read_bytes() for path in sorted(TEMPLATE.iterdir()) if path.is_file()}
        write_project(directory, files)
        return Output(
            {"project": str(directory.resolve()), "files": [*files]},
            _next(program(call.environ), directory, files, "sales", events="orders.jsonl"),
        )
    from tandem.cli.project.infer.project_for_file import project_for_file  # noqa: PLC0415 - DuckDB and Arrow take time to import

    call.say(f"reading {from_}")
    begun = project_for_file(from_, zone)
    files = {**{name: (TEMPLATE / name).read_bytes() for name in _FOR_A_FILE}, **begun.files}
    write_project(directory, files)
    document: dict[str, Any] = {"project": str(directory.resolve()), "files": [*files], **begun.to_json()}
    return Output(
        document,
        "\n".join(
            [begun.summary(), _next(program(call.environ), directory, files, begun.view, events=str(from_), source=begun.source)]
        ),
    )


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


def _next(tandem: str, directory: Path, files: Mapping[str, bytes], view: str, *, events: str, source: str = "orders") -> str:
    """The next steps."""
    project = shlex.quote(str(directory))
    file = shlex.quote(events if events not in files else f"{directory}/{events}")
    return "\n".join(
        [
            f"wrote {', '.join(files)} to {project}; next:",
            f"  {tandem} check --project {project}",
            f"  {tandem} try {view} {file} --project {project}",
            f"  {tandem} up --project {project}",
            f"  {tandem} feed {file} --source {source} --project {project}",
            f"  {tandem} query {view} --project {project}",
        ]
    )
