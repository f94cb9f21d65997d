"""`tandem receipt`: compute an answer again from its receipt."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from tandem.cli.ask.receipt_file import load_receipt
from tandem.cli.command.call import Call, Output
from tandem.ledger.delta.addresses import Tables
from tandem.serving.why import refold
from tandem.serving.why.topic_tail import TopicTail


def run(
    call: Call,
    _action: Annotated[Literal["check"], typer.Argument(metavar="check", help="What to do.")],
    file: Annotated[Path, typer.Argument(help="The receipt, as `tandem query --receipt` or a server wrote it.")],
) -> Output:
    """Compute an answer again from its receipt, and print the receipt of what was computed.

    The events up to the receipt's positions come from the archive, and what is not archived from the topic. The definitions are
    those of the receipt's release. Equal rows give the same bytes as the receipt has. Otherwise, and if records, the release or
    its code are gone, a sentence says so and the exit code is 1. Versions of libraries that have changed are named, too.
    """
    settings = call.settings()
    tables = Tables.of(settings)
    checked = refold.check(tables, TopicTail(settings, tables), load_receipt(file))
    for line in (*checked.problems, *checked.notes):
        call.say(f"tandem: {line}")
    document = {
        "equal": not checked.problems,
        "problems": [*checked.problems],
        "notes": [*checked.notes],
        "receipt": json.loads(checked.again.line()),
    }
    return Output(document, data=None if call.json else checked.again.line(), code=1 if checked.problems else 0)
