"""`tandem up`: start what a project runs on, detached, and return when all of it is ready."""

from typing import Annotated

import typer

from cli import parts
from cli.call import Call, Output
from cli.published import definitions
from infra import airflow, broker, kafka, private, processes
from ledger.tables import Tables
from views.source import APPEND_TIME


def run(
    call: Call,
    *,
    with_airflow: Annotated[
        bool, typer.Option("--airflow", help="Also a local Airflow, which recomputes, verifies and maintains on schedule.")
    ] = False,
) -> Output:
    """Start the broker and the speed layer of the project, make its topics, and return when all of it is ready.

    With --airflow also an Airflow of this project, on 127.0.0.1; the first time it is installed into .venv-airflow and its
    password is shown. What runs already is left alone. `tandem down` stops it; until then it runs on, whatever becomes of this
    terminal.
    """
    settings = call.settings()
    state = settings.folder
    if (wider := private.narrow(state)) is not None:
        call.say(f"the state folder {state} had mode {wider:04o}; other users could read it, so it now has mode 0700")
    sources = definitions(call, Tables(settings.state)).sources.values()
    with processes.starting(state):
        if not settings.kafka.bootstrap and not processes.running(state, broker.NAME):
            call.say("starting the broker")
            broker.start(settings, environ=call.environ)
        topics = list(dict.fromkeys(topic for source in sources for topic in source.topics))
        own_time = [topic for source in sources if source.event_time == APPEND_TIME for topic in source.topics]
        connection = kafka.connect(broker.address(settings))
        kafka.create(connection, topics, settings, own_time=own_time)
        kafka.refuse_crc32(connection, {topic: one.name for one in sources if one.key is not None for topic in one.topics})
        if not processes.running(state, parts.SPEED):
            call.say("starting the speed layer")
            parts.start(call, settings, parts.SPEED)
        if with_airflow:
            started = airflow.start(settings, call.project, environ=call.environ, say=call.say)
            if started.password is not None:
                kept = airflow.passwords(settings)
                call.say(f"Airflow is at {started.address}; user {airflow.USER}, password {started.password} (kept in {kept})")
    document = parts.document(settings)
    return Output(document, "\n".join(parts.sentences(document)))
