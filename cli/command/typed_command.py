"""How a person types the commands that a sentence names: with the launcher's path and the project of the running command."""

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tandem.infra.folders import CHECKOUT

LAUNCHER_VARIABLE: Final = "TANDEM_LAUNCHER"
"""Set by a checkout's launcher: its own path, as the shell was given it."""
_OPTION: Final = "--project"
_NAMED: Final = re.compile(r"`tandem ([a-z]+)((?: [^`]*)?)`")


@dataclass(frozen=True)
class TypedCommand:
    """The program, and the folder of `--project` if that option was given, as the caller typed them.

    `without` are the commands that do not use a project.
    """

    program: str
    project: str | None = None
    without: Collection[str] = ()

    def of(self, name: str, rest: str = "") -> str:
        """A command that can be pasted into the caller's shell."""
        named = self.project is not None and name not in self.without and _OPTION not in rest
        option = f" {_OPTION} {shlex.quote(self.project or '')}" if named else ""
        # Before the arguments of another program, or another command.
        end = min((at for mark in (" -- ", " | ") if (at := rest.find(mark)) >= 0), default=len(rest))
        return f"{self.program} {name}{rest[:end]}{option}{rest[end:]}"

    def in_text(self, text: str) -> str:
        """The text, with each command in backquotes as the caller can paste it."""
        return _NAMED.sub(self._pasteable, text)

    def _pasteable(self, match: re.Match[str]) -> str:
        return f"`{self.of(match[1], match[2])}`"


def program(environ: Mapping[str, str]) -> str:
    """The command `tandem` as the caller typed it, quoted for a shell."""
    return shlex.quote(environ.get(LAUNCHER_VARIABLE) or ("./tandem" if CHECKOUT else "tandem"))


def command_of(arguments: Sequence[str], environ: Mapping[str, str], *, without: Collection[str] = ()) -> TypedCommand:
    """The program and the project of these arguments, in which a later `--project` replaces an earlier one."""
    project = None
    for at, word in enumerate(arguments):
        if word == "--":
            break
        if word == _OPTION and at + 1 < len(arguments):
            project = arguments[at + 1]
        elif word.startswith(f"{_OPTION}="):
            project = word.removeprefix(f"{_OPTION}=")
    return TypedCommand(program(environ), project, without)
