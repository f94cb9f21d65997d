"""Completion of `tandem` in bash, zsh and fish, from the parser of each command: `tandem --install-completion`.

A shell asks this program with `VARIABLE` in its environment. Names of commands need no command's module; options need that of
the command before the cursor.
"""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import typer.core
import typer.main
from typer import completion as typer_completion

from tandem.cli.command import exit_codes

INSTALL: Final = "--install-completion"
SHOW: Final = "--show-completion"
SHELLS: Final = ("bash", "zsh", "fish")

_script: Final = typer_completion.get_completion_script  # type: ignore[attr-defined]  # typer's own module is its only user
_install: Final = typer_completion.install  # type: ignore[attr-defined]  # see above
_PROGRAM: Final = "tandem"
_VARIABLE: Final = "_TANDEM_COMPLETE"
# typer's scripts of these shells call `tandem` on the PATH; a checkout's launcher is called as it was typed.
_AS_TYPED: Final = {
    "zsh": (f"=complete_zsh {_PROGRAM})", "=complete_zsh ${words[1]})"),
    "fish": (f"(commandline -cp) {_PROGRAM}", "(commandline -cp) (commandline -opc)[1]"),
}


Parser = Callable[[str], typer.Typer]
"""Imports a command, and returns its application."""


class _Commands(typer.core.TyperGroup):
    """All commands with their summaries, each of which is imported when it is asked for."""

    def __init__(self, summaries: Mapping[str, str], parser: Parser) -> None:
        super().__init__(name=_PROGRAM)
        self.summaries, self.parser = summaries, parser

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - typer's own signature
        """The names in the order of the help."""
        return list(self.summaries)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - see above
        """The parser of a command."""
        return typer.main.get_command(self.parser(cmd_name)) if cmd_name in self.summaries else None

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """The names of commands, none of which is imported, and the options of `tandem` itself."""
        names: dict[str, Any] = {name: typer.core.TyperCommand(name, help=text) for name, text in self.summaries.items()}
        ctx.command = typer.core.TyperGroup(name=_PROGRAM, commands=names)
        return ctx.command.shell_complete(ctx, incomplete)


def complete(instruction: str, summaries: Mapping[str, str], parser: Parser) -> int:
    """Answer a shell; return the exit code."""
    _register()
    return typer_completion.shell_complete(_Commands(summaries, parser), {}, _PROGRAM, _VARIABLE, instruction)


def install(arguments: list[str], say: Callable[[str], object]) -> int:
    """`--install-completion [SHELL]` and `--show-completion [SHELL]`; return the exit code."""
    option, *named = arguments
    shell = named[0] if named else Path(os.environ.get("SHELL", "")).name
    if shell not in SHELLS or len(named) > 1:
        sys.stderr.write(
            f"tandem: cannot complete in {shell or 'an unknown shell'!r}; use `{option} SHELL` of {', '.join(SHELLS)}\n"
        )
        return exit_codes.USAGE
    _register()
    if option == SHOW:
        say(_script_for(shell, _script(prog_name=_PROGRAM, complete_var=_VARIABLE, shell=shell)))
        return exit_codes.DONE
    _, path = _install(shell=shell, prog_name=_PROGRAM, complete_var=_VARIABLE)
    path.write_text(_script_for(shell, path.read_text("utf-8")), "utf-8")
    say(f"wrote {path}; a new {shell} completes `tandem` and `./tandem`")
    return exit_codes.DONE


def _register() -> None:
    """Register typer's classes of shells, which it does when it makes its own options."""
    typer_completion.get_completion_inspect_parameters()


def _script_for(shell: str, script: str) -> str:
    before, after = _AS_TYPED.get(shell, ("", ""))
    if before not in script:
        raise LookupError(f"typer's completion script of {shell} has changed: it has no {before!r}")
    return script.replace(before, after) if before else script
