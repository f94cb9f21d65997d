"""Runs one command: parses its arguments, and prints its result or its error.

Exit codes are those of cli/command/exit_codes.py. With `--json` stdout is one JSON document and nothing else, also on failure.
"""

import contextlib
import gc
import importlib
import inspect
import json
import os
import re
import sys
import textwrap
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer._coercion import RuntimeParam, build_runtime_param  # pyproject.toml pins typer to one minor version
from typer._param_types import coerce_cli_path
from typer.core import TyperArgument, TyperCommand, TyperOption

from tandem.cli.command import exit_codes
from tandem.cli.command.call import AlreadyLogged, Call, Output, resolve_project
from tandem.cli.command.error_sentence import foreseen, worded
from tandem.cli.command.signals import Interrupted
from tandem.cli.command.text_tables import console
from tandem.cli.command.typed_command import TypedCommand, command_of, program
from tandem.cli.command_registry import COMMANDS, EXAMPLE_OF, OF_CHECKOUT, USAGE, WITHOUT_PROJECT
from tandem.infra.folders import CHECKOUT, ROOT
from tandem.views.errors import TandemError, nearest_first

USAGE_INVALID: Final = "usage-invalid"
INTERNAL_ERROR: Final = "internal-error"
"""Codes without a TandemError: of a command line that cannot be parsed, and of a defect."""

_ITEMS: Final = ("* ", "1. ")
_HELP_COLUMNS: Final = 76
"""The text columns of click's help on a terminal of 80."""

_SHARED = {
    "project": Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The project's folder. Default: $TANDEM_PROJECT, else the current folder if it contains tandem.toml; of `demo`, "
            "else examples/demo.",
        ),
    ],
    "json": Annotated[bool, typer.Option("--json", help="Print one JSON document.")],
    "debug": Annotated[bool, typer.Option("--debug", help="Show stack traces and Spark's own log.")],
}


def run(arguments: list[str]) -> int:
    """Run the command that these arguments name first, and return its exit code."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    as_json, debug = "--json" in options, "--debug" in options
    name, *rest = arguments
    typed = command_of(rest, os.environ, without=WITHOUT_PROJECT)
    if name in OF_CHECKOUT and not CHECKOUT:
        sentence = f"`tandem {name}` needs a checkout of Tandem's repository; this copy is installed in {ROOT}"
        return _fail(sentence, exit_codes.USAGE, USAGE_INVALID, as_json=as_json, typed=typed)
    if name not in COMMANDS:
        likely = " or ".join(f"'{command}'" for command in nearest_first(name, COMMANDS)[:2])
        sentence = f"no command '{name}'; did you mean {likely}?"
        return _fail(sentence, exit_codes.USAGE, USAGE_INVALID, as_json=as_json, typed=typed, before=USAGE)
    try:
        app = application(name, environ=dict(os.environ), cwd=Path.cwd())
        if not gc.isenabled():  # cli/__main__.py
            gc.freeze()
            gc.enable()
        returned = app(rest, prog_name=f"tandem {name}", standalone_mode=False)
        if returned == exit_codes.INTERRUPTED:  # typer 0.29 returns this code in place of the KeyboardInterrupt
            return _fail("interrupted", exit_codes.INTERRUPTED, Interrupted.code, as_json=as_json, typed=typed)
        return _print(name, returned, as_json=as_json, typed=typed)
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        usage = f"{context.get_usage()}\n" if context else ""
        return _fail(error.format_message(), error.exit_code, USAGE_INVALID, as_json=as_json, typed=typed, before=usage)
    except Interrupted as error:
        return _fail(str(error), exit_codes.INTERRUPTED, error.code, as_json=as_json, typed=typed)
    except (typer.Abort, KeyboardInterrupt) as error:
        if isinstance(error, typer.Abort) and not isinstance(error.__cause__, KeyboardInterrupt):
            return exit_codes.INTERRUPTED  # a question was answered by no
        return _fail("interrupted", exit_codes.INTERRUPTED, Interrupted.code, as_json=as_json, typed=typed)
    except BrokenPipeError:
        # The reader of our output has closed it; the interpreter must not write again at exit.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exit_codes.FAILED
    except AlreadyLogged as error:
        cause = error.__cause__
        code = _code(foreseen(cause) if isinstance(cause, Exception) else error)
        return _fail(str(error), exit_codes.FAILED, code, as_json=as_json, typed=typed, said=True)
    except Exception as error:  # noqa: BLE001 - the outermost handler: a sentence instead of a stack
        known = foreseen(error)
        sentence = str(known or f"{worded(error)}{'' if debug else '; --debug shows where'}")
        if debug:
            traceback.print_exc()
    return _fail(sentence, exit_codes.FAILED, _code(known), as_json=as_json, typed=typed)


def _print(name: str, returned: Any, *, as_json: bool, typed: TypedCommand) -> int:
    if not isinstance(returned, Output):
        # A command without output, or the exit code of --help.
        return returned if isinstance(returned, int) else exit_codes.DONE
    if returned.code not in exit_codes.known(name):
        raise LookupError(f"exit code {returned.code} of `tandem {name}` is not listed in cli/command/exit_codes.py")
    if as_json:
        sys.stdout.write(json.dumps(returned.document, ensure_ascii=False, allow_nan=False) + "\n")
        sys.stdout.flush()
    elif returned.data is not None:
        sys.stdout.buffer.write(returned.data)
        sys.stdout.buffer.flush()
    elif isinstance(returned.shown, str):
        # Without rich's console, which would replace emoji codes in rows, and is slow.
        shown = typed.in_text(returned.shown) if sys.stdout.isatty() else returned.shown
        sys.stdout.write(f"{shown}\n" if shown else "")
        sys.stdout.flush()
    else:
        console().print(returned.shown)
    return returned.code


def _code(error: TandemError | None) -> str:
    """The code of an error; None is a defect."""
    return INTERNAL_ERROR if error is None else error.code


def _fail(
    sentence: str, exit_code: int, code: str, *, as_json: bool, typed: TypedCommand, before: str = "", said: bool = False
) -> int:
    text = sentence.encode("utf-8", "backslashreplace").decode()  # the text may repeat an argument that is not UTF-8
    if not said:
        sys.stderr.write(f"{before}tandem: {typed.in_text(text) if sys.stderr.isatty() else text}\n")
    if as_json:
        sys.stdout.write(json.dumps({"error": text, "code": code}, ensure_ascii=False) + "\n")
    return exit_code


def application(name: str, *, environ: Mapping[str, str], cwd: Path) -> typer.Typer:
    """Import a command and return its typer application."""
    run = importlib.import_module(COMMANDS[name].module).run
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command(name, cls=_Command, context_settings={"help_option_names": ["-h", "--help"]})(_bound(run, environ, cwd, name))
    return app


class _Command(TyperCommand):
    """A command that takes texts, paths and defaults as they are: for other values typer imports pydantic, a tenth of `query`."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, `--help` among them."""
        parameters = super().get_params(ctx)
        for parameter in parameters:
            if isinstance(parameter, TyperOption | TyperArgument):
                of = parameter.type_descriptor
                parameter._runtime_param = _AsItIs(of.parameter_info, of.annotation)  # noqa: SLF001 - typer has no way to set it
        return parameters


