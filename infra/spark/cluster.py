"""Spark on other hosts: the properties of a session there, and the code that its executors get."""

import hashlib
import io
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from infra import folders
from infra.files import atomic_files
from infra.settings import Settings
from infra.settings.spark_master import kind

if TYPE_CHECKING:  # PySpark takes memory, and processes that only compare properties do not need it
    from pyspark import SparkContext

SHIPPED: Final = ("views", "ledger", "infra", "batch", "speed", "serving", "tandem")
"""The packages that a task may import."""
LOGGERS: Final = """\
logger.client.name = org.apache.spark.deploy.client.StandaloneAppClient$ClientEndpoint
logger.client.level = info
logger.scheduler.name = org.apache.spark.scheduler.TaskSchedulerImpl
logger.scheduler.level = warn
logger.pods.name = org.apache.spark.scheduler.cluster.k8s
logger.pods.level = warn
logger.yarn.name = org.apache.spark.scheduler.cluster.YarnSchedulerBackend
logger.yarn.level = warn
"""
"""Log4j's configuration of the loggers that report why an executor did not come or has gone."""
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)


def remote(settings: Settings) -> bool:
    """Whether tasks run in other processes than this one's JVM."""
    return kind(settings.spark.master) != "local"


def properties(settings: Settings, jars: Sequence[str], cores: int) -> dict[str, str]:
    """The properties of a session on a cluster that takes at most this many cores; 0 is all that are free."""
    spark = settings.spark
    found = {
        "spark.executor.memory": spark.executor_memory,
        # Executors that share a host's name may each have a disk of their own, as containers do.
        "spark.shuffle.readHostLocalDisk": "false",
        **_straggling(),
    }
    if spark.jars == "send":
        found["spark.jars"] = ",".join(jars)
    if spark.driver_host:
        found["spark.driver.host"] = spark.driver_host
    if cores and kind(spark.master) in ("standalone", "local-cluster"):
        found["spark.cores.max"] = str(cores)
    elif cores:
        # These two start executors of one core each, unless `spark.executor.cores` says otherwise.
        found["spark.executor.instances"] = str(cores)
    return found


def _straggling() -> dict[str, str]:
    return {
        # A task writes files of its own, and the driver commits what the first of two copies returned.
        "spark.speculation": "true",
        # A copy costs a fetch of the log or a fold: only for tasks that take long for another reason than their size.
        "spark.speculation.minTaskRuntime": "30s",
        "spark.speculation.multiplier": "4",
    }


def ship(context: "SparkContext", folder: Path) -> str:
    """Send the platform's packages to the executors, those that start later, too; returns the archive's name.

    A task needs no other code: the project's files are a part of it (views/project/project.py: load_files).
    """
    content = _archive()
    target = folder / f"tandem-{hashlib.sha256(content).hexdigest()[:16]}.zip"
    if not target.exists():
        atomic_files.replace(target, content)
    context.addPyFile(str(target))
    return target.name


def _archive() -> bytes:
    """The same bytes for the same code."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for root, package in ((root, package) for root in folders.IMPORTED for package in SHIPPED):
            for file in sorted((root / package).rglob("*.py")):
                archive.writestr(zipfile.ZipInfo(str(file.relative_to(root)), _EPOCH), file.read_bytes(), zipfile.ZIP_DEFLATED)
    return content.getvalue()
