"""`tandem replay`: rebuild a topic from the archive."""

import re
from typing import Annotated

import typer

from tandem.batch.transfer import replay
from tandem.cli.command.call import Call, Output
from tandem.cli.command.published_definitions import definitions
from tandem.cli.command.published_definitions import source as source_of
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.positions import Position
from tandem.views.errors import TandemError


def run(
    call: Call,
    *,
    source: Annotated[str, typer.Argument(help="The source whose archived records are sent.")],
    to: Annotated[str, typer.Option(metavar="TOPIC", help="An empty or absent topic.")],
    from_: Annotated[
        list[str] | None,
        typer.Option("--from", metavar="POSITION", help="Skip records before TOPIC-ID/PARTITION:OFFSET; may be repeated."),
    ] = None,
) -> Output:
    """Send every archived record of SOURCE to TOPIC with the same key, value, headers, timestamp, partition and order.

    * Within a partition, the source's topics, and the generations of each topic, follow one another in the order of the log.
    * Offsets change: gaps, records of aborted transactions and markers do not take one in TOPIC.
    * If the command creates TOPIC, that topic retains records of any age; retention by their old timestamps would delete them
      at once.
    * After a crash, run it again: it continues from the topic's end.
    * At the end it verifies the counts of each partition.

    The broker is needed; Spark is not.
    """
    settings = call.settings()
    chosen = source_of(definitions(call, Tables.of(settings)), source)
    done = replay.run(settings, chosen, to, position_of(from_ or ()), say=call.say)
    records = sum(done.records.values())
    document = {
        "source": source,
        "topic": {"name": done.topic.name, "id": done.topic.id},
        "records": records,
        "sent": done.sent,
        "partitions": {str(number): count for number, count in done.records.items()},
    }
    counted = ", ".join(f"{number}: {count}" for number, count in done.records.items())
    return Output(document, f"topic {to} has all {records} records of {source}, {done.sent} sent now; by partition {counted}")


def position_of(given: list[str] | tuple[str, ...]) -> Position:
    """The position that texts such as TOPIC-ID/PARTITION:OFFSET give. Raises TandemError."""
    offsets = {}
    for text in given:
        parts = re.fullmatch(r"([\w-]+)/(\d+):\s*(\d+)", text, re.ASCII)
        if parts is None:
            raise TandemError(
                f"invalid --from {text!r}; expected TOPIC-ID/PARTITION:OFFSET, as `tandem archive` prints it",
                code="usage-invalid",
            )
        offsets[parts[1], int(parts[2])] = int(parts[3])
    return Position.of(offsets)
