"""`tandem import`: make an export of another installation part of the archive."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from batch import importing
from cli.call import Call, Output
from cli.published import definitions
from ledger.tables import Tables


def run(call: Call, *, folder: Annotated[Path, typer.Argument(metavar="DIR", help="What `tandem export` wrote.")]) -> Output:
    """Make what DIR has, and the archive lacks, part of the archive of each source that DIR has.

    Every file is verified first: nothing is visible unless all are what the manifest says, and the archive has the same records
    at the same positions and goes on where DIR does. Killed anywhere, run it again: the result is the same. Then `tandem archive`
    decodes what came, and goes on with this installation's own topic, whose records come after the imported ones in the order of
    the log. It wants `--new-topic` where that topic has the name of the exported one and is another. Needs neither Spark nor the
    broker.
    """
    settings = call.settings()
    names = list(definitions(call, Tables(settings.state)).sources)
    done = importing.run(settings, folder, names, now=lambda: datetime.now(UTC), say=call.say)
    document = {"sources": {one.source: {"new": one.new, "records": one.records, "end": one.end.to_json()} for one in done}}
    return Output(document, "\n".join(_sentence(one) for one in done))


def _sentence(one: importing.Imported) -> str:
    return f"{one.source}: {f'{one.records} records imported' if one.new else 'nothing new'}, up to {one.end}"
