"""`tandem watch`: a view's rows as they change."""

import json
import secrets
import sys
from collections.abc import Iterator
from contextlib import closing
from threading import Thread
from typing import Annotated

import typer

from tandem.cli.command import signals
from tandem.cli.command.call import Call
from tandem.cli.command.options import ReleaseOption, release_of
from tandem.ledger.delta.addresses import Tables
from tandem.serving.changes import Changes
from tandem.serving.connection import EVERY_S, Connection
from tandem.serving.memory.store import Store
from tandem.serving.read.outputs import Late, Output
from tandem.serving.read.selection import parse_keys
from tandem.views.counted import counted
from tandem.views.kernel.rows import written


def run(
    call: Call,
    view: Annotated[str, typer.Argument(help="The view's name.")],
    *,
    since: Annotated[
        str | None, typer.Option(metavar="TOKEN", help="Continue after an earlier watch: the last token that it printed.")
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Rows with this value of a key; NAME alone means NULL. Once per key."),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(metavar="CONDITION", help="Rows for which this SQL over the answer's columns is true, such as 'n > 100'."),
    ] = None,
    measures: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Measures, separated by commas; a row is printed when one of them changes."),
    ] = None,
    output: Annotated[
        Output,
        typer.Option(
            help="`update`: rows with present values; `append`: a row once, when its window is final; `changes`: before, after.",
        ),
    ] = "update",
    late: Annotated[
        Late, typer.Option(help="With `--output append`: print a row that changes after it was final, or only count it.")
    ] = "send",
    when: Annotated[
        str,
        typer.Option(
            metavar="WHEN",
            help="After which commits to print: `commit`, each; `every:10s` of the log's time; `delay:10s` after the first "
            "change; `count:100` records.",
        ),
    ] = "commit",
    release: ReleaseOption = None,
) -> None:
    """Print the rows of a view that changed since the last update, at every commit and publication, until Ctrl-C.

    * `+` is a new or changed row.
    * `-` is the keys and window of a deleted row.
    * `#` is the token for `--since`, which continues without loss or repetition.

    With `--key` or `--where` a row that enters the filter is `+`, and a row that leaves it is `-`. Continue with the same filter.

    With `--output append` a changed row of a window that was final before is `~`, and with `--late drop` a line counts them. With
    `--output changes` each line is a document with `op` (c, u, d, or r for the rows at the beginning), `before` and `after`. Both
    begin with the rows that are there, unless `--since` is given.

    With `--when` an update has several commits, each row once. `every` and `delay` go by the time at which the log received its
    newest counted record, and while no record comes by the clock of this process.

    With `--json` each update is one line with all three. An update may be a token alone, while no row changes. A token expires
    when the tables no longer keep its snapshot; then `query` returns all rows.
    """
    settings = call.settings()
    memory, asked = settings.serving.memory_mb << 20, release_of(settings, release)
    store = Store(Tables.of(settings), secrets.randbits(64), memory, asked=asked)
    with closing(Connection(store).follow(EVERY_S)) as connection, signals.stopping() as stop:
        watched = connection.view(view)

        def end() -> None:
            stop.wait()
            connection.close()

        Thread(target=end, daemon=True).start()
        keys = parse_keys(connection.pinned().view(view), key or [])
        columns = None if measures is None else measures.split(",")
        updates = watched.changes(since, keys=keys, where=where, measures=columns, output=output, late=late, when=when)
        for found in updates:
            for line in [_document(found, output)] if call.json else _lines(found, output):
                sys.stdout.write(f"{line}\n")
            sys.stdout.flush()


def _document(found: Changes, output: Output) -> str:
    document: dict[str, object] = {"rows": found.rows.rows(), "gone": _gone(found)}
    if output == "append":
        document["late"] = found.late if isinstance(found.late, int) else found.late.rows()
    if output == "changes":
        document = {"changes": found.envelopes()}
    return json.dumps({**document, "token": found.token}, ensure_ascii=False)


def _lines(found: Changes, output: Output) -> Iterator[str]:
    if output == "changes":
        yield from (json.dumps(change, ensure_ascii=False) for change in found.envelopes())
    else:
        yield from (f"+ {json.dumps(row, ensure_ascii=False)}" for row in found.rows.rows())
        if not isinstance(found.late, int):
            yield from (f"~ {json.dumps(row, ensure_ascii=False)}" for row in found.late.rows())
        elif found.late:
            yield f"~ {counted(found.late, 'late change')} dropped"
        yield from (f"- {json.dumps(row, ensure_ascii=False)}" for row in _gone(found))
    yield f"# {found.token}"


def _gone(found: Changes) -> list[dict[str, object]]:
    """The keys and windows of rows that are no more, as JSON has them."""
    schema = found.rows.table.schema
    columns = [
        written(found.gone[name].combine_chunks(), schema.field(name) if name in schema.names else found.gone.schema.field(name))
        for name in found.gone.column_names
    ]
    return [dict(zip(found.gone.column_names, row, strict=True)) for row in zip(*columns, strict=True)]
