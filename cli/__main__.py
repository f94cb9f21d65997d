"""The command line: finds the command, runs it, prints what it returns, and words what went wrong.

Exit codes are those of cli/command/exit_codes.py. With `--json` stdout is one JSON document and nothing else, also on failure.
"""

import contextlib
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from cli.command import exit_codes
from cli.command.call import Output, Told
from cli.command.error_sentence import foreseen, worded
from cli.registry import COMMANDS, OF_CHECKOUT, application
from infra.folders import CHECKOUT, ROOT
from views.errors import nearest_first

_USAGE = "Usage: tandem COMMAND [OPTIONS] [ARGS]...\n"


def main(arguments: list[str]) -> int:
    """Run one command and give its exit code."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    as_json, debug = "--json" in options, "--debug" in options
    if not arguments or arguments[0] in ("-h", "--help"):
        (sys.stdout if arguments else sys.stderr).write(_help())
        return exit_codes.DONE if arguments else exit_codes.USAGE
    name, *rest = arguments
    if name in OF_CHECKOUT and not CHECKOUT:
        sentence = f"`tandem {name}` needs a checkout of Tandem's repository; this copy is installed in {ROOT}"
        return _fail(sentence, exit_codes.USAGE, as_json=as_json)
    if name not in COMMANDS:
        likely = " or ".join(f"'{command}'" for command in nearest_first(name, COMMANDS)[:2])
        return _fail(f"no command '{name}'; did you mean {likely}?", exit_codes.USAGE, as_json=as_json, before=_USAGE)
    try:
        app = application(name, environ=dict(os.environ), cwd=Path.cwd())
        return _print(name, app(rest, prog_name=f"tandem {name}", standalone_mode=False), as_json=as_json)
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        return _fail(
            error.format_message(), error.exit_code, as_json=as_json, before=f"{context.get_usage()}\n" if context else ""
        )
    except (typer.Abort, KeyboardInterrupt):
        return exit_codes.INTERRUPTED
    except BrokenPipeError:
        # Whoever read us has gone; the interpreter must not try again at its end.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exit_codes.FAILED
    except Told as error:
        return _fail(str(error), exit_codes.FAILED, as_json=as_json, said=True)
    except Exception as error:  # noqa: BLE001 - the last place there is: a sentence instead of a stack
        sentence = str(foreseen(error) or f"{worded(error)}{'' if debug else '; --debug shows where'}")
        if debug:
            traceback.print_exc()
    return _fail(sentence, exit_codes.FAILED, as_json=as_json)


def _help() -> str:
    width = max(map(len, COMMANDS))
    here = {name: entry for name, entry in COMMANDS.items() if CHECKOUT or name not in OF_CHECKOUT}
    lines = [f"  {name:<{width}}  {entry.summary}" for name, entry in here.items()]
    about = "Exact answers from a log: a batch layer, a speed layer, and one merged view of both."
    return f"{_USAGE}\n{about}\n\nCommands:\n" + "\n".join(lines) + "\n\n`tandem COMMAND --help` describes a command.\n"


def _print(name: str, returned: Any, *, as_json: bool) -> int:
    if not isinstance(returned, Output):
        # A command that had nothing to tell, or the exit code of --help.
        return returned if isinstance(returned, int) else exit_codes.DONE
    if returned.code not in exit_codes.known(name):
        raise LookupError(f"exit code {returned.code} of `tandem {name}` is not listed in cli/command/exit_codes.py")
    if as_json:
        sys.stdout.write(json.dumps(returned.document, ensure_ascii=False, allow_nan=False) + "\n")
        sys.stdout.flush()
    elif isinstance(returned.shown, str):
        # As it is: a console would read emoji codes into the rows of a pipe, and take its time.
        sys.stdout.write(f"{returned.shown}\n" if returned.shown else "")
        sys.stdout.flush()
    else:
        Console(soft_wrap=not sys.stdout.isatty()).print(returned.shown)
    return returned.code


def _fail(sentence: str, code: int, *, as_json: bool, before: str = "", said: bool = False) -> int:
    text = sentence.encode("utf-8", "backslashreplace").decode()  # it may repeat an argument that is not UTF-8
    if not said:
        sys.stderr.write(f"{before}tandem: {text}\n")
    if as_json:
        sys.stdout.write(json.dumps({"error": text}, ensure_ascii=False) + "\n")
    return code


def console() -> None:
    """The console script of an installed copy."""
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    console()
