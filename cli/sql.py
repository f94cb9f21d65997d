"""`tandem sql`: DuckDB SQL over the published views, one statement or a prompt."""

import secrets
import sys
from datetime import UTC, datetime
from typing import Annotated

import typer

from cli.call import Call, Output
from cli.sql_shown import Format, document, shown
from cli.uncounted import LogAsked, warning
from ledger.tables import Tables
from serving.memory.store import Store
from serving.sandbox.bounds import MIB
from serving.sql.limits import Limits
from serving.sql.merged_views import MergedViews, ask
from serving.sql.sandbox import Sandbox
from views.errors import TandemError


def run(
    call: Call,
    statement: Annotated[
        str | None,
        typer.Argument(help="One SELECT; read from standard input if that is no terminal, and asked for at a prompt otherwise."),
    ] = None,
    *,
    format_: Annotated[Format, typer.Option("--format", help="How rows are shown.")] = "box",
    seconds: Annotated[float, typer.Option(min=0.1, help="What a statement may take.")] = 60.0,
    memory: Annotated[int, typer.Option(min=64, metavar="MIB", help="What a statement may use beside the views.")] = 1024,
    rows: Annotated[int, typer.Option(min=1, metavar="N", help="How many rows a result may have.")] = 1_000_000,
) -> Output | None:
    """Ask the published views in SQL: DuckDB's, one SELECT at a time, each view a table at one common snapshot.

    A statement runs in a process of its own, which has nothing but the views that it names. docs/sql.md says more. One line on
    stderr says how many records of their logs wait to be counted, and whether broker or speed layer is dead or stuck.
    """
    limits = Limits(seconds=seconds, memory=memory * MIB, rows=rows, bytes=memory * MIB)
    settings = call.settings()
    views = MergedViews(Store(Tables(settings.state), secrets.randbits(64), settings.serving.memory_mb << 20))
    views.views()  # nothing is published, or cannot be read: said before anything is started
    if statement is None and sys.stdin.isatty():
        if call.json:
            raise TandemError("--json takes a statement: give it as an argument or on standard input")
        from cli.sql_prompt import converse, terminal  # noqa: PLC0415  what edits lines is loaded for those who type them

        with Sandbox(limits) as sandbox:
            converse(terminal(views, settings.folder), sandbox, views, format_)
        return None
    asked = LogAsked(settings, {view.source.name: view.source for view in views.views().values()}.values())
    with Sandbox(limits, ready=1) as sandbox:
        found = ask(sandbox, views, sys.stdin.read() if statement is None else statement)
    sources = {views.views()[name].source.name for name in found.provenance}
    ends = {source: end for source, end in asked.ends().items() if source in sources}
    if (told := warning(settings, views.store.pinned().snapshot, ends)) is not None:
        call.say(f"tandem: {told}")
    at = datetime.now(UTC)
    return Output(document(found, at), shown(found, format_, at))
