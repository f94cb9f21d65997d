"""`tandem import`: make an export of another installation part of the archive."""

from pathlib import Path
from typing import Annotated

import typer

from tandem.batch.transfer import import_archive
from tandem.cli.command.call import Call, Output
from tandem.cli.command.published_definitions import definitions
from tandem.infra import clock
from tandem.ledger.delta.addresses import Tables


def run(
    call: Call, *, folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder that `tandem export` wrote.")]
) -> Output:
    """Add the records of an export that the archive lacks to the archive of each exported source.

    The command verifies every file first. Nothing becomes visible unless each file matches the manifest, and the archive has
    the same records at the same positions and continues where DIR does. After a crash, run it again: the result is the same.

    Then `tandem archive` decodes the imported records and continues with this installation's own topic, whose records follow
    the imported ones in the order of the log. Add `--new-topic` to it where that topic has the same name as the exported topic
    but is another topic. Neither Spark nor the broker is needed.
    """
    settings = call.settings()
    names = list(definitions(call, Tables.of(settings)).sources)
    done = import_archive.run(settings, folder, names, now=clock.now, say=call.say)
    document = {"sources": {one.source: {"new": one.new, "records": one.records, "end": one.end.to_json()} for one in done}}
    return Output(document, "\n".join(_sentence(one) for one in done))


def _sentence(one: import_archive.Imported) -> str:
    return f"{one.source}: {f'{one.records} records imported' if one.new else 'nothing new'}, up to {one.end}"
