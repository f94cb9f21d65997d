"""What `tandem serve` and each of its workers do for the project that they serve."""

import sys
from contextlib import suppress

from cli.command.call import Call
from infra import folders, kafka
from infra.kafka import broker
from infra.settings import Settings
from ledger.publish import publications, releases
from serving.http.operations.command import Tandem
from serving.http.requests.server import Server


def tandem_of(call: Call) -> Tandem:
    """The command that runs for operators: the same interpreter and copy, whatever the PATH and the working folder are."""
    return Tandem([sys.executable, "-u", "-m", "cli"], call.project, folders.child_environment(call.environ))


def refuse_crc32(settings: Settings, server: Server) -> None:
    """Refuse keyed topics that were partitioned by CRC-32. If no broker answers yet, the first event for a topic is checked."""
    live = publications.latest(server.tables)
    project = None if live is None else server.definitions.project(releases.load(server.tables, live.release))
    sources = [] if project is None else [one for one in project.sources.values() if one.key is not None]
    keyed = {topic: one.name for one in sources for topic in one.topics}
    if keyed:
        with suppress(kafka.NoBroker):
            kafka.refuse_crc32(kafka.connect(broker.address(settings)), keyed)
