"""`tandem up`: start what a project runs on, detached, and return when all of it is ready."""

from cli import parts
from cli.call import Call, Output
from cli.published import definitions
from infra import broker, kafka, processes
from ledger.tables import Tables
from views.source import APPEND_TIME


def run(call: Call) -> Output:
    """Start the broker and the speed layer of the project, make its topics, and return when all of it is ready.

    What runs already is left alone. `tandem down` stops it; until then it runs on, whatever becomes of this terminal.
    """
    settings = call.settings()
    state = settings.folder
    sources = definitions(call, Tables(settings.state)).sources.values()
    with processes.starting(state):
        if not settings.kafka.bootstrap and not processes.running(state, broker.NAME):
            call.say("starting the broker")
            broker.start(settings, environ=call.environ)
        topics = list(dict.fromkeys(topic for source in sources for topic in source.topics))
        own_time = [topic for source in sources if source.event_time == APPEND_TIME for topic in source.topics]
        kafka.create(kafka.connect(broker.address(settings)), topics, settings, own_time=own_time)
        if not processes.running(state, parts.SPEED):
            call.say("starting the speed layer")
            parts.start(call, settings, parts.SPEED)
    document = parts.document(settings)
    return Output(document, "\n".join(parts.sentences(document)))
