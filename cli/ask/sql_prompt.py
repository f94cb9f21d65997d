"""The prompt of `tandem sql`: statements and a few commands of its own, with completion and a history."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory

from tandem.cli.ask.row_output import Format, bytes_in
from tandem.cli.ask.sql_output import row_output
from tandem.cli.command.text_tables import console
from tandem.infra import clock
from tandem.serving.sql.merged_views import MergedViews, ask, table_schema
from tandem.serving.sql.sandbox import Sandbox
from tandem.serving.sql.sketch_functions import SIGNATURES
from tandem.views.errors import TandemError, listed

if TYPE_CHECKING:
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output

COMMANDS: Final = {
    ".help": "this list",
    ".views": "list the views and their columns; .views NAME lists one view",
    ".format": "set the output format: .format table, json, csv or ndjson",
    ".quit": "end the prompt, as Ctrl-D does",
}
_WORDS: Final = (
    *("SELECT", "FROM", "WHERE", "GROUP", "BY", "HAVING", "ORDER", "LIMIT", "OFFSET", "JOIN", "LEFT"),
    *("USING", "ON", "AS", "AND", "OR", "NOT", "IN", "IS", "NULL", "BETWEEN", "LIKE"),
    *("CASE", "WHEN", "THEN", "ELSE", "END", "WITH", "UNION", "ALL", "DISTINCT", "DESC", "ASC"),
    *("OVER", "PARTITION", "QUALIFY", "INTERVAL", "DESCRIBE", "SUMMARIZE", "count", "sum", "avg", "min", "max"),
)
FORMATS: Final[tuple[Format, ...]] = ("table", "json", "csv", "ndjson")
"""The formats that a terminal can show."""
_WORD: Final = re.compile(r"\w+(\.$)?|\.$")
"""The word before the cursor, matched backwards from its end: a dot belongs to it at the beginning of a line."""
_HISTORY: Final = "sql_history"


def terminal(
    views: MergedViews, state: Path, *, input_: "Input | None" = None, output: "Output | None" = None
) -> Callable[[], str]:
    """The line editor of a terminal, which reads one statement or command; statements end with a semicolon or an empty line.

    The history is in the state folder, readable only by its owner.
    """
    path = state / _HISTORY
    state.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    path.chmod(0o600)
    session: PromptSession[str] = PromptSession(
        message="tandem> ",
        prompt_continuation="   ...> ",
        multiline=Condition(lambda: not _complete(session.default_buffer.text)),
        history=FileHistory(str(path)),
        completer=words(views),
        complete_while_typing=False,
        input=input_,
        output=output,
    )
    return session.prompt


def converse(read: Callable[[], str], sandbox: Sandbox, views: MergedViews, how: Format) -> None:
    """Answer statements and commands until the input ends. Ctrl-C ends a running statement, or discards the typed text."""
    out = console()
    while True:
        try:
            text = read().strip()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        try:
            if text.startswith("."):
                command, _, argument = text.rstrip(";").partition(" ")
                if command == ".quit":
                    return
                if command == ".format":
                    how = _format(argument.strip())
                else:
                    out.print("\n".join(_told(command, argument.strip(), views)), markup=False, highlight=False)
            elif text.strip("; \n"):
                views.refresh()
                rows = row_output(ask(sandbox, views, text), clock.now())
                printed = rows.shown() if how == "table" else bytes_in(rows, how).decode().removesuffix("\n")
                out.print(printed, markup=False, highlight=False)
        except KeyboardInterrupt:
            out.print("ended", markup=False)
        except TandemError as error:
            out.print(str(error), markup=False, highlight=False)


def words(views: MergedViews) -> WordCompleter:
    """The completions of a word: commands, words of SQL, functions, views and their columns."""
    return WordCompleter(lambda: list(dict.fromkeys(_known(views))), ignore_case=True, pattern=_WORD)


def _complete(text: str) -> bool:
    stripped = text.strip()
    return not stripped or stripped.startswith(".") or stripped.endswith(";") or text.endswith("\n")


def _told(command: str, argument: str, views: MergedViews) -> Iterator[str]:
    if command == ".help":
        yield from (f"{name:<8} {what}" for name, what in COMMANDS.items())
        yield "Anything else is SQL: one SELECT over the views, ended by a semicolon or an empty line. Tandem's own functions:"
        yield from (f"  {signature}" for signature in SIGNATURES.values())
    elif command == ".views":
        published = views.views()
        if argument and argument not in published:
            raise TandemError(f"no view {argument!r}; views: {listed(argument, published)}", code="view-unknown")
        for name, view in published.items():
            if argument in ("", name):
                yield f"{name}({', '.join(f'{field.name} {field.type}' for field in table_schema(view))})"
    else:
        raise TandemError(f"unknown command {command!r}; commands: {', '.join(COMMANDS)}")


def _format(name: str) -> Format:
    for known in FORMATS:
        if name == known:
            return known
    raise TandemError(f"unknown format {name!r}; formats: {', '.join(FORMATS)}")


def _known(views: MergedViews) -> Iterator[str]:
    """The words that can be completed."""
    yield from COMMANDS
    yield from _WORDS
    yield from SIGNATURES
    with suppress(TandemError):  # without completions the prompt still works
        for name, view in views.views().items():
            yield name
            yield from table_schema(view).names
