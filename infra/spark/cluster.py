"""Spark on other hosts: the properties of a session there, and the code that its executors get."""

import hashlib
import io
import socket
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tandem.infra import folders
from tandem.infra.files import atomic_files
from tandem.infra.settings import Settings
from tandem.infra.settings.spark_master import kind
from tandem.views.counted import counted
from tandem.views.errors import TandemError

SHIPPED: Final = ("views", "ledger", "infra", "batch", "speed", "serving")
"""The folders of the package `tandem` that a task may import."""
LOGGERS: Final = """\
logger.client.name = org.apache.spark.deploy.client.StandaloneAppClient$ClientEndpoint
logger.client.level = info
logger.scheduler.name = org.apache.spark.scheduler.TaskSchedulerImpl
logger.scheduler.level = warn
logger.backends.name = org.apache.spark.scheduler.cluster
logger.backends.level = warn
logger.yarn.name = org.apache.spark.deploy.yarn.Client
logger.yarn.level = info
logger.connections.name = org.apache.hadoop.ipc.Client
logger.connections.level = info
"""
"""Log4j's configuration of the loggers that report why an executor did not come or has gone."""
NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
"""The file in a pod that names its namespace; only pods that may call the API server have it."""
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)


def remote(settings: Settings) -> bool:
    """Whether tasks run in other processes than this one's JVM."""
    return kind(settings.spark.master) != "local"


def waits(settings: Settings) -> bool:
    """Whether the start of a session waits for the cluster without an end; Spark itself gives a standalone master up."""
    return kind(settings.spark.master) in ("yarn", "kubernetes")


def lacks(settings: Settings, environ: Mapping[str, str]) -> str | None:
    """Why a session on this cluster cannot start in this environment; None if it can."""
    if kind(settings.spark.master) != "yarn" or environ.get("YARN_CONF_DIR") or environ.get("HADOOP_CONF_DIR"):
        return None
    return "spark.master = 'yarn' needs the variable HADOOP_CONF_DIR or YARN_CONF_DIR: the folder with yarn-site.xml"


def properties(settings: Settings, jars: Sequence[str], cores: int) -> dict[str, str]:
    """The properties of a session on a cluster that takes at most this many cores; 0 leaves it to Spark.

    Raises TandemError if no executor fits into them.
    """
    spark = settings.spark
    chosen = {
        "spark.executor.memory": spark.executor_memory,
        # Executors that share a host's name may each have a disk of their own, as containers do.
        "spark.shuffle.readHostLocalDisk": "false",
        **_straggling(),
    }
    if spark.jars == "send":
        chosen["spark.jars"] = ",".join(jars)
    if kind(spark.master) == "kubernetes":
        chosen |= of_own_pod()
    if spark.driver_host:
        chosen["spark.driver.host"] = spark.driver_host
    each = _cores_of_one(spark.conf)
    executors = max(1, cores // each)
    if cores and kind(spark.master) in ("standalone", "local-cluster"):
        if each > cores:
            raise TandemError(
                f"an executor of {each} cores (spark.executor.cores in [spark.conf]) does not fit into the "
                f"{counted(cores, 'core')} of this run: raise spark.cores_max, or speed.cores_max for the speed layer",
                code="settings-invalid",
            )
        chosen["spark.cores.max"] = str(cores)
    elif cores and not spark.executor_idle_s:
        # YARN and Kubernetes know executors, not cores; without a bound, Spark asks for two.
        chosen["spark.executor.instances"] = str(executors)
    if spark.executor_idle_s:
        chosen |= _dynamic_allocation(spark.executor_idle_s, executors)
        chosen |= {"spark.executor.cores": str(each), "spark.default.parallelism": str(cores)}
    return chosen


def _dynamic_allocation(idle_s: int, most: int) -> dict[str, str]:
    """The properties of dynamic allocation: one executor at first, at most `most` while tasks wait, and the last one stays."""
    return {
        "spark.dynamicAllocation.enabled": "true",
        # Without a shuffle service: an executor stays while a job needs the shuffle files that it has written.
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.timeout": f"{idle_s}s",
        "spark.dynamicAllocation.executorIdleTimeout": f"{idle_s}s",
        # A session waits for its first executor, and compares its packages.
        "spark.dynamicAllocation.minExecutors": "1",
        "spark.dynamicAllocation.maxExecutors": str(most),
    }


def of_own_pod(namespace: Path = NAMESPACE) -> dict[str, str]:
    """The properties of a driver in a pod: executors are in its namespace, and Kubernetes deletes them with its pod."""
    try:
        named = namespace.read_text("utf-8").strip()
    except OSError:
        return {}
    return {"spark.kubernetes.namespace": named, "spark.kubernetes.driver.pod.name": socket.gethostname()}


def _cores_of_one(conf: Mapping[str, str]) -> int:
    """The cores of each executor."""
    given = conf.get("spark.executor.cores", "1")
    if not (given.isdecimal() and int(given)):
        raise TandemError(
            f"spark.executor.cores = {given!r} in [spark.conf] is not valid; expected a whole number from 1",
            code="settings-invalid",
        )
    return int(given)


def _straggling() -> dict[str, str]:
    return {
        # A task writes files of its own, and the driver commits what the first of two copies returned.
        "spark.speculation": "true",
        # A copy costs a fetch of the log or a fold: only for tasks that take long for another reason than their size.
        "spark.speculation.minTaskRuntime": "30s",
        "spark.speculation.multiplier": "4",
    }


def packed(folder: Path) -> Path:
    """The archive of the platform's packages, for SparkContext.addPyFile, in this folder; its name depends on its content.

    A task needs no other code: the project's files are a part of it (views/project/project.py: load_files).
    """
    content = _archive()
    target = folder / f"tandem-{hashlib.sha256(content).hexdigest()[:16]}.zip"
    if not target.exists():
        atomic_files.replace(target, content)
    return target


def _archive() -> bytes:
    """The same bytes for the same code."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        public = (folders.IMPORTED / "tandem").glob("*.py")
        shipped = {file.name: file for file in public}
        for package in SHIPPED:
            shipped |= {str(file.relative_to(folders.ROOT)): file for file in (folders.ROOT / package).rglob("*.py")}
        for name, file in sorted(shipped.items()):
            archive.writestr(zipfile.ZipInfo(f"tandem/{name}", _EPOCH), file.read_bytes(), zipfile.ZIP_DEFLATED)
    return content.getvalue()
