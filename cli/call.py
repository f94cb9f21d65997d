"""What every command is called with, and what it gives back.

Every command takes `--project`, `--json` and `--debug`; its function does not declare them but gets a Call as its first argument.
It does its work, tells its progress with `Call.say`, and returns an Output, or None if it has nothing to tell; what goes wrong
it raises as a TandemError. Printing, exit codes and the wording of failures are the command line's own (cli/__main__.py).
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType

from infra import settings as settings_of_project
from infra.folders import EXAMPLES
from infra.revision import revision
from infra.settings import Settings
from views import project as definitions_of_project
from views.errors import TandemError
from views.project import Project

DEFAULT_PROJECT = EXAMPLES / "web"
UNHEALTHY = 3
"""The exit code of a command that did its work and found a part dead, stuck or given up, or records not counted in time."""


class Told(TandemError):
    """What ended a command that has said so already, where it says everything: in its log."""


@dataclass(frozen=True)
class Output:
    """What a command found: the document for `--json`, what a person is shown instead, and the exit code."""

    document: Any
    shown: RenderableType = ""
    code: int = 0


@dataclass(frozen=True)
class Call:
    """One use of a command: the project's folder, how to answer, and the environment."""

    project: Path
    json: bool
    debug: bool
    environ: Mapping[str, str] = field(repr=False)

    def settings(self) -> Settings:
        """The project's settings; raises TandemError if there is no such project or a setting is wrong."""
        if not self.project.is_dir():
            raise TandemError(f"no project at {self.project}: there is no such folder")
        return settings_of_project.load(self.project, self.environ)

    def definitions(self) -> Project:
        """The sources and views of the working tree; raises TandemError, naming file and line.

        Its files are what a release stores, so secrets in its settings are masked.
        """
        found = definitions_of_project.load(self.project)
        name = definitions_of_project.SETTINGS_FILE
        masked = settings_of_project.without_secrets(found.files[name])
        return replace(found, files={**found.files, name: masked})

    def publishable(self) -> Project:
        """The same with its revision, for those who publish it."""
        return replace(self.definitions(), revision=revision(self.project))

    def say(self, text: str) -> None:
        """Tell a person how it goes: one line on stderr."""
        print(text, file=sys.stderr, flush=True)  # noqa: T201 - this is where progress is printed

    def console(self) -> Console:
        """A console on stderr, for progress bars and what is shown live."""
        return Console(stderr=True)


def resolve_project(given: Path | None, environ: Mapping[str, str], cwd: Path) -> Path:
    """The project's folder: the option, else TANDEM_PROJECT, else here if here is a project, else the first example."""
    if given is not None:
        return (cwd / given.expanduser()).resolve()
    if named := environ.get("TANDEM_PROJECT"):
        return (cwd / Path(named).expanduser()).resolve()
    return cwd if (cwd / settings_of_project.FILE).is_file() else DEFAULT_PROJECT
