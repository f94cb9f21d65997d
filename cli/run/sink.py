"""`tandem sink`: keep the targets of sinks equal to their views, in the foreground."""

import json
import os
import secrets
import sys
from collections.abc import Collection
from contextlib import closing
from threading import Event, Thread
from typing import Annotated, Final

import typer

from tandem.cli.command import signals
from tandem.cli.command.call import Call, Output
from tandem.cli.command.command_log import part_log
from tandem.cli.run import alerts, part_processes
from tandem.infra.process import background
from tandem.infra.process.pulse import Heart
from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.serving.connection import EVERY_S, Connection
from tandem.serving.memory.store import Store
from tandem.serving.sinks.definition import sinks_of
from tandem.serving.sinks.follow import SinkStep, token_of_target
from tandem.serving.sinks.run import SinkRunner, fingerprint
from tandem.serving.sinks.target import SinkInProject
from tandem.serving.status.sink_report import forget_others
from tandem.views.errors import DefinitionError, TandemError, listed
from tandem.views.project.project import Project

POLLS: Final = "publications and commits"
"""The loop of the pulse that polls the project's tables."""
_BEAT_S: Final = 0.5


def run(
    call: Call,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The sink's name; without it all sinks and alerts.")
    ] = None,
    *,
    once: Annotated[bool, typer.Option("--once", help="Bring the target to the newest snapshot, and end.")] = False,
) -> Output | None:
    """Keep the target of a sink equal to its view, until Ctrl-C: one step at every commit and publication that changes a row.

    A step writes rows, deletes rows, and stores the token up to which the target is the view; all or nothing. The next run
    continues from that token. It compares all rows first if the token has expired, or if another program has written.

    Without a name it runs all sinks and alerts of the project, as the process of `up` does: a sink that fails is tried again,
    and later after each failure; the others go on meanwhile. With a name an error ends the command. A sink that another process
    of this project runs is refused.
    """
    settings, project = call.settings(), call.definitions()
    sinks = sinks_of(project, settings, call.project)
    if name is None:
        if once:
            raise TandemError("--once needs the name of a sink", code="usage-invalid")
        _run_all(call, settings, sinks.values(), project)
        return None
    if name not in sinks:
        raise DefinitionError(f"no sink {name!r} in the project; sinks: {listed(name, sinks)}")
    with closing(_connection(settings)) as connection:
        runner = SinkRunner(connection)
        if once:
            return _run_once(runner, sinks[name])
        connection.follow(EVERY_S)
        with signals.stopping() as stop:

            def end() -> None:
                while not stop.wait(EVERY_S):
                    runner.compare()
                connection.close()

            Thread(target=end, daemon=True).start()
            for step in runner.steps(sinks[name]):
                sys.stdout.write(f"{_line(step, as_json=call.json)}\n")
                sys.stdout.flush()
    return None


def _connection(settings: Settings) -> Connection:
    return Connection(Store(Tables.of(settings), secrets.randbits(64), settings.serving.memory_mb << 20))


def _run_once(runner: SinkRunner, defined: SinkInProject) -> Output:
    sink = defined.sink
    with runner.target(defined) as target:
        runner.connection.pinned()
        # A closed connection has one snapshot, and its changes end there.
        runner.connection.close()
        steps = list(runner.write(defined, target))
        runner.compare()
        token = token_of_target(target)
    document = {
        "sink": sink.name,
        "view": sink.view.name,
        "rows": sum(step.rows for step in steps),
        "gone": sum(step.gone for step in steps),
        "compared": any(step.compared for step in steps),
        "token": token,
    }
    compared = ", after a comparison of all rows" if document["compared"] else ""
    return Output(document, f"sink {sink.name}: wrote {document['rows']} and deleted {document['gone']} rows{compared}")


def _run_all(call: Call, settings: Settings, sinks: Collection[SinkInProject], project: Project) -> None:
    """Run all sinks and alerts, and announce that to the supervisor if it has started this process."""
    if not sinks and not project.alerts:
        raise DefinitionError("the project has no sinks and no alerts; docs/sinks.md shows how definitions.py declares one")
    mine = background.running(settings.folder, part_processes.SINK)
    supervised = mine is not None and mine.pid == os.getpid()
    heart = Heart(settings.folder, part_processes.SINK) if supervised else None
    with (
        part_log(call, settings, part_processes.SINK) as log,
        signals.stopping() as stop,
        closing(_connection(settings)) as connection,
    ):
        forget_others(settings.folder, frozenset(defined.sink.name for defined in sinks))
        runner = SinkRunner(connection)
        threads = runner.keep(sinks, stop, log)
        if project.alerts:
            threads.threads.append(alerts.keep(settings, project, connection.store, stop, log))
        if heart is not None:
            heart.beat()
            heart.begins(0, POLLS)
            Thread(target=_beat, args=(heart, stop), daemon=True).start()
            meant = fingerprint([defined.sink for defined in sinks], project.alerts.values())
            part_processes.announce(settings.folder, part_processes.SINK, sinks=meant)
        try:
            while not stop.wait(EVERY_S):
                connection.refresh()
                runner.compare()
                if heart is not None:
                    heart.looked(0, POLLS)
        finally:
            stop.set()
            connection.close()
            threads.join()
            if heart is not None:
                heart.ends(0, POLLS)
                part_processes.withdraw(settings.folder, part_processes.SINK)


def _beat(heart: Heart, stop: Event) -> None:
    """Say that the process lives, however long a poll or a step takes."""
    while not stop.wait(_BEAT_S):
        heart.beat()


def _line(step: SinkStep, *, as_json: bool) -> str:
    if as_json:
        return json.dumps({"rows": step.rows, "gone": step.gone, "compared": step.compared, "token": step.token})
    return f"wrote {step.rows} and deleted {step.gone} rows{', after a comparison of all rows' if step.compared else ''}"
