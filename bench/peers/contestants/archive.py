"""The contestants that archive the topic: Tandem, and Spark as a batch job from Kafka to Delta.

Both keep every record's bytes in one table and its typed columns in another. Tandem also quarantines events that do not decode,
and records its run in a ledger, so that the next run neither loses nor repeats records.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pyspark
from deltalake import DeltaTable

from tandem.bench.peers.contestant import ContestantCommand, Resources
from tandem.bench.peers.contestants import spark_settings, tandem
from tandem.bench.peers.contestants.batch import BatchContestant, Job, events_table
from tandem.bench.peers.events import Answers, truth
from tandem.bench.peers.provided import script
from tandem.infra import kafka

_COLUMNS: Final = ["id", "at", "path", "bytes", "ms"]


def _tandem(job: Job) -> ContestantCommand:
    words = (sys.executable, script("archive_tandem"), str(tandem.project(job.setting)))
    return ContestantCommand(words, tandem.environment(job.setting))


def _settings(given: Resources) -> Mapping[str, str]:
    return {
        **spark_settings.common(given),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    }


def _spark(job: Job) -> ContestantCommand:
    reached = kafka.java_options(job.setting.connection.address)
    config = {
        "spark": {**_settings(job.setting), **spark_settings.class_archive(), **spark_settings.connectors()},
        "source": {
            **{f"kafka.{name}": value for name, value in reached.items()},
            "subscribe": job.setting.topic,
            "startingOffsets": "earliest",
            "endingOffsets": "latest",
        },
        "cores": job.setting.cores,
        "raw": str(job.folder / "raw"),
        "events": str(_events(job)),
    }
    return ContestantCommand((sys.executable, script("archive_spark"), str(job.setting.config("spark.json", config))))


def _events(job: Job) -> Path:
    return job.folder / "events"


def _view(table: DeltaTable) -> Answers:
    """The view of the typed events, which shows that none is missing and none is wrong."""
    return truth(table.to_pyarrow_table(columns=_COLUMNS))


ARCHIVE: Final[tuple[BatchContestant, ...]] = (
    BatchContestant(
        name="tandem",
        version=tandem.version,
        settings=tandem.settings,
        command=_tandem,
        answer=lambda job: _view(events_table(job.setting)),
    ),
    BatchContestant(
        name="spark-copy",
        version=lambda: str(pyspark.__version__),
        settings=_settings,
        command=_spark,
        answer=lambda job: _view(DeltaTable(str(_events(job)))),
    ),
)
