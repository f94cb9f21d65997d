"""`tandem sql`: DuckDB SQL over the published views, one statement or a prompt."""

import secrets
import sys
from typing import Annotated

import typer

from tandem.cli.ask.row_output import BINARY, FormatOption, OutOption, format_of, output
from tandem.cli.ask.sql_output import row_output
from tandem.cli.command.call import Call, Output
from tandem.cli.command.options import ReleaseOption, release_of
from tandem.cli.command.uncounted import LogAsked, warning
from tandem.infra import clock
from tandem.ledger.delta.addresses import Tables
from tandem.serving.memory.store import Store
from tandem.serving.sql.limits import MIB, StatementLimits
from tandem.serving.sql.merged_views import MergedViews, ask
from tandem.serving.sql.sandbox import Sandbox
from tandem.views.errors import TandemError
from tandem.views.source.united_source import all_sources


def run(
    call: Call,
    statement: Annotated[
        str | None,
        typer.Argument(help="One SELECT. Without it, a prompt on a terminal, else standard input."),
    ] = None,
    *,
    release: ReleaseOption = None,
    format_: FormatOption = None,
    out: OutOption = None,
    seconds: Annotated[float, typer.Option(min=0.1, help="Maximum duration of a statement.")] = 60.0,
    memory: Annotated[
        int, typer.Option(min=64, metavar="MIB", help="Maximum memory of a statement, not counting the views.")
    ] = 1024,
    rows: Annotated[int, typer.Option(min=1, metavar="N", help="Maximum number of rows in a result.")] = 1_000_000,
) -> Output | None:
    """Query the published views in DuckDB's SQL, one SELECT at a time. Each view is a table; all share one snapshot.

    Each statement runs in its own process, which can read only the views that the statement names. See docs/sql.md. One line
    on stderr states how many records of their logs are not counted yet, and whether the broker or the speed layer is dead or
    stuck. It also names offsets that wait behind a transaction that has been open for more than a minute.
    """
    limits = StatementLimits(seconds=seconds, memory=memory * MIB, rows=rows, bytes=memory * MIB)
    how = format_of(call, format_, out)
    settings = call.settings()
    asked = release_of(settings, release)
    views = MergedViews(Store(Tables.of(settings), secrets.randbits(64), settings.serving.memory_mb << 20, asked=asked))
    views.views()  # fails before anything starts if nothing is published or readable
    if statement is None and sys.stdin.isatty():
        whole = "--json" if call.json else "--out" if out is not None else f"--format {how}" if how in BINARY else None
        if whole is not None:
            raise TandemError(f"{whole} needs a statement as an argument or on standard input", code="usage-invalid")
        from tandem.cli.ask.sql_prompt import converse, terminal  # noqa: PLC0415  the line editor is loaded only for a prompt

        with Sandbox(limits) as sandbox:
            converse(terminal(views, settings.folder), sandbox, views, how)
        return None
    log = LogAsked(settings, all_sources(view.source for view in views.views().values()).values())
    with Sandbox(limits, ready=1) as sandbox:
        found = ask(sandbox, views, sys.stdin.read() if statement is None else statement)
    sources = {*all_sources(views.views()[name].source for name in found.provenance)}
    ends = {source: end for source, end in log.ends().items() if source in sources}
    now = clock.now()
    if (told := warning(settings, views.store.pinned().snapshot, ends, now=now)) is not None:
        call.say(f"tandem: {told}")
    return output(call, row_output(found, now), how, out)
