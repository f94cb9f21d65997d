"""`tandem archive`: copy new records of the log into Delta tables, and decode them."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from tandem.batch.archive import write_archive
from tandem.cli.command.batch_run import batch_run
from tandem.cli.command.call import Call, Output
from tandem.views.counted import counted


def run(
    call: Call,
    *,
    new_topic: Annotated[
        bool,
        typer.Option("--new-topic", help="Continue with a topic that was deleted and created again, or moved to another broker."),
    ] = False,
) -> Output:
    """Copy every source's new records into the archive byte for byte, and decode them into events and quarantine.

    The command first completes an interrupted run. If another run is active, it waits for that run and then continues.
    """
    with batch_run(call, "archive") as batch:
        done = write_archive.run(batch, call.publishable, new_topic=new_topic)
    return Output({"sources": archived_document(done)}, "\n".join(map(archived_sentence, done)))


def archived_document(done: Sequence[write_archive.ArchiveResult]) -> dict[str, Any]:
    """The result by source."""
    return {one.source: {"end": one.end.to_json(), **one.counts.to_json(), "gaps": list(one.gaps)} for one in done}


def archived_sentence(one: write_archive.ArchiveResult) -> str:
    """The line about a source."""
    counts = one.counts
    gaps = f"; gaps found: {', '.join(one.gaps)}" if one.gaps else ""
    return (
        f"{one.source}: {counted(counts.events, 'event')} and {counted(counts.rejects, 'reject')} archived, up to {one.end}{gaps}"
    )
