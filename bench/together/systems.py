"""Tandem, Flink SQL and Structured Streaming: how each is started with a question, and where its answers are."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable

from tandem.bench.peers.contestant import ContestantCommand, Setting, ready_line
from tandem.bench.peers.contestants import flink, spark, spark_settings
from tandem.bench.peers.contestants.tandem import environment, state
from tandem.bench.peers.outputs import CLAIMED, LastValues, newest, realtime_commits
from tandem.bench.peers.programs.topic_reader import committed
from tandem.bench.peers.running import started
from tandem.bench.together.questions import TogetherQuestion
from tandem.bench.together.streams import Answers, answers
from tandem.infra import kafka
from tandem.views.errors import TandemError

_MICRO_BATCH: Final = "20000"
"""The most events of a micro-batch of Spark: a stream that is followed has small ones."""
_SPARK: Final = str(Path(__file__).resolve().parent / "programs" / "spark_together.py")


@dataclass(frozen=True)
class System:
    """A system. `version` of its answers changes whenever it publishes some; None before the first time.

    `ready` returns when it began to read, in seconds since the epoch, from its setting and its log; None before.
    """

    name: str
    command: Callable[[Setting, TogetherQuestion], ContestantCommand]
    version: Callable[[Setting], object]
    read: Callable[[Setting, TogetherQuestion], Answers]
    ready: Callable[[Setting, Path], float | None] = lambda _, log: ready_line(log)


def project(setting: Setting, question: TogetherQuestion) -> Path:
    """The project of a run."""
    folder = setting.folder / "project"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tandem.toml").touch()
    (folder / "definitions.py").write_text(question.definitions, "utf-8")
    return folder


def tandem(setting: Setting, question: TogetherQuestion, *words: str) -> ContestantCommand:
    """A command of Tandem on the project; its speed layer without `words`."""
    command = (sys.executable, "-m", "tandem.cli", *(words or ("speed",)), "--project", str(project(setting, question)))
    return ContestantCommand(command, environment(setting))


def _commits(setting: Setting) -> object:
    """The entries of all realtime tables, once each has counted something."""
    entries = realtime_commits(state(setting))
    logs = {path.parent: path.name for path in entries}
    counted = [folder for folder in logs if sum(path.parent == folder for path in entries) > CLAIMED]
    return tuple(sorted(logs.values())) if counted else None


def _ready_time(setting: Setting, _: Path) -> float | None:
    entries = realtime_commits(state(setting))
    return entries[CLAIMED - 1].stat().st_mtime if len(entries) >= CLAIMED else None


def _of_tandem(setting: Setting, question: TogetherQuestion) -> Answers:
    with started(tandem(setting, question, "sql", question.sql, "--json"), setting.folder, "sql.log", output=PIPE) as process:
        shown, _ = process.communicate(timeout=300)
    if process.returncode:
        raise TandemError(f"{question.sql} failed: {(setting.folder / 'sql.log').read_text('utf-8').strip()[-500:]}")
    return answers(row.values() for row in json.loads(shown)["rows"])


def _flink(setting: Setting, question: TogetherQuestion) -> ContestantCommand:
    return flink.run(setting, question.statements(setting.output, kafka.java_options(setting.connection.address)))


def _of_flink(setting: Setting, question: TogetherQuestion) -> Answers:
    rows: dict[bytes, dict[str, Any]] = {}
    for message in committed({"kafka": setting.librdkafka(), "topic": setting.output}):
        key = message.key()
        rows.pop(key, None)
        if message.value() is not None:
            rows[key] = json.loads(message.value())
    return answers((row["ad"], row["w"], *(row[name] for name in question.measures)) for row in rows.values())


def _spark(setting: Setting, question: TogetherQuestion) -> ContestantCommand:
    chosen = spark.settings(setting)
    options = {name: value for name, value in chosen.items() if name.startswith("spark.")}
    reached = {f"kafka.{name}": value for name, value in kafka.java_options(setting.connection.address).items()}
    config = {
        "spark": {**options, **spark_settings.connectors(), **spark_settings.class_archive()},
        "source": {"maxOffsetsPerTrigger": _MICRO_BATCH, "startingOffsets": "earliest", **reached},
        "cores": setting.cores,
        "question": question.name,
        "topics": list(question.topics),
        "table": str(_table(setting)),
        "checkpoint": str(setting.folder / "checkpoint"),
        "within": "10 minutes",
    }
    return ContestantCommand((sys.executable, _SPARK, str(setting.config("program.json", config))))


def _of_spark(setting: Setting, question: TogetherQuestion) -> Answers:
    table = DeltaTable(str(_table(setting))).to_pyarrow_table()
    added = pa.TableGroupBy(table, ["ad", "w"]).aggregate([(name, "sum") for name in question.measures])
    columns = ["ad", "w", *(f"{name}_sum" for name in question.measures)]
    return answers(zip(*(added.column(name).to_pylist() for name in columns), strict=True))


def _table(setting: Setting) -> Path:
    return setting.folder / "answers"


TANDEM: Final = System("tandem", tandem, _commits, _of_tandem, _ready_time)
SYSTEMS: Final = (
    TANDEM,
    System("flink-sql", _flink, lambda setting: LastValues(setting).version(), _of_flink),
    System("spark", _spark, lambda setting: newest(_table(setting)), _of_spark),
)
