"""The input and output of every command: Call and Output.

Every command has the options `--project`, `--json` and `--debug`. Its function does not declare them; its first argument is a
Call. It reports progress with `Call.say`, returns an Output, or None if it has no result, and raises TandemError on failure.
cli/command_line.py prints the result and sets the exit code.
"""

import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tandem.cli.command.typed_command import TypedCommand, program
from tandem.infra import clock
from tandem.infra import settings as settings_of_project
from tandem.infra.folders import EXAMPLES
from tandem.infra.settings import Settings
from tandem.views.errors import TandemError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from tandem.views.project.project import Project

_NAMED_PROJECTS: Final = 3
"""The largest number of projects that an error suggests."""
UNHEALTHY = 3
"""The exit code of a command that succeeded but found a part dead, stuck or given up, a silent source, or
records not counted in time."""


class NoProject(TandemError, code="project-missing"):
    """A command was called outside a project, and none was named."""


class AlreadyLogged(TandemError):
    """The error of a command that has already logged it."""


@dataclass(frozen=True)
class Output:
    """A command's result: the document for `--json`, the text for a person or bytes in its place, and the exit code."""

    document: Any
    shown: "RenderableType" = ""
    code: int = 0
    data: bytes | None = None


@dataclass(frozen=True)
class Call:
    """One call of a command: the project's folder, the shared options, the environment, and how the caller types commands."""

    project: Path
    json: bool
    debug: bool
    environ: Mapping[str, str] = field(repr=False)
    typed: TypedCommand | None = None

    def settings(self) -> Settings:
        """Load the project's settings. Raises TandemError if the project does not exist or a setting is invalid."""
        if not self.project.is_dir():
            raise TandemError(f"no project at {self.project}: the folder does not exist", code="project-missing")
        return settings_of_project.load(self.project, self.environ)

    def definitions(self) -> "Project":
        """Load the sources and views of the project's folder. Raises TandemError with file and line.

        A release stores the project's files, so secrets in its settings are masked.
        """
        from tandem.views.project import project as definitions_of_project  # noqa: PLC0415 - some commands need no definitions, nor DuckDB

        found = definitions_of_project.load(self.project)
        name = definitions_of_project.SETTINGS_FILE
        masked = settings_of_project.without_secrets(found.files[name])
        return replace(found, files={**found.files, name: masked})

    def publishable(self) -> "Project":
        """Load the definitions with their revision, for a publication: declared starts are positions.

        Raises TandemError.
        """
        project = replace(self.definitions(), revision=revision(self.project))
        if all(source.start is None for source in project.sources.values()):
            return project
        from tandem.batch.release.declared_starts import resolve_starts  # noqa: PLC0415 - few projects declare a start
        from tandem.infra import kafka  # noqa: PLC0415
        from tandem.infra.kafka import broker  # noqa: PLC0415
        from tandem.ledger.delta.addresses import Tables  # noqa: PLC0415

        settings = self.settings()
        return resolve_starts(project, Tables.of(settings), lambda: kafka.connect(broker.address(settings)), now=clock.now())

    def say(self, text: str) -> None:
        """Print one line of progress on stderr."""
        if self.typed is not None and sys.stderr.isatty():
            text = self.typed.in_text(text)
        print(text, file=sys.stderr, flush=True)  # noqa: T201 - this is where progress is printed

    def console(self) -> "Console":
        """Return a console on stderr, for progress bars and live displays."""
        from rich.console import Console  # noqa: PLC0415 - most commands print text alone, and rich takes time to import

        return Console(stderr=True)


def resolve_project(given: Path | None, environ: Mapping[str, str], cwd: Path, example: Path | None = None) -> Path:
    """Return the project's folder: the option, else TANDEM_PROJECT, else the current folder if a project, else the example.

    Raises NoProject if there is none of them; the error names projects in the current folder.
    """
    if given is not None:
        return (cwd / given.expanduser()).resolve()
    if named := environ.get("TANDEM_PROJECT"):
        return (cwd / Path(named).expanduser()).resolve()
    if (cwd / settings_of_project.FILE).is_file():
        return cwd
    if example is not None:
        return example
    below = sorted(file.parent.name for file in cwd.glob(f"*/{settings_of_project.FILE}"))[:_NAMED_PROJECTS]
    if below:
        raise NoProject(f"no project here; use {' or '.join(f'--project {shlex.quote(name)}' for name in below)}")
    raise NoProject(
        f"no project here; `{program(environ)} init my_shop` makes one, and --project DIR names one elsewhere, such as "
        f"{shlex.quote(_from(cwd, EXAMPLES / 'web'))}"
    )


def _from(cwd: Path, folder: Path) -> str:
    """A folder as a person types it there: relative if it is below."""
    return str(folder.relative_to(cwd)) if folder.is_relative_to(cwd) else str(folder)


def revision(folder: Path) -> str:
    """The commit of the folder's files, with `+` if some of them differ; empty without Git or outside a repository."""
    commit = _git(folder, "rev-parse", "--short=12", "HEAD")
    return f"{commit}+" if commit and _git(folder, "status", "--porcelain", "--", ".") else commit


def _git(folder: Path, *arguments: str) -> str:
    # The repository's own configuration must not start programs.
    command = ["git", "-c", "core.fsmonitor=false", *arguments]
    try:
        done = subprocess.run(  # noqa: S603 - our own command
            command, cwd=folder, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
