"""A real YARN on this machine: a ResourceManager and two NodeManagers, each a process of its own that dies with this one."""

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape

import httpx
import pyspark
import pytest

from tandem.cli.demo.spark_cluster import kill_with_children
from tandem.infra import folders
from tandem.infra.java import jar_fetch, jars, java_home
from tandem.infra.process import background, pdeathsig
from tandem.infra.process.ports import HOST, unused
from tests.stack import environ

_LISTS: Final = Path(__file__).parent
_SERVER: Final = "org.apache.hadoop.yarn.server"
_NODES: Final = 2
_NODE_MB: Final = 3072
_START_S: Final = 300
_SPARK: Final = Path(pyspark.__file__).parent


@contextmanager
def yarn_nodes(folder: Path) -> Iterator[Mapping[str, str]]:
    """The variables with which a command runs on YARN, until the context ends."""
    classes, web = _class_path(), unused()
    of_nodes = _addresses("yarn.resourcemanager", ("address", "scheduler.address", "resource-tracker.address", "admin.address"))
    of_nodes |= {"yarn.resourcemanager.webapp.address": f"{HOST}:{web}", "yarn.scheduler.minimum-allocation-mb": "128"}
    own = _configuration(folder / "conf", of_nodes)
    with ExitStack() as stack:
        stack.enter_context(_running("resourcemanager.ResourceManager", own, classes, folder / "manager"))
        for number in range(_NODES):
            node = folder / f"node-{number}"
            there = _addresses(
                "yarn.nodemanager", ("address", "localizer.address", "collector-service.address", "webapp.address")
            )
            there |= {f"yarn.nodemanager.{kind}-dirs": str(node / kind) for kind in ("local", "log")}
            there |= {
                "yarn.nodemanager.resource.memory-mb": str(_NODE_MB),
                "yarn.nodemanager.vmem-check-enabled": "false",
                # A disk that is nearly full is none of this cluster's business.
                "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
            }
            stack.enter_context(
                _running("nodemanager.NodeManager", _configuration(node / "conf", of_nodes | there), classes, node)
            )
        _until_there(web, folder)
        conf = {
            "spark.yarn.jars": f"local:{_SPARK}/jars/*",
            "spark.yarn.stagingDir": (folder / "staging").as_uri(),
            "spark.yarn.am.memory": "256m",
        }
        yield {
            "HADOOP_CONF_DIR": str(own),
            "TANDEM_SPARK_MASTER": "yarn",
            "TANDEM_SPARK_DRIVER_HOST": HOST,
            "TANDEM_SPARK_EXECUTOR_MEMORY": "512m",
            "TANDEM_SPARK_CORES_MAX": "2",
            "TANDEM_SPEED_CORES_MAX": "2",
            "TANDEM_SPARK_CONF": json.dumps(conf),
        }


def _class_path() -> str:
    """YARN's jars, fetched once, and those of Spark; a test is skipped where they cannot be fetched."""
    environment = environ()
    found, folder = java_home.find(environment), jars.folder(environment) / "tests"
    store = folder / "cacerts" if found.home == java_home.packaged_home(environment) else None
    try:
        jar_fetch.fetch(
            folder, folders.cache(environment), java=found.command, trust_store=store, environ=environment, lists=_LISTS
        )
    except jar_fetch.FetchFailed as error:
        pytest.skip(str(error))
    return ":".join([*(str(folder / path) for path in jar_fetch.pinned(_LISTS)), f"{_SPARK}/jars/*"])


def _addresses(part: str, names: tuple[str, ...]) -> dict[str, str]:
    return {f"{part}.{name}": f"{HOST}:{unused()}" for name in names}


def _configuration(folder: Path, yarn: Mapping[str, str]) -> Path:
    """The folder of a configuration."""
    folder.mkdir(parents=True)
    queue = "yarn.scheduler.capacity.root"
    queues = {f"{queue}.queues": "default", f"{queue}.default.capacity": "100"}
    files = {
        "yarn-site": yarn,
        "core-site": {"fs.defaultFS": "file:///"},
        "capacity-scheduler": queues | {"yarn.scheduler.capacity.maximum-am-resource-percent": "1"},
    }
    for name, properties in files.items():
        text = "\n".join(
            f"<property><name>{key}</name><value>{escape(value)}</value></property>" for key, value in properties.items()
        )
        (folder / f"{name}.xml").write_text(f"<configuration>\n{text}\n</configuration>\n")
    return folder


@contextmanager
def _running(main: str, configuration: Path, classes: str, folder: Path) -> Iterator[None]:
    """A server of YARN; killed with all its containers at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    found = java_home.find(environ())
    words = [found.command, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-cp", f"{configuration}:{classes}"]
    variables = {"PATH": os.defpath, "JAVA_HOME": str(found.home), "HADOOP_CONF_DIR": str(configuration)}
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(
            pdeathsig.command([*words, f"{_SERVER}.{main}"]),
            cwd=folder,
            env=variables,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
        )
    try:
        yield
    finally:
        kill_with_children(process)


def _until_there(web: int, folder: Path) -> None:
    """Wait for all nodes."""
    deadline = time.monotonic() + _START_S
    while _metrics(web).get("activeNodes") != _NODES:
        logs = {path.parent.name: background.last_lines(path) for path in folder.glob("*/log.txt")}
        assert time.monotonic() < deadline, logs
        time.sleep(0.2)


def _metrics(web: int) -> dict[str, Any]:
    try:
        answer = httpx.get(
            f"http://{HOST}:{web}/ws/v1/cluster/metrics", headers={"Accept": "application/json"}, trust_env=False, timeout=60
        )
        return dict(answer.raise_for_status().json()["clusterMetrics"])
    except (httpx.HTTPError, ValueError):
        return {}
