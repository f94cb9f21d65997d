"""A command's use of the kept session: a Python process of its own, on the JVM of the session."""

import fcntl
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from infra.java import java_home
from infra.settings import Settings
from infra.spark.errors import SPARK_ERRORS, sentence
from infra.spark.jvm_lock import SESSION_BYTES
from infra.spark.kept import marks, messages
from infra.spark.kept.messages import Lines, Reply, Request
from infra.spark.launch import forget
from infra.spark.properties import properties
from infra.spark.session import hush, own_handlers, set_environment, spare_pandas
from views.errors import TandemError

LOAN: Final = "TANDEM_SESSION_LOAN"
"""A variable of Python workers: Spark gives a task no worker with other variables, so none of an earlier command."""
_ANSWER_S: Final = 5.0
_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"


class SessionLost(TandemError):
    """The owner of the session has ended, and its JVM with it."""


@dataclass(frozen=True)
class Loan:
    """The session, which this process has until it ends: nothing else closes the connection."""

    session: SparkSession
    _connection: Lines = field(repr=False)
    _patience: float
    """For how many seconds the owner may be silent before it is lost."""
    _locked: dict[Path, IO[bytes]] = field(default_factory=dict, repr=False)

    def try_lock(self, path: Path) -> bool:
        """Take the operating system's lock on a file; False if another process has it. Raises OSError, SessionLost, TandemError.

        A lock has two halves, and each excludes all other processes. This process keeps one until it ends, because it may commit
        after the JVM has died. The session's JVM keeps the other one until no task of the command runs, because tasks may write
        after this process was killed. The owner takes that half, not this process: a call that a killed process leaves behind
        would take a lock that nobody releases.
        """
        path = path.resolve()
        if path in self._locked:
            return True
        file = path.open("ab")
        if not (_own_half(file) and self._half_of_jvm(path)):
            file.close()
            return False
        self._locked[path] = file
        return True

    def _half_of_jvm(self, path: Path) -> bool:
        try:
            self._connection.send(Request("lock", path=str(path)))
            answer = self._connection.reply(self._patience)
        except OSError as error:
            raise SessionLost(
                f"the session of `tandem up` has ended, and with it Spark: {error}; run the command again"
            ) from error
        if answer.answer == "refused":
            raise TandemError(answer.why)
        return answer.answer == "locked"


def take(settings: Settings, what: str, *, environ: Mapping[str, str], say: Callable[[str], None]) -> Loan | None:
    """The session for the command `what` of this process; None if it has to start Spark itself.

    `say` gets the reason, if `up` keeps a session. Raises NoJava, MissingJar.
    """
    if not settings.session.idle_s or SparkContext._active_spark_context is not None:  # noqa: SLF001 - a process has one JVM
        return None
    try:
        connection = messages.connect(settings.folder, _ANSWER_S)
    except (FileNotFoundError, ConnectionRefusedError):
        return None
    except OSError as error:
        say(f"starting Spark, because the session of `tandem up` cannot be reached: {error}")
        return None
    try:
        return _lent(connection, settings, what, environ)
    except _Refused as refused:
        say(f"starting Spark, because the session of `tandem up` {refused}")
    except (OSError, Py4JError, *SPARK_ERRORS) as error:
        say(f"starting Spark, because the session of `tandem up` does not answer: {sentence(error)}")
        forget()
    connection.socket.close()
    return None


class _Refused(Exception):
    """The owner does not lend the session now."""


def _lent(connection: Lines, settings: Settings, what: str, environ: Mapping[str, str]) -> Loan:
    java = java_home.find(environ).home
    own = marks.marks(settings, java, properties(settings, environ), environ)
    connection.send(Request("session", what, os.getpid(), dict(own)))
    answer = connection.reply(_ANSWER_S)
    while answer.answer == "wait":
        answer = connection.reply(settings.speed.ready_s + settings.supervisor.silent_s)
    if answer.answer != "yours":
        raise _Refused(answer.why)
    return Loan(_attached(settings, answer, environ), connection, settings.supervisor.silent_s + _ANSWER_S)


def _own_half(file: IO[bytes]) -> bool:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, SESSION_BYTES)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _attached(settings: Settings, answer: Reply, environ: Mapping[str, str]) -> SparkSession:
    """A session of this process's own, without another's settings, views and functions, in the JVM's one context."""
    set_environment(settings, java_home.find(environ))
    spare_pandas()
    with own_handlers():
        gateway = _gateway(answer)
        jvm: Any = gateway.jvm
        there = jvm.org.apache.spark.api.java.JavaSparkContext(jvm.org.apache.spark.SparkContext.getOrCreate())
        conf = SparkConf(_jvm=jvm).setMaster(settings.spark.master).setAppName(there.appName())
        context = SparkContext(gateway=gateway, jsc=there, conf=conf, environment={LOAN: str(answer.loan)})
    hush(context)
    # The context is the owner's: a session that is stopped here ends with this process, nothing else.
    context.stop = lambda: None  # type: ignore[method-assign]
    root = jvm.org.apache.spark.sql.classic.SparkSession.getDefaultSession().get()
    return SparkSession(context, root.newSession())


def _gateway(answer: Reply) -> Any:
    """A connection to the JVM. PySpark takes it from variables, which no child of this process inherits."""
    os.environ |= {_PORT: str(answer.port), _SECRET: answer.secret}
    try:
        return launch_gateway()  # type: ignore[no-untyped-call]  # PySpark has no types for it
    finally:
        del os.environ[_PORT], os.environ[_SECRET]
