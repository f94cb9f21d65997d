"""Tandem, Flink SQL and Structured Streaming: how each is started with a question, and where its answers are."""

import json
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from tandem.bench.peers.contestant import ContestantCommand, Setting, ready_line
from tandem.bench.peers.contestants import flink, spark, spark_settings
from tandem.bench.peers.contestants.tandem import environment, state
from tandem.bench.peers.outputs import CLAIMED, LastValues, newest, realtime_commits
from tandem.bench.peers.programs.partial_rows_reader import added
from tandem.bench.peers.programs.topic_reader import committed, consumer
from tandem.bench.peers.running import started
from tandem.bench.together.questions import TogetherQuestion
from tandem.bench.together.streams import Answers, answers
from tandem.infra import kafka
from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import given
from tandem.serving.read.snapshot import Snapshot
from tandem.views.errors import TandemError

_MICRO_BATCH: Final = "20000"
"""The most events of a micro-batch of Spark: a stream that is followed has small ones."""
_SPARK: Final = str(Path(__file__).resolve().parent / "programs" / "spark_together.py")


Look = Callable[[Collection[str]], Iterator[tuple[str, tuple[int, ...]]]]
"""Given the advertisements that are waited for: those whose rows are new since the last look, with their measures."""


@dataclass(frozen=True)
class System:
    """A system. `version` of its answers changes whenever it publishes some; None before the first time. `follow` starts to look.

    `ready` returns when it began to read, in seconds since the epoch, from its setting and its log; None before.
    """

    name: str
    command: Callable[[Setting, TogetherQuestion], ContestantCommand]
    version: Callable[[Setting], object]
    read: Callable[[Setting, TogetherQuestion], Answers]
    follow: Callable[[Setting, TogetherQuestion], Look]
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


def _follow_tandem(setting: Setting, question: TogetherQuestion) -> Look:
    """By the merged reader: when tables have changed it asks for each advertisement, as a user would."""
    reader, positions = Reader(Tables.of(Settings(state=str(state(setting))))), list[object]()

    def look(awaited: Collection[str]) -> Iterator[tuple[str, tuple[int, ...]]]:
        snapshot = reader.refresh()
        if not isinstance(snapshot, Snapshot) or [snapshot.positions] == positions:
            return
        positions[:] = [snapshot.positions]
        for ad in awaited:
            for row in given(reader.answer("answers", keys={"ad": ad})).rows():
                yield ad, tuple(int(row[name] or 0) for name in question.measures)

    return look


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


def _follow_flink(setting: Setting, question: TogetherQuestion) -> Look:
    """By a consumer of the topic of answers."""
    reading = consumer({"kafka": setting.librdkafka(), "topic": setting.output})

    def look(_: Collection[str]) -> Iterator[tuple[str, tuple[int, ...]]]:
        for message in reading.consume(1_000, 0.01):
            if not message.error() and message.value() is not None:
                row = json.loads(message.value())
                yield row["ad"], tuple(int(row[name] or 0) for name in question.measures)

    return look


def _spark(setting: Setting, question: TogetherQuestion) -> ContestantCommand:
    chosen = spark.settings(setting)
    options = {name: value for name, value in chosen.items() if name.startswith("spark.")}
    reached = {f"kafka.{name}": value for name, value in kafka.java_options(setting.connection.address).items()}
    config = {
        "spark": {**options, **spark_settings.connectors(), **spark_settings.class_archive()},
        "source": {"maxOffsetsPerTrigger": _MICRO_BATCH, "startingOffsets": "earliest", **reached},
        "cores": setting.cores,
        "question": question.name,
        "topics": [topic + question.suffix for topic in question.topics],
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


def _follow_spark(setting: Setting, question: TogetherQuestion) -> Look:
    """By the files of each commit, whose partial rows it adds up."""
    sums, version = dict[str, tuple[int, ...]](), 0

    def look(awaited: Collection[str]) -> Iterator[tuple[str, tuple[int, ...]]]:
        nonlocal version
        while (files := added(_table(setting), version)) is not None:
            version += 1
            for rows in map(pq.read_table, files):
                waited = rows.filter(pc.is_in(rows["ad"], pa.array(awaited, pa.string())))
                for row in waited.to_pylist():
                    before = sums.get(row["ad"], (0,) * len(question.measures))
                    sums[row["ad"]] = tuple(was + (row[name] or 0) for was, name in zip(before, question.measures, strict=True))
                    yield row["ad"], sums[row["ad"]]

    return look


def _table(setting: Setting) -> Path:
    return setting.folder / "answers"


TANDEM: Final = System("tandem", tandem, _commits, _of_tandem, _follow_tandem, _ready_time)
SYSTEMS: Final = (
    TANDEM,
    System("flink-sql", _flink, lambda setting: LastValues(setting).version(), _of_flink, _follow_flink),
    System("spark", _spark, lambda setting: newest(_table(setting)), _of_spark, _follow_spark),
)
