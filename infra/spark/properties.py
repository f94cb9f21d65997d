"""The properties of Spark's session: Tandem's own, below those of the user. This module imports no PySpark."""

import os
from collections.abc import Mapping
from typing import Final

from tandem.infra.java import jars
from tandem.infra.settings import Settings
from tandem.infra.settings.spark_master import kind
from tandem.infra.spark import cluster

_CHECKPOINTS: Final = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_UNCHECKED: Final = "org.apache.hadoop.fs.RawLocalFileSystem"


def properties(
    settings: Settings, environ: Mapping[str, str], *, conf: Mapping[str, str] | None = None, cores: int | None = None
) -> dict[str, str]:
    """The properties of a session, with those of the user; `conf` are those of one use.

    `cores` are the most cores of a cluster, by default `spark.cores_max`. Raises MissingJar.
    """
    cores = settings.spark.cores_max if cores is None else cores
    return _defaults(settings, environ, cores) | dict(conf or {}) | settings.spark.conf


def _defaults(settings: Settings, environ: Mapping[str, str], cores: int) -> dict[str, str]:
    scratch = settings.folder / "spark"
    remote = cluster.remote(settings)
    ours = list(map(str, jars.paths("spark", environ=environ)))
    return {
        # On the class path nothing is copied; `spark.jars` copies them all at every start, and sends them to executors.
        **({} if remote and settings.spark.jars == "send" else {"spark.driver.extraClassPath": os.pathsep.join(ours)}),
        **(cluster.properties(settings, ours, cores) if remote else {}),
        "spark.driver.memory": settings.spark.driver_memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Loopback only, and no look-up of this machine's name, which may not resolve.
        **({} if remote else {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}),
        # Executors import the platform from an archive that their daemon does not have.
        **({} if remote else {"spark.python.daemon.module": "tandem.infra.spark.worker_daemon"}),
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # Nothing here shuffles through SQL but Delta, over the few entries of its own log.
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Fewer system calls and files per micro-batch than with checksums beside every file. YARN's client fails on it.
        **({} if kind(settings.spark.master) == "yarn" else {"spark.hadoop.fs.file.impl": _UNCHECKED}),
        "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINTS,
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        # The interval of polls for the log's ends while nothing is new; the default of a hundred polls per second keeps Spark and
        # the broker busy.
        "spark.sql.streaming.pollingDelay": "100ms",
        # Delta takes the protocol of new tables from these: plain tables that any reader opens.
        "spark.databricks.delta.properties.defaults.enableDeletionVectors": "false",
        "spark.databricks.delta.snapshotPartitions": "1",
    }
