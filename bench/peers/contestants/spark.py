"""Structured Streaming as someone who knows Spark writes it (programs/spark_views.py).

The settings are those that its documentation and forums advise for small state on few cores: RocksDB state with changelogs, as
many shuffle partitions as cores, no adaptive planning of small batches, cheap checkpoint files, a short fetch wait. Its JVM maps
the archive of classes that Tandem's maps.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

import pyspark

from tandem.bench.peers.contestant import DEDUP_MINUTES, MARKED, Contestant, ContestantCommand, Resources, Setting
from tandem.bench.peers.contestants import spark_settings
from tandem.bench.peers.outputs import PartialRows
from tandem.bench.peers.provided import script
from tandem.infra import kafka

_PROVIDERS = "org.apache.spark.sql.execution.streaming"


def settings(given: Resources) -> Mapping[str, str]:
    """What differs from Spark's defaults."""
    return {
        **spark_settings.common(given),
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.checkpointFileManagerClass": f"{_PROVIDERS}.checkpointing.FileSystemBasedCheckpointFileManager",
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        "spark.sql.streaming.stateStore.providerClass": f"{_PROVIDERS}.state.RocksDBStateStoreProvider",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        "maxOffsetsPerTrigger": "200000",
        "kafka.fetch.max.wait.ms": "20",
    }


def command(setting: Setting) -> ContestantCommand:
    """The program, with its configuration."""
    chosen = settings(setting)
    config = {
        "spark": {
            **{name: value for name, value in chosen.items() if name.startswith("spark.")},
            **spark_settings.connectors(),
            **spark_settings.class_archive(),
        },
        "source": {
            **{name: value for name, value in chosen.items() if not name.startswith("spark.")},
            **{f"kafka.{name}": value for name, value in kafka.java_options(setting.connection.address).items()},
            "subscribe": setting.topic,
            "startingOffsets": "earliest",
        },
        "cores": setting.cores,
        "dedup_window": f"{DEDUP_MINUTES} minutes",
        "table": str(table(setting)),
        "checkpoint": str(setting.folder / "checkpoint"),
    }
    return ContestantCommand((sys.executable, script("spark_views"), str(setting.config("program.json", config))))


def table(setting: Setting) -> Path:
    """The table of partial rows."""
    return setting.folder / "pages"


SPARK = Contestant(
    name="spark-expert",
    version=lambda: str(pyspark.__version__),
    settings=settings,
    command=command,
    output=lambda setting: PartialRows(table(setting)),
    reader=lambda setting: ContestantCommand((sys.executable, script("partial_rows_reader"), str(table(setting)), MARKED)),
)
