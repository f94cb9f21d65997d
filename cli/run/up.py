"""`tandem up`: start the parts of a project, detached and supervised, and return when all of them work."""

import time
from collections.abc import Collection
from typing import Annotated

import typer

from tandem.cli.command.call import Call, Output
from tandem.cli.command.published_definitions import definitions
from tandem.cli.run import part_processes, server_port
from tandem.cli.run.supervisor_client import Supervised
from tandem.infra import kafka
from tandem.infra.airflow import local_airflow
from tandem.infra.files import private_files
from tandem.infra.kafka import broker, broker_login
from tandem.infra.process import background
from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.views.alert import Alert
from tandem.views.errors import DefinitionError, TandemError
from tandem.views.instant import APPEND_TIME
from tandem.views.sinks.sink import Sink
from tandem.views.source.source import Source


def run(
    call: Call,
    *,
    with_airflow: Annotated[
        bool,
        typer.Option("--airflow", help="Also start a local Airflow, which recomputes, verifies and maintains on a schedule."),
    ] = False,
    with_server: Annotated[
        bool, typer.Option("--serve", help="Also start the HTTP server on 127.0.0.1 at serving.port.")
    ] = False,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, metavar="N", help="With --serve: the server's port, in place of serving.port.")
    ] = None,
) -> Output:
    """Start the project's broker, speed layer and sinks, create its topics, and return when all parts work.

    A supervisor keeps the parts running until `tandem down`, even if this terminal closes:

    * It restarts a part that ends or hangs, and waits longer after each failure.
    * It gives up on a part after `supervisor.failures` failures in a row; the next `tandem up` tries again.
    * It leaves a running part alone. `up` returns when each part has answered or polled the log.

    With --airflow, `up` also starts a local Airflow on 127.0.0.1. The first time it installs Airflow into .venv-airflow and
    prints the password. With --serve it also starts `tandem serve`. The supervisor keeps all of them
    running too.

    A port that another program uses is reported before anything starts. In place of the server's default port `up` takes a
    free one, and prints it.
    """
    if port is not None and not with_server:
        raise TandemError("--port needs --serve", code="usage-invalid")
    settings = call.settings()
    if (wider := private_files.narrow(settings.folder)) is not None:
        call.say(f"the state folder {settings.folder} had mode {wider:04o}, so other users could read it; changed it to 0700")
    sources = definitions(call, Tables.of(settings)).sources.values()
    outputs = _outputs(call, settings)
    with background.starting(settings.folder):
        supervised = Supervised(call, settings, time.monotonic())
        if with_server:
            server_port.choose(settings, port, call.say)
        if not settings.kafka.bootstrap:
            if not background.running(settings.folder, broker.NAME):
                broker.refuse_taken_port(settings)
                call.say("starting the broker")
            elif fault := broker_login.fault(settings):
                call.say(f"{fault}; the supervisor restarts the broker with the file's password, or with a new one")
            supervised.provide([broker.NAME])
        _make_topics(settings, sources)
        if not background.running(settings.folder, part_processes.SPEED):
            call.say("starting the speed layer")
        supervised.provide([part_processes.SPEED])
        if with_server:
            supervised.provide([part_processes.SERVER])
        if outputs is not None:
            _provide_outputs(call, settings, supervised, *outputs)
        if with_airflow:
            _provide_airflow(call, settings, supervised)
    document = part_processes.document(settings)
    return Output(document, "\n".join(part_processes.sentences(document)))


def _make_topics(settings: Settings, sources: Collection[Source]) -> None:
    topics = list(dict.fromkeys(topic for source in sources for topic in source.topics))
    own_time = [topic for source in sources if source.event_time == APPEND_TIME for topic in source.topics]
    connection = kafka.connect(broker.address(settings))
    kafka.create(connection, topics, settings, own_time=own_time)


def _outputs(call: Call, settings: Settings) -> tuple[Collection[Sink], Collection[Alert]] | None:
    """The sinks and alerts of the project's folder; None if its definitions are invalid. Raises SinkRefused, BadSelection."""
    try:
        project = call.definitions()
    except DefinitionError as error:
        call.say(f"the process of sinks and alerts is neither started nor changed, since the definitions are invalid: {error}")
        return None
    if not project.sinks:
        return (), project.alerts.values()
    from tandem.serving.sinks.definition import check_sink, sinks_of  # noqa: PLC0415 - few projects have a sink

    sinks = sinks_of(project, settings, call.project)
    for defined in sinks.values():
        check_sink(defined)
    return [defined.sink for defined in sinks.values()], project.alerts.values()


def _provide_outputs(
    call: Call, settings: Settings, supervised: Supervised, sinks: Collection[Sink], alerts: Collection[Alert]
) -> None:
    """Keep one process running for all sinks and alerts, and none without any; it restarts if they have changed."""
    name, running = part_processes.SINK, background.running(settings.folder, part_processes.SINK)
    what = " and ".join(word for word, some in (("sinks", sinks), ("alerts", alerts)) if some)
    if not what:
        if running is not None:
            call.say("the project has no sinks and alerts any more: ending their process")
            supervised.end([name])
        return
    from tandem.serving.sinks.sink_threads import fingerprint  # noqa: PLC0415 - few projects have a sink

    facts = None if running is None else part_processes.announced(settings.folder, name, running)
    if running is None:
        call.say(f"starting the {what}")
    elif facts is not None and facts["sinks"] != fingerprint(sinks, alerts):
        call.say(f"the {what} have changed: restarting their process")
        supervised.end([name])
    supervised.provide([name])


def _provide_airflow(call: Call, settings: Settings, supervised: Supervised) -> None:
    prepared = local_airflow.prepare(settings, call.project, environ=call.environ, say=call.say)
    if prepared.password is not None:
        kept = local_airflow.passwords(settings)
        call.say(f"Airflow is at {prepared.address}; user {local_airflow.USER}, password {prepared.password} (stored in {kept})")
    if not background.running(settings.folder, local_airflow.API):
        call.say("starting Airflow")
    supervised.provide(local_airflow.NAMES)