class _AsItIs(RuntimeParam):
    """A parameter whose value typer converts only if its type needs that."""

    def _coerce_value(self, value: Any, param: Any, ctx: Any) -> Any:
        if self.annotation is str or type(value) is self.annotation:
            return value
        if self.annotation == list[str]:
            return list(value)
        if self.annotation is Path:
            return coerce_cli_path(Path(value), self.parameter_info, path_type=Path, param=param, ctx=ctx)
        return build_runtime_param(param.type_descriptor).coerce(value, param=param, ctx=ctx)


def _bound(run: Callable[..., Any], environ: Mapping[str, str], cwd: Path, name: str) -> Callable[..., Any]:
    """Return the function with the shared options in place of its first parameter."""

    def bound(**given: Any) -> Any:
        project, as_json, debug = (given.pop(shared) for shared in _SHARED)
        typed = TypedCommand(program(environ), None if project is None else str(project), WITHOUT_PROJECT)
        example = cwd if name in WITHOUT_PROJECT else EXAMPLE_OF.get(name)
        folder = resolve_project(project, environ, cwd, example)
        return run(Call(folder, as_json, debug, environ, typed), **given)

    own = list(inspect.signature(run, eval_str=True).parameters.values())[1:]
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=None if name == "project" else False)
        for name, kind in _SHARED.items()
    ]
    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own] + shared
    # typer reads these attributes.
    bound.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    bound.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    bound.__doc__ = _with_lists(inspect.getdoc(run) or "")
    return bound


def _with_lists(text: str) -> str:
    """Return a docstring whose lists click prints item by item. It would join lines; a leading backspace keeps them."""
    return "\n\n".join(_list(part) if part.startswith(_ITEMS) else part for part in text.split("\n\n"))


def _list(paragraph: str) -> str:
    items = re.split(r"\n(?=\* |\d\. )", paragraph)
    filled = (
        textwrap.fill(" ".join(item.split()), _HELP_COLUMNS, subsequent_indent=" " * (item.index(" ") + 1)) for item in items
    )
    return "\b\n" + "\n".join(filled)
