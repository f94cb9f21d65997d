"""`tandem sink`: keep the targets of sinks equal to their views, in the foreground."""

import json
import os
import secrets
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from threading import Event, Thread
from typing import Annotated, Final

import typer

from tandem.cli.command import signals
from tandem.cli.command.call import Call, Output
from tandem.cli.command.command_log import part_log
from tandem.cli.run import alerts, part_processes
from tandem.infra import folders
from tandem.infra.process import background
from tandem.infra.process.pulse import Heart
from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.hot.feed import HotFeed
from tandem.serving.connection import EVERY_S, Connection
from tandem.serving.memory.store import Store
from tandem.serving.sinks.changes_to_send import SinkStep, await_answers, token_in, token_of_target
from tandem.serving.sinks.definition import follows_hot, sinks_of
from tandem.serving.sinks.polls import SinkPolls
from tandem.serving.sinks.sink_threads import SinkRunner, fingerprint
from tandem.serving.sinks.target import SinkInProject, Target
from tandem.serving.status.sink_report import forget_others
from tandem.speed.hot.process import hot_process, why_not
from tandem.views.errors import DefinitionError, TandemError, listed
from tandem.views.project.project import Project

POLLS: Final = "publications and commits"
"""The loop of the pulse that polls the project's tables."""
_BEAT_S: Final = 0.5
_FOLD_S: Final = 0.05
"""Seconds between two folds of a hot tail for sinks, at least: each costs the sinks a step, and the target a transaction."""


def run(
    call: Call,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The sink's name; without it all sinks and alerts.")] = None,
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
    if once:
        with closing(_connection(settings)) as connection:
            return _run_once(SinkRunner(connection), sinks[name])
    with signals.stopping() as stop, _polls(call, settings, [sinks[name]], call.say) as polls:
        runner, broken = SinkRunner(polls.connection, polls.hot), list[BaseException]()

        def poll() -> None:
            try:
                while not stop.is_set():
                    if polls.wait():
                        runner.compare()
            except BaseException as error:  # noqa: BLE001 - it ends the command
                broken.append(error)
            finally:
                polls.close()

        Thread(target=poll, daemon=True).start()
        for step in runner.steps(sinks[name]):
            sys.stdout.write(f"{_line(step, as_json=call.json)}\n")
            sys.stdout.flush()
        if broken:
            raise broken[0]
    return None


@contextmanager
def _polls(
    call: Call, settings: Settings, sinks: Collection[SinkInProject], log: Callable[[str], object], *, alerts: bool = False
) -> Iterator[SinkPolls]:
    """The connections of sinks, with a hot tail if one of them follows it; the process that folds it ends with the block."""
    hot = any(follows_hot(each.sink) for each in sinks) and why_not(settings) is None
    cold = not hot or alerts or not all(follows_hot(each.sink) for each in sinks)
    feed = HotFeed(time.monotonic) if hot else None
    every_s = max(EVERY_S, settings.serving.poll_ms / 1000)
    polls = SinkPolls(_connection(settings) if cold else None, _connection(settings, feed) if hot else None, feed, every_s)
    environ = folders.child_environment(call.environ)
    with hot_process(call.project, environ, feed, log, reader="sinks", least_s=_FOLD_S), closing(polls):
        yield polls


def _connection(settings: Settings, feed: HotFeed | None = None) -> Connection:
    return Connection(Store(Tables.of(settings), secrets.randbits(64), settings.serving.memory_mb << 20, feed))


def _run_once(runner: SinkRunner, defined: SinkInProject) -> Output:
    sink = defined.sink
    with runner.target(defined) as target:
        runner.connection.follow(EVERY_S)
        if isinstance(target, Target):
            await_answers(runner.connection.view(sink.view.name), token_in(target.newest()))
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
        _polls(call, settings, sinks, log.warning, alerts=bool(project.alerts)) as polls,
    ):
        forget_others(settings.folder, frozenset(defined.sink.name for defined in sinks))
        runner = SinkRunner(polls.connection, polls.hot)
        threads = runner.keep(sinks, stop, log)
        if project.alerts:
            threads.threads.append(alerts.keep(settings, project, polls.connection.store, stop, log))
        if heart is not None:
            heart.beat()
            heart.begins(0, POLLS)
            Thread(target=_beat, args=(heart, stop), daemon=True).start()
            meant = fingerprint([defined.sink for defined in sinks], project.alerts.values())
            part_processes.announce(settings.folder, part_processes.SINK, sinks=meant)
        try:
            while not stop.is_set():
                if polls.wait():
                    runner.compare()
                    if heart is not None:
                        heart.looked(0, POLLS)
        finally:
            stop.set()
            polls.close()
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
