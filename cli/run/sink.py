"""`tandem sink`: keep a sink's target equal to its view, in the foreground."""

import json
import secrets
import sys
from contextlib import closing
from threading import Thread
from typing import Annotated

import typer

from tandem.cli.command import signals
from tandem.cli.command.call import Call, Output
from tandem.ledger.delta.addresses import Tables
from tandem.serving.connection import EVERY_S, Connection
from tandem.serving.memory.store import Store
from tandem.serving.sinks.definition import check_sink, rows_of, target_of
from tandem.serving.sinks.follow import SinkStep, follow, token_of_target
from tandem.serving.sinks.target import SinkInProject
from tandem.views.errors import DefinitionError, listed


def run(
    call: Call,
    name: Annotated[str, typer.Argument(help="The sink's name.")],
    *,
    once: Annotated[bool, typer.Option("--once", help="Bring the target to the newest snapshot, and end.")] = False,
) -> Output | None:
    """Keep the target of a sink equal to its view, until Ctrl-C: one step at every commit and publication that changes a row.

    A step writes rows, deletes rows, and stores the token up to which the target is the view; all or nothing. The next run
    continues from that token. It compares all rows first if the token has expired, or if another program has written.
    """
    settings, project = call.settings(), call.definitions()
    if name not in project.sinks:
        raise DefinitionError(f"no sink {name!r} in the project; sinks: {listed(name, project.sinks)}")
    sink = project.sinks[name]
    defined = SinkInProject(sink, project, settings, call.project)
    check_sink(defined)
    target = target_of(defined)
    store = Store(Tables.of(settings), secrets.randbits(64), settings.serving.memory_mb << 20)
    with closing(Connection(store)) as connection:
        view, wanted = connection.view(sink.view.name), rows_of(sink)
        if once:
            # A closed connection has one snapshot, and its changes end there.
            connection.close()
            steps = list(follow(view, target, wanted))
            document = {
                "sink": name,
                "view": view.name,
                "rows": sum(step.rows for step in steps),
                "gone": sum(step.gone for step in steps),
                "compared": any(step.compared for step in steps),
                "token": token_of_target(target),
            }
            compared = ", after a comparison of all rows" if document["compared"] else ""
            return Output(document, f"sink {name}: wrote {document['rows']} and deleted {document['gone']} rows{compared}")
        connection.follow(EVERY_S)
        with signals.stopping() as stop:

            def end() -> None:
                stop.wait()
                connection.close()

            Thread(target=end, daemon=True).start()
            for step in follow(view, target, wanted):
                sys.stdout.write(f"{_line(step, as_json=call.json)}\n")
                sys.stdout.flush()
    return None


def _line(step: SinkStep, *, as_json: bool) -> str:
    if as_json:
        return json.dumps({"rows": step.rows, "gone": step.gone, "compared": step.compared, "token": step.token})
    return f"wrote {step.rows} and deleted {step.gone} rows{', after a comparison of all rows' if step.compared else ''}"
