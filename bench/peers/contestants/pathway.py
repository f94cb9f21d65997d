"""Pathway, with a worker for each core.

It keeps all ids: Pathway drops state only by event time, which would also drop late events. It has no checkpoints here, as in its
tutorials; so after a crash it would read the topic again.
"""

from collections.abc import Mapping

from tandem.bench.peers.contestant import Contestant, ContestantCommand, Resources, Setting
from tandem.bench.peers.outputs import LastValues, follow_topic
from tandem.bench.peers.provided import package, script

COMMIT_MS = 100


def settings(given: Resources) -> Mapping[str, str]:
    """What differs from Pathway's defaults."""
    return {"PATHWAY_THREADS": str(given.cores), "autocommit_duration_ms": str(COMMIT_MS)}


def command(setting: Setting) -> ContestantCommand:
    """The program, with its configuration."""
    config = {
        "kafka": setting.librdkafka(),
        "topic": setting.topic,
        "output": setting.output,
        "commit_ms": COMMIT_MS,
    }
    path = setting.config("program.json", config)
    words = (setting.provided.python, script("pathway_views"), str(path))
    return ContestantCommand(words, {"PATHWAY_THREADS": str(setting.cores)})


PATHWAY = Contestant(
    name="pathway",
    version=lambda: package("pathway"),
    settings=settings,
    command=command,
    output=LastValues,
    reader=follow_topic,
)
