"""docs/reference.md, generated from signatures and docstrings: `python -m tandem.cli.dev.reference > docs/reference.md`."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, get_args, get_origin, is_typeddict

from tandem import serving
from tandem.cli.command import exit_codes
from tandem.cli.command.call import Call
from tandem.cli.command_registry import COMMANDS
from tandem.serving.client.answers import RowsPage, SentEvents, ServerAnswer
from tandem.serving.client.event_stream import ServerChanges
from tandem.serving.client.parameters import AnswerOptions
from tandem.serving.client.server_client import Client, Refused, client
from tandem.serving.spark import dataframe
from tandem.serving.spark_frames import Frames, session, snapshot
from tandem.views import public
from tandem.views.source.format import RecordFormat
from tandem.views.testing import answer, events_table, rejected
from tandem.views.verify.every_cut import at_every_cut, checked_answer
from tandem.views.verify.every_prefix import check_expectations

_OF_A_SERVER: Final = (client, Client, AnswerOptions, RowsPage, ServerAnswer, ServerChanges, SentEvents, Refused)
_OF_SPARK: Final = (snapshot, session, Frames, dataframe)
_OF_TESTS: Final = (answer, at_every_cut, check_expectations, checked_answer, events_table, rejected)


def lines() -> Iterator[str]:
    """The page, line by line."""
    yield "# Reference"
    yield ""
    yield "Generated from signatures and docstrings by `python -m tandem.cli.dev.reference`; a test holds it to them."
    offered = {name: getattr(public, name) for name in vars(public)["__all__"]}
    kinds = {name: _kind(thing) for name, thing in offered.items()}
    for title in ("Definitions", "Measures", "Windows", "Decoders and the like"):
        yield from _section(title, [(f"tandem.{name}", offered[name]) for name in offered if kinds[name] == title])
    yield from _section("Unit tests of a project", [(f"tandem.testing.{thing.__name__}", thing) for thing in _OF_TESTS])
    yield from _section("Answers in a program", [(f"tandem.client.{name}", getattr(serving, name)) for name in serving.__all__])
    yield from _section("Answers of a server", [(f"tandem.client.{part.__name__}", part) for part in _OF_A_SERVER])
    yield from _section("In Spark", [(f"tandem.spark.{thing.__name__}", thing) for thing in _OF_SPARK])
    yield ""
    yield "## Commands"
    for name, entry in COMMANDS.items():
        yield from _command(name, import_module(entry.module).run)
    yield ""
    yield "## Exit codes"
    yield ""
    yield from exit_codes.lines()


def _kind(thing: Any) -> str:
    if inspect.isclass(thing):
        return "Definitions"
    return {"measures": "Measures", "windows": "Windows"}.get(thing.__module__.split(".")[2], "Decoders and the like")


def _section(title: str, things: Sequence[tuple[str, Any]]) -> Iterator[str]:
    yield ""
    yield f"## {title}"
    for name, thing in things:
        yield from _entry(name, thing, "###")
        if inspect.isclass(thing):
            for method, part in _parts(thing).items():
                if inspect.isfunction(part) and part.__doc__ and not method.startswith("_"):
                    yield from _entry(f"{name}.{method}", part, "####")


def _parts(thing: type) -> dict[str, Any]:
    """The attributes of a class, also those from its bases whose names are private."""
    bases = [base for base in thing.__mro__[1:] if base.__name__.startswith("_")]
    return {name: part for one in (thing, *bases) for name, part in vars(one).items()}


def _entry(name: str, thing: Any, level: str) -> Iterator[str]:
    yield ""
    yield f"{level} `{name}`"
    yield ""
    yield f"    {name.rpartition('.')[2]}{_signature(thing)}"
    yield ""
    yield inspect.getdoc(thing) or ""


def _signature(thing: Any) -> str:
    """Names and defaults only: docstrings explain the parameters, and annotations are in the code."""
    if inspect.isclass(thing) and issubclass(thing, Exception):
        return ""
    if is_typeddict(thing):
        return f"(*, {', '.join(thing.__annotations__)})"
    found = inspect.signature(thing)
    parameters = [
        parameter.replace(annotation=parameter.empty, default=_default(parameter.default))
        for parameter in found.parameters.values()
    ]
    return str(found.replace(parameters=parameters, return_annotation=found.empty)).replace("'", '"')


@dataclass(frozen=True)
class _Called:
    """A default that reads as the call that makes it."""

    call: str

    def __repr__(self) -> str:
        return self.call


def _default(value: Any) -> Any:
    """A default whose repr is what a definition writes."""
    return _Called(str(value)) if isinstance(value, RecordFormat) and not inspect.isclass(value) else value


def _command(name: str, run: Callable[..., Any]) -> Iterator[str]:
    yield ""
    yield f"### `tandem {name}`"
    yield ""
    yield inspect.getdoc(run) or ""
    options = [_option(parameter) for parameter in inspect.signature(run, eval_str=True).parameters.values()]
    if any(options):
        yield ""
        yield from (option for option in options if option)


def _option(parameter: inspect.Parameter) -> str:
    if parameter.annotation is Call or get_origin(parameter.annotation) is None:
        return ""
    kind, *told = get_args(parameter.annotation)
    option = next((one for one in told if hasattr(one, "help")), None)
    if option is None:
        return ""
    # The first argument of an option is its default; within an annotation it is a name.
    names = [one for one in (option.default, *(option.param_decls or ())) if isinstance(one, str) and one.startswith("-")]
    shown = names[0] if names else f"--{parameter.name.strip('_').replace('_', '-')}"
    if type(option).__name__ == "ArgumentInfo":
        shown = option.metavar or parameter.name.upper()
        if parameter.default is not inspect.Parameter.empty:
            shown = f"[{shown}]"
        if "list[" in str(kind):
            shown = f"{shown}..."
    elif option.metavar:
        shown = f"{shown} {option.metavar}"
    choices = [f"`{choice}`" for choice in get_args(kind) if isinstance(choice, str)]
    default = parameter.default
    given = f" Default `{default}`." if isinstance(default, str | int) and not isinstance(default, bool) else ""
    return f"* `{shown}`: {option.help}{' One of ' + ', '.join(choices) + '.' if choices else ''}{given}"


def page() -> str:
    """The page."""
    return "\n".join(lines()) + "\n"


if __name__ == "__main__":
    print(page(), end="")  # noqa: T201  its output is the page
