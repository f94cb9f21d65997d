"""The contestants that recompute the whole view from the events table: Tandem, DuckDB, Polars, chdb and Spark SQL.

All read the same Parquet files, which Tandem wrote when it archived the topic; each has as many threads as the others.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyspark
from deltalake import DeltaTable

from tandem.bench.peers.contestant import ContestantCommand, Resources, Setting
from tandem.bench.peers.contestants import spark_settings, tandem
from tandem.bench.peers.events import Answers
from tandem.bench.peers.outputs import ServedOutput, answers
from tandem.bench.peers.provided import package, script
from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint
from tandem.views.project.project import load

SOURCE: Final = "requests"


@dataclass(frozen=True)
class Job:
    """What is recomputed, how often, and the folder to write to: the archive's setting, and the files of its events table.

    Tandem uses the project and state of that setting.
    """

    setting: Setting
    files: tuple[str, ...]
    repeat: int
    folder: Path


@dataclass(frozen=True)
class BatchContestant:
    """A system that recomputes the view. `command` prints `RUN START END` for each repetition, `answer` reads what it wrote."""

    name: str
    version: Callable[[], str]
    settings: Callable[[Resources], Mapping[str, str]]
    command: Callable[[Job], ContestantCommand]
    answer: Callable[[Job], Answers]


def archived(setting: Setting, repeat: int) -> Job:
    """The job of a setting whose topic was archived."""
    return Job(setting, tuple(events_table(setting).file_uris()), repeat, setting.folder)


def events_table(setting: Setting) -> DeltaTable:
    """Tandem's events table of a setting whose topic was archived."""
    tables = Tables.of(Settings(state=str(tandem.state(setting))))
    source = load(tandem.project(setting)).sources[SOURCE]
    return DeltaTable(tables.events(SOURCE, decoder_fingerprint(source)))


def _engine(name: str, job: Job) -> ContestantCommand:
    config = {"files": job.files, "output": str(job.folder / "answer.parquet"), "cores": job.setting.cores, "repeat": job.repeat}
    path = job.setting.config(f"{name}.json", config)
    return ContestantCommand((job.setting.provided.python, script("batch_engines"), name, str(path)))


def _written(job: Job) -> Answers:
    """The rows of the Parquet files that an engine wrote."""
    table = pq.read_table(job.folder / "answer.parquet", columns=["path", "w", "n", "b", "m"])
    minutes = pc.cast(pc.cast(table.column("w"), pa.timestamp("ms", "UTC"), safe=False), pa.int64())
    columns = [table.column("path"), minutes, *(table.column(name) for name in ("n", "b", "m"))]
    return answers(zip(*(column.to_pylist() for column in columns), strict=True))


def engine(name: str) -> BatchContestant:
    """An engine in process."""
    return BatchContestant(
        name=name,
        version=lambda: package(name),
        settings=lambda given: {"threads": str(given.cores)},
        command=partial(_engine, name),
        answer=_written,
    )


def _spark(job: Job) -> ContestantCommand:
    config = {
        "files": job.files,
        "output": str(job.folder / "answer.parquet"),
        "cores": job.setting.cores,
        "repeat": job.repeat,
        "spark": {**spark_settings.common(job.setting), **spark_settings.class_archive()},
    }
    return ContestantCommand((sys.executable, script("batch_spark"), str(job.setting.config("spark.json", config))))


def _tandem(job: Job) -> ContestantCommand:
    words = (sys.executable, script("batch_tandem"), str(tandem.project(job.setting)), str(job.repeat))
    return ContestantCommand(words, tandem.environment(job.setting))


BATCH: Final[tuple[BatchContestant, ...]] = (
    BatchContestant(
        name="tandem",
        version=tandem.version,
        settings=tandem.settings,
        command=_tandem,
        answer=lambda job: ServedOutput(tandem.state(job.setting)).rows(),
    ),
    engine("duckdb"),
    engine("polars"),
    engine("chdb"),
    BatchContestant(
        name="spark-sql",
        version=lambda: str(pyspark.__version__),
        settings=spark_settings.common,
        command=_spark,
        answer=_written,
    ),
)
