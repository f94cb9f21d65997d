"""The demo's own Spark cluster: a standalone master, and two workers that are set apart as on other hosts."""

import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil
import pyspark

from tandem.cli.demo import other_host
from tandem.cli.demo.other_host import OtherHost
from tandem.cli.demo.wait_for import wait_for
from tandem.infra.java import java_home
from tandem.infra.process import background, pdeathsig
from tandem.infra.process.ports import HOST, unused
from tandem.views.errors import TandemError

_MASTER: Final = "org.apache.spark.deploy.master.Master"
_WORKER: Final = "org.apache.spark.deploy.worker.Worker"
EXECUTOR: Final = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
"""The main class of an executor, in its command line."""
_WORKS: Final = re.compile(rb"Running task \S+ in stage [1-9]")
_CORES: Final = 2
_READY_S: Final = 120
WORKER_OPTIONS: Final = {
    # What an executor prints is bounded by its worker: the application cannot.
    "spark.executor.logs.rolling.strategy": "size",
    "spark.executor.logs.rolling.maxSize": "8388608",
    "spark.executor.logs.rolling.maxRetainedFiles": "3",
    # Each run of a command is an application with a folder of jars and code.
    "spark.worker.cleanup.enabled": "true",
    "spark.worker.cleanup.interval": "1800",
    "spark.worker.cleanup.appDataTtl": "86400",
}
"""The properties that suit a worker that runs for long (docs/cluster.md)."""


@dataclass
class Cluster:
    """A running cluster: its workers with their folders on this host, and the applications of which an executor was killed."""

    master: str
    host: OtherHost
    workers: list["subprocess.Popen[bytes]"] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    killed: set[str] = field(default_factory=set)

    @property
    def settings(self) -> dict[str, str]:
        """The variables with which a command runs on it."""
        return {
            "TANDEM_SPARK_MASTER": self.master,
            "TANDEM_SPARK_DRIVER_HOST": HOST,
            "TANDEM_SPARK_EXECUTOR_MEMORY": "512m",
            "TANDEM_SPARK_CORES_MAX": "0",
            "TANDEM_SPARK_PYTHON": "",
            "TANDEM_SPARK_JARS": "send",
        }

    def kill_one(self) -> None:
        """Kill an executor of each application that has lost none yet, with SIGKILL, while or after it runs a task of real work.

        The first stage of an application is the comparison of versions (infra/spark/versions.py).
        """
        for worker, folder in zip(self.workers, self.folders, strict=True):
            with suppress(psutil.Error):
                for process in psutil.Process(worker.pid).children(recursive=True):
                    with suppress(psutil.Error):  # a process that has just ended says nothing of the others
                        self._kill(process, folder)

    def _kill(self, process: psutil.Process, folder: Path) -> None:
        words = process.cmdline()
        if EXECUTOR not in words:
            return
        application, number = (words[words.index(name) + 1] for name in ("--app-id", "--executor-id"))
        if application not in self.killed and _WORKS.search(_read(folder / application / number / "stderr")):
            process.kill()
            self.killed.add(application)


def _read(log: Path) -> bytes:
    try:
        return log.read_bytes()
    except FileNotFoundError:
        return b""


@contextmanager
def own_cluster(environ: Mapping[str, str], state: Path, project: Path, credentials: Mapping[str, str]) -> Iterator[Cluster]:
    """A cluster on loopback until the block ends; it ends with this process, however that ends.

    Its workers take the credentials of the bucket from their own environment: no command and no task has them. Raises TandemError
    with the last lines of a log if it does not start.
    """
    java = java_home.find(environ)
    spark = Path(pyspark.__file__).parent
    base = {
        "PATH": os.defpath,
        "JAVA_HOME": str(java.home),
        "SPARK_HOME": str(spark),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_DAEMON_MEMORY": "256m",
        # Many JVMs share this machine, and each lives for a minute.
        "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "SPARK_WORKER_OPTS": " ".join(f"-D{name}={value}" for name, value in WORKER_OPTIONS.items()),
    }
    needed = [*other_host.python_folders(), java.home, spark]
    covered = other_host.hidden(project, state, environ)
    cluster = Cluster(f"spark://{HOST}:{unused()}", other_host.find(base, state / "workers" / "probe", covered, needed))
    start = [str(spark / "bin" / "spark-class")]
    port = cluster.master.rpartition(":")[2]
    with ExitStack() as stack:
        words = [*start, _MASTER, "--host", HOST, "--port", port, "--webui-port", "0"]
        stack.enter_context(_running("master", words, state, base, "I have been elected leader"))
        for number in (1, 2):
            own = state / "workers" / str(number)
            there = cluster.host.folder(own)
            cluster.folders.append(own)
            words = [*start, _WORKER, "--host", HOST, "--cores", str(_CORES), "--memory", "2g", "--webui-port", "0"]
            words = cluster.host.command([*words, "--work-dir", str(there), cluster.master], own, covered, needed)
            said = "Successfully registered with master"
            cluster.workers.append(stack.enter_context(_running(f"worker-{number}", words, state, {**base, **credentials}, said)))
        yield cluster


@contextmanager
def _running(
    name: str, words: Sequence[str], state: Path, environ: Mapping[str, str], ready: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """A process with exactly this environment, in `/`, once its log has said `ready`; killed with its children at the end."""
    log = state / "logs" / f"spark-{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as said:
        process = subprocess.Popen(  # noqa: S603 - our own command
            pdeathsig.command(words),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            cwd="/",
            env=dict(environ),
            start_new_session=True,
        )

    def check() -> None:
        if process.poll() is not None:
            lines = "\n".join(f"  {line}" for line in background.last_lines(log))
            raise TandemError(
                f"Spark's {name} ended with exit code {process.returncode}; the last lines of {log}:\n{lines}",
                code="process-crashed",
            )

    try:
        wait_for(
            f"Spark's {name} to start",
            lambda: ready in log.read_text("utf-8", "replace") or None,
            seconds=_READY_S,
            meanwhile=check,
        )
        yield process
    finally:
        kill_with_children(process)


def kill_with_children(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process and what it has started, and wait for its end."""
    with suppress(psutil.Error):
        for child in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.Error):
                child.kill()
    process.kill()
    process.wait()
