"""`tandem init`: create a new, working project as a starting point."""

import shlex
import shutil
from pathlib import Path
from typing import Annotated, Final

import typer

from tandem.cli.command.call import Call, Output
from tandem.infra.folders import TYPED
from tandem.views.errors import TandemError

TEMPLATE: Final = Path(__file__).parent / "template"


def run(
    call: Call,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The project's folder, created if absent.")],
) -> Output:
    """Create a small project: definitions, settings, a test of the definitions, and sample events, a few of them invalid."""
    del call
    files = sorted(path for path in TEMPLATE.iterdir() if path.is_file())
    taken = [file.name for file in files if (directory / file.name).exists()]
    if taken:
        raise TandemError(
            f"{directory} already has {', '.join(taken)}, and init does not overwrite files; name a new folder",
            code="file-unusable",
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for file in files:
            shutil.copyfile(file, directory / file.name)
    except OSError as error:
        raise TandemError(f"cannot write a project to {directory}: {error.strerror}", code="file-unusable") from error
    return Output(
        {"project": str(directory.resolve()), "files": [file.name for file in files]}, _next(shlex.quote(str(directory)), files)
    )


def _next(directory: str, files: list[Path]) -> str:
    """The next steps."""
    return "\n".join(
        [
            f"wrote {', '.join(file.name for file in files)} to {directory}; next:",
            f"  {TYPED} check --project {directory}",
            f"  {TYPED} try sales {directory}/orders.jsonl --project {directory}",
            f"  {TYPED} up --project {directory}",
            f"  {TYPED} feed {directory}/orders.jsonl --source orders --project {directory}",
            f"  {TYPED} query sales --project {directory}",
        ]
    )
