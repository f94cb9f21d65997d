"""Flink SQL in one process: a mini-cluster with a task slot for each core.

As its documentation advises: deduplication by ROW_NUMBER with a state TTL, the RocksDB state backend with incremental
checkpoints, mini-batches against updates of single events, and object reuse.
"""

from collections.abc import Mapping
from typing import Final

from tandem.bench.peers.contestant import Contestant, ContestantCommand, Resources, Setting
from tandem.bench.peers.jvm import jvm, properties, version
from tandem.bench.peers.outputs import LastValues, follow_topic
from tandem.bench.peers.provided import program
from tandem.infra import kafka

_GROUP: Final = "flink"
# Java 17 hides what Flink's serializers look into; these are of Flink's own config.yaml.
OPENED = tuple(
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.lang", "java.net", "java.nio", "java.time", "java.util", "java.util.concurrent", "sun.nio.ch")
)


def settings(given: Resources) -> Mapping[str, str]:
    """What differs from Flink's defaults."""
    return {
        "parallelism.default": str(given.cores),
        "taskmanager.numberOfTaskSlots": str(given.cores),
        "taskmanager.memory.managed.size": "512m",
        "taskmanager.memory.network.min": "64m",
        "taskmanager.memory.network.max": "64m",
        "state.backend.type": "rocksdb",
        "execution.checkpointing.incremental": "true",
        "execution.checkpointing.interval": "10 s",
        "execution.buffer-timeout.interval": "5 ms" if given.fresh else "100 ms",
        "pipeline.object-reuse": "true",
        "table.exec.mini-batch.enabled": "true",
        "table.exec.mini-batch.allow-latency": "50 ms" if given.fresh else "200 ms",
        "table.exec.mini-batch.size": "20000",
        "table.exec.state.ttl": "1 h",
        "table.local-time-zone": "UTC",
        "sink.compression.type": "lz4",
        "sink.linger.ms": "5",
    }


def command(setting: Setting) -> ContestantCommand:
    """The program, with a file of its properties."""
    reached = kafka.java_options(setting.connection.address)
    chosen = {
        "program.topic": setting.topic,
        "program.output": setting.output,
        **{f"kafka.{name}": value for name, value in reached.items()},
        **settings(setting),
        "execution.checkpointing.dir": (setting.folder / "checkpoints").as_uri(),
        "io.tmp.dirs": str(setting.folder / "scratch"),
    }
    (setting.folder / "scratch").mkdir(parents=True, exist_ok=True)
    config = setting.private("program.properties", properties(chosen))
    return ContestantCommand((*jvm(setting, _GROUP, *OPENED), program(_GROUP), str(config)))


FLINK = Contestant(
    name="flink-sql",
    version=lambda: version(_GROUP, "flink-table-planner-loader"),
    settings=settings,
    command=command,
    output=LastValues,
    reader=follow_topic,
)
