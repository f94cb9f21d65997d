"""Flink SQL in one process: a mini-cluster with a task slot for each core.

As its documentation advises: deduplication by ROW_NUMBER over the id in order of processing time with a state TTL, the RocksDB
state backend with incremental checkpoints, mini-batches against updates of single events, and object reuse. Windows are a column,
not a window function, because that would drop late events.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from tandem.bench.peers.contestant import Contestant, ContestantCommand, Resources, Setting
from tandem.bench.peers.jvm import jvm, properties, version
from tandem.bench.peers.outputs import LastValues, follow_topic
from tandem.bench.peers.provided import program
from tandem.infra import kafka

_GROUP: Final = "flink"
# Java 17 hides what Flink's serializers look into; these are of Flink's own config.yaml.
_OPENED: Final = tuple(
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.lang", "java.net", "java.nio", "java.time", "java.util", "java.util.concurrent", "sun.nio.ch")
)

_QUOTE: Final = "'"
_PRODUCER: Final = {"compression.type": "lz4", "linger.ms": "5"}
_SOURCE: Final = (
    "CREATE TABLE requests (id STRING, `at` TIMESTAMP_LTZ(3), `path` STRING, `bytes` BIGINT, ms DOUBLE, seen AS PROCTIME())"
)
_SINK: Final = "CREATE TABLE pages (`path` STRING, w BIGINT, n BIGINT, b BIGINT, m DOUBLE, PRIMARY KEY (`path`, w) NOT ENFORCED)"
_NUMBERED: Final = (
    "SELECT `path`, `bytes`, ms, UNIX_TIMESTAMP(CAST(FLOOR(`at` TO MINUTE) AS STRING)) * 1000 AS w, "
    "ROW_NUMBER() OVER (PARTITION BY id ORDER BY seen ASC) AS nth FROM requests"
)
_INSERT: Final = (
    f"INSERT INTO pages SELECT `path`, w, COUNT(*), SUM(`bytes`), MAX(ms) FROM ({_NUMBERED}) WHERE nth = 1 GROUP BY `path`, w"
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
        **_PRODUCER,
    }


def command(setting: Setting) -> ContestantCommand:
    """The view: events of equal id counted once, by page and minute."""
    clients = {f"properties.{name}": value for name, value in kafka.java_options(setting.connection.address).items()}
    producer = {f"properties.{name}": value for name, value in _PRODUCER.items()}
    source = {"connector": "kafka", "topic": setting.topic, "properties.group.id": setting.output, "format": "json"}
    source |= {"scan.startup.mode": "earliest-offset", "json.timestamp-format.standard": "ISO-8601"}
    sink = {"connector": "upsert-kafka", "topic": setting.output, "key.format": "json", "value.format": "json"}
    return run(setting, [_SOURCE + table_options(source | clients), _SINK + table_options(sink | clients | producer), _INSERT])


def run(setting: Setting, statements: Sequence[str]) -> ContestantCommand:
    """The statements, the last of which is an INSERT, with a file of Flink's properties."""
    (setting.folder / "scratch").mkdir(parents=True, exist_ok=True)
    chosen = {
        **{name: value for name, value in settings(setting).items() if name not in _PRODUCER},
        **{f"statement.{number}": statement for number, statement in enumerate(statements)},
        "execution.checkpointing.dir": (setting.folder / "checkpoints").as_uri(),
        "io.tmp.dirs": str(setting.folder / "scratch"),
    }
    config = setting.private("program.properties", properties(chosen))
    return ContestantCommand((*jvm(setting, _GROUP, *_OPENED), program(_GROUP), str(config)))


def table_options(values: Mapping[str, str]) -> str:
    """The options of a table, as CREATE TABLE ends with them."""
    quoted = (f"'{name}' = '{value.replace(_QUOTE, 2 * _QUOTE)}'" for name, value in values.items())
    return f" WITH ({', '.join(quoted)})"


FLINK = Contestant(
    name="flink-sql",
    version=lambda: version(_GROUP, "flink-table-planner-loader"),
    settings=settings,
    command=command,
    output=LastValues,
    reader=follow_topic,
)
