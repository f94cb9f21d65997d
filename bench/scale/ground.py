"""The ground of the benchmark: a standalone cluster on this machine, tables in a bucket, and what their processes use and do."""

import json
import os
import platform
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, Self

import psutil

from tandem.bench.commands import BenchProject, cores
from tandem.bench.process_tree import pss_bytes, tree
from tandem.bench.scale.cpu_quota import Quotas
from tandem.infra.settings import Settings, StorageSettings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.realtime.commits import Commit
from tandem.ledger.realtime.follower import Follower
from tandem.speed import progress
from tandem.views.errors import TandemError

if TYPE_CHECKING:
    import subprocess

Part = Literal["driver", "executors", "store", "broker"]
PARTS: Final[tuple[Part, ...]] = ("driver", "executors", "store", "broker")
_EVERY_S: Final = 0.5
_HOSTS: Final = 5
"""Four executors and the driver."""
_PACKAGES: Final = ("pyspark", "deltalake", "duckdb", "pyarrow")


@dataclass(frozen=True)
class Ground:
    """Where commands run.

    Args:
        place: the folder, the broker, and the heap of drivers.
        environ: the variables with which a command runs on the cluster and finds the bucket.
        workers: the process ids of the cluster's workers.
        executors: the process ids of the executors that they run now.
        beside: the process ids of the store and of the broker.
        quotas: bounds of CPU; None where this machine sets none.
        requests: how many requests of each kind the store has had.
    """

    place: BenchProject
    environ: Mapping[str, str]
    workers: Sequence[int]
    executors: Callable[[], Sequence[int]]
    beside: Mapping[Part, int]
    quotas: Quotas | None
    requests: Callable[[], Mapping[str, int]]

    def variables(self, name: str, executors: int, **further: object) -> dict[str, str]:
        """The environment of a command that keeps its tables under this name, on N executors of one core each."""
        return {
            **self.environ,
            "TANDEM_STORAGE_ROOT": f"{self.environ['TANDEM_STORAGE_ROOT']}/{name}",
            "TANDEM_SPARK_CORES_MAX": str(executors),
            "TANDEM_SPEED_CORES_MAX": str(executors),
            "TANDEM_SPARK_CONF": json.dumps({"spark.executor.cores": "1"}),
            **{f"TANDEM_{setting}": str(value) for setting, value in further.items()},
        }

    def tables(self, name: str, state: Path) -> Tables:
        """The tables under this name."""
        options = json.loads(self.environ["TANDEM_STORAGE_OPTIONS"])
        return Tables.of(
            Settings(
                state=str(state), storage=StorageSettings(root=f"{self.environ['TANDEM_STORAGE_ROOT']}/{name}", options=options)
            )
        )

    def roots(self, driver: int) -> dict[Part, list[int]]:
        """The process trees of each part while a command with this process id runs."""
        return {"driver": [driver], "executors": [*self.workers], **{part: [pid] for part, pid in self.beside.items()}}

    def bound(self, driver: int, share: float) -> None:
        """Give each executor and the driver this share of a core; a whole core is unbounded.

        Store and broker keep what is left: elsewhere they are services of many hosts.
        """
        if self.quotas is not None and share < 1:
            self.quotas.bound([driver, *self.executors()], share)

    def release(self) -> None:
        """Bound no process any more."""
        if self.quotas is not None:
            self.quotas.release()

    def shares(self) -> tuple[float, ...]:
        """The shares of a core to measure: all of it; on few cores a share that leaves half of the machine to the others."""
        return (1.0,) if self.quotas is None or cores() >= 2 * _HOSTS else (round(cores() / (2 * _HOSTS), 2),)


@dataclass
class TriggerWatch:
    """A context in which a thread samples the CPU of some process trees, and with `memory` the largest PSS of the driver's."""

    roots: Mapping[Part, Sequence[int]]
    memory: bool = False
    peak: int = 0
    _first: dict[psutil.Process, float] = field(default_factory=dict, init=False)
    _last: dict[Part, dict[psutil.Process, float]] = field(default_factory=dict, init=False)
    _over: threading.Event = field(default_factory=threading.Event, init=False)
    _one: threading.Lock = field(default_factory=threading.Lock, init=False)
    _idle: float = field(default=0.0, init=False)
    _began: float = field(default=0.0, init=False)

    def __enter__(self) -> Self:
        self.restart()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    @property
    def cpu(self) -> dict[str, float]:
        """CPU seconds of each part since the context began, without the last moment of processes that have ended."""
        with self._one:
            return {
                part: round(sum(used - self._first.get(process, 0.0) for process, used in seen.items()), 2)
                for part, seen in self._last.items()
            }

    @property
    def machine(self) -> float:
        """How many cores all programs of the machine kept busy, on average since the context began."""
        return max(0.0, cores() - (_idle_s() - self._idle) / max(0.001, time.monotonic() - self._began))

    def restart(self) -> None:
        """Count CPU seconds from here on."""
        self._look()
        self._idle, self._began = _idle_s(), time.monotonic()
        with self._one:
            self._first = {process: used for seen in self._last.values() for process, used in seen.items()}

    def _run(self) -> None:
        while not self._over.wait(_EVERY_S):
            self._look()
        self._look()

    def _look(self) -> None:
        with self._one:
            for part, pids in self.roots.items():
                # By process: a process that has ended takes its seconds with it, unless its parent has waited for it.
                seen = self._last.setdefault(part, {})
                for process in (process for pid in pids for process in tree(pid)):
                    with suppress(psutil.NoSuchProcess):
                        times = process.cpu_times()
                        seen[process] = times.user + times.system
        if self.memory:
            self.peak = max(self.peak, sum(map(pss_bytes, self.roots["driver"])))


def _idle_s() -> float:
    times = psutil.cpu_times()
    return float(times.idle + getattr(times, "iowait", 0.0))


def since(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """The requests between two counts, by kind."""
    return {kind: number - before.get(kind, 0) for kind, number in sorted(after.items()) if number > before.get(kind, 0)}


def machine() -> dict[str, object]:
    """What the figures were measured on: cores, memory, the load of the last minute, and versions."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": cores(),
        "memory_gb": round(memory / 1e9, 1),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        **{package: version(package) for package in _PACKAGES},
    }


def folds(commits: Follower) -> list[Commit]:
    """The commits of micro-batches, in the order of the log."""
    return [commit for commit in commits.poll() if commit.kind == "fold"]


def counted(commits: Sequence[Commit]) -> int:
    """How many offsets of the log lie below the end of the commits."""
    return sum(commits[-1].end.values()) if commits else 0


def micro_batches(state: Path) -> int:
    """How many micro-batches a speed layer has done, from its own file: a look costs the store no request."""
    found = progress.read(state / "tandem")
    return sum(source.triggers for source in found.sources) if found else 0


def wait_for(process: "subprocess.Popen[bytes]", done: Callable[[], bool], what: str, state: Path, limit_s: float) -> None:
    """Wait for what a command does. Raises TandemError if it ends before, or takes longer than the limit."""
    deadline = time.monotonic() + limit_s
    while not done():
        if (code := process.poll()) is not None:
            raise TandemError(f"a command ended with exit code {code} before {what}; its output is in {state}")
        if time.monotonic() > deadline:
            raise TandemError(f"{what} did not come within {limit_s:.0f} s; the command's output is in {state}")
        time.sleep(_EVERY_S)
