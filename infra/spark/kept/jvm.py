"""The JVM of a kept session, as its owner uses it: start it, clear it between two commands, and end it."""

import importlib
import os
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from subprocess import Popen
from typing import Any, Final

import psutil
from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from infra.settings import Settings
from infra.spark import jvm_lock
from infra.spark.kept.loan import LOAN
from infra.spark.session import get_or_create_session
from views.errors import TandemError

_CLEAR_S: Final = 20.0
_LOOK_S: Final = 0.05
_END_S: Final = 10.0


class NotCleared(TandemError):
    """Tasks of a command that has ended still run."""


@dataclass(frozen=True)
class Jvm:
    """A JVM with one SparkContext. Every method waits for Java, which may hang; `end` and `ended` do not."""

    session: SparkSession
    process: Popen[bytes]
    imports: Sequence[str]
    _kept: Any
    """The names of the Java objects that belong to no command."""

    @property
    def gateway(self) -> tuple[int, str]:
        """The port and the secret of the gateway."""
        told = self._gateway.gateway_parameters
        return int(told.port), str(told.auth_token)

    @property
    def ended(self) -> bool:
        """Whether the process has ended."""
        return self.process.poll() is not None

    def probe(self) -> None:
        """Call Java, and return when it has answered. Raises what Py4J raises, and NotCleared if the context was stopped."""
        if self.session.sparkContext._jsc.sc().isStopped():  # noqa: SLF001 - the only way to the JVM that py4j offers
            raise NotCleared("its SparkContext was stopped")

    def try_lock(self, path: Path) -> bool:
        """Take the JVM's half of a lock for the command that uses the session; False if another process has it.

        Raises TandemError.
        """
        return jvm_lock.try_lock(self.session, path, half=True)

    def clear(self, following: int) -> None:
        """End all that a command has left, release its locks, and prepare Python workers for the loan with this number.

        In this order: no task of the command runs when a lock is released. Workers of the command end, because they have
        imported the project's code; those of the next loan have imported only the platform's. Raises NotCleared.
        """
        context = self.session.sparkContext
        deadline = time.monotonic() + _CLEAR_S
        while True:
            context.cancelAllJobs()
            self._kill_workers()
            if self._quiet():
                break
            if time.monotonic() > deadline:
                raise NotCleared(f"tasks of the last command have not ended within {_CLEAR_S:.0f} s")
            time.sleep(_LOOK_S)
        jvm_lock.release_all(self.session)
        sql = context._jvm.org.apache.spark.sql.classic.SparkSession  # type: ignore[union-attr]  # noqa: SLF001 - see above
        sql.setDefaultSession(self.session._jsparkSession)  # noqa: SLF001
        sql.setActiveSession(self.session._jsparkSession)  # noqa: SLF001
        for rdd in list(context._jsc.getPersistentRDDs().values()):  # noqa: SLF001
            rdd.unpersist()
        self._bindings().keySet().retainAll(self._kept)
        self._prepare(following)

    def end(self) -> None:
        """Kill the JVM and its Python workers."""
        self._kill_workers()
        self.process.kill()
        self.process.wait(_END_S)

    @property
    def _gateway(self) -> Any:
        return self.session.sparkContext._gateway  # noqa: SLF001

    def _bindings(self) -> Any:
        """Java's objects by the names under which Python processes know them; those of a killed process stay there."""
        return JavaObject("GATEWAY_SERVER", self._gateway._gateway_client).getGateway().getBindings()  # noqa: SLF001

    def _quiet(self) -> bool:
        """Whether no job and no task runs."""
        tracker = self.session.sparkContext._jsc.sc().statusTracker()  # noqa: SLF001
        running = sum(one.numRunningTasks() for one in tracker.getExecutorInfos())
        return not running and not list(tracker.getActiveJobIds()) and not self._workers()

    def _workers(self) -> list[psutil.Process]:
        """The living Python processes of the JVM."""
        try:
            found = psutil.Process(self.process.pid).children(recursive=True)
            return [one for one in found if one.status() != psutil.STATUS_ZOMBIE]
        except psutil.NoSuchProcess:
            return []

    def _kill_workers(self) -> None:
        """Kill all of the JVM's processes: Spark's daemon forks workers in a group of its own, also while this looks."""
        for worker in self._workers():
            with suppress(psutil.NoSuchProcess, ProcessLookupError):
                if os.getpgid(worker.pid) == worker.pid:
                    os.killpg(worker.pid, signal.SIGKILL)
                worker.kill()

    def _prepare(self, loan: int) -> None:
        """Have the workers of a loan import the platform's modules, in as many processes as tasks run at once."""
        context = self.session.sparkContext
        context.environment[LOAN] = str(loan)
        tasks = max(1, int(context.defaultParallelism))
        context.parallelize(range(tasks), tasks).foreachPartition(partial(_import, tuple(self.imports)))


def start(settings: Settings, environ: Mapping[str, str], imports: Sequence[str]) -> Jvm:
    """Start the JVM. `imports` are modules that tasks use. Raises NoJava, MissingJar, NoSession."""
    session = get_or_create_session(settings, "session", environ=environ, optimized=True)
    context = session.sparkContext
    gateway: Any = context._gateway  # noqa: SLF001 - the only way to the JVM's process
    names = context._jvm.java.util.HashSet()  # type: ignore[union-attr]  # noqa: SLF001
    found = Jvm(session, gateway.proc, imports, names)
    names.addAll(found._bindings().keySet())  # noqa: SLF001
    names.add(names._target_id)  # noqa: SLF001
    return found


def _import(modules: Iterable[str], _: object) -> None:
    for module in modules:
        importlib.import_module(module)
