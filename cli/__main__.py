"""The command line's entry: prints help and version, and leaves all else to cli/command_line.py."""

import atexit
import contextlib
import gc
import os
import sys
from pathlib import Path
from typing import get_args

from tandem.cli.command_registry import COMMANDS, OF_CHECKOUT, USAGE, Entry, Group
from tandem.infra.folders import CHECKOUT, tandem_version

_HELP = ("-h", "--help")
_COMPLETION = ("--install-completion", "--show-completion")
_COMPLETION_VARIABLE = "_TANDEM_COMPLETE"
_ABOUT = "Exact answers from a log: a batch layer, a speed layer, one merged view of both."
_MORE = (
    "`tandem COMMAND --help` describes a command.\n`tandem --version` prints the version.\n"
    "`tandem --install-completion` completes in bash, zsh and fish."
)


def main(arguments: list[str]) -> int:
    """Run one command and give its exit code."""
    if instruction := os.environ.get(_COMPLETION_VARIABLE):
        from tandem.cli.command_line import application  # noqa: PLC0415 - what is not needed here takes time to import
        from tandem.cli.project.shell_completion import complete  # noqa: PLC0415 - see above

        summaries = {name: entry.summary for name, entry in _here().items()}
        return complete(instruction, summaries, lambda name: application(name, environ={}, cwd=Path.cwd()))
    if not arguments or arguments[0] in _HELP:
        (sys.stdout if arguments else sys.stderr).write(_help())
        return 0 if arguments else 2
    if arguments[0] == "--version":
        sys.stdout.write(f"tandem {tandem_version()}\n")
        return 0
    if arguments[0] in _COMPLETION:
        from tandem.cli.project.shell_completion import install  # noqa: PLC0415 - see above

        return install(arguments, lambda text: sys.stdout.write(f"{text}\n"))
    from tandem.cli.command_line import run  # noqa: PLC0415 - what is not needed here takes time to import

    return run(arguments)


def _here() -> dict[str, Entry]:
    """The commands of this copy."""
    return {name: entry for name, entry in COMMANDS.items() if CHECKOUT or name not in OF_CHECKOUT}


def _help() -> str:
    width = max(map(len, COMMANDS))
    here = _here()
    lines = []
    for group in get_args(Group):
        entries = [f"  {name:<{width}}  {entry.summary}" for name, entry in here.items() if entry.group == group]
        lines += [f"{group.capitalize()}:", *entries, ""] if entries else []
    return "\n".join([USAGE, _ABOUT, "", *lines, _MORE, ""])


def console() -> None:
    """Run the command that this process was started for, and end the process with its exit code."""
    codes: list[int] = []
    # Registered before all other functions, so called after them.
    atexit.register(_leave, codes)
    # What a command imports stays: collections find nothing until it has, and take a twentieth of `query`.
    gc.disable()
    codes.append(main(sys.argv[1:]))
    sys.exit(codes[0])


def _leave(codes: list[int]) -> None:
    """End the process here if its command has ended. The interpreter's own end lets a library's thread abort it (SIGABRT)."""
    if not codes:
        return
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # its reader or the command has closed it
            stream.flush()
    os._exit(codes[0])


if __name__ == "__main__":
    console()
