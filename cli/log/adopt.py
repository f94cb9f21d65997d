"""`tandem adopt`: make the rows of a table the history of a source."""

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from tandem.batch.adopt import adopt
from tandem.cli.command.batch_run import batch_run
from tandem.cli.command.call import Call, Output
from tandem.cli.command.published_definitions import definitions
from tandem.cli.command.published_definitions import source as source_of
from tandem.ledger.delta.addresses import Tables
from tandem.views.counted import counted
from tandem.views.errors import TandemError


def run(
    call: Call,
    *,
    source: Annotated[str, typer.Argument(help="The source whose history the table has.")],
    from_: Annotated[
        Path, typer.Option("--from", metavar="TABLE", help="A folder of Parquet, CSV or JSON files, or of a Delta table.")
    ],
    map_: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="FIELD=EXPRESSION", help="SQL of Spark for a field of the event type; may be repeated."),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Refuse unless the source declares history_until at this time.")
    ] = None,
) -> Output:
    """Add the rows of TABLE to the archive of SOURCE, before all records of its topics in the order of the log.

    Run it before `tandem up` and `tandem archive`. A field of the event type is read from the column of its name, or from
    --map. Each row becomes a JSON object with these fields; a header names its file and the version of the table.

    An event that both the table and the log have counts once: by the time that the source declares as history_until, else by
    the source's identity. The command refuses a source without either. A later run adds the new files of the table, and
    refuses a table that changed files that were adopted. After a crash, run it again.

    Then `tandem archive` decodes the rows. The broker is not needed.
    """
    settings = call.settings()
    chosen = source_of(definitions(call, Tables.of(settings)), source)
    request = adopt.AdoptRequest(from_, _expressions(map_ or ()), None if until is None else _time(until))
    with batch_run(call, "adopt", copies=True) as batch:
        done = adopt.run(batch, chosen, request)
    document = {"source": source, "version": done.version, "files": done.files, "rows": done.rows, "seam": done.seam}
    version = f" of version {done.version}" if done.version else ""
    return Output(
        document, f"{source}: {counted(done.rows, 'row')}{version} adopted from {counted(done.files, 'file')}; {done.seam}"
    )


def _expressions(texts: list[str] | tuple[str, ...]) -> dict[str, str]:
    expressions = {}
    for text in texts:
        name, separator, expression = text.partition("=")
        if not separator or not name or not expression.strip():
            raise TandemError(
                f"invalid --map {text!r}; expected FIELD=EXPRESSION, such as price=amount/100", code="usage-invalid"
            )
        expressions[name] = expression
    return expressions


def _time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise TandemError(
            f"invalid --until {text!r}; expected a time with a zone, such as 2026-11-01T00:00:00Z", code="usage-invalid"
        )
    return time
