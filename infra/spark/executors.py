"""The executors of a session on a cluster: none came, none is left, or one computes with other versions; each is an error."""

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark import SparkContext

from tandem.infra import clock
from tandem.infra.logs import lines
from tandem.infra.logs.lines import Line
from tandem.infra.settings import Settings
from tandem.infra.settings.spark_master import kind
from tandem.infra.spark import versions, yarn
from tandem.infra.spark.errors import SPARK_ERRORS, sentence
from tandem.infra.spark.launch import forget
from tandem.views.counted import counted
from tandem.views.errors import TandemError

_LOOK_S: Final = 0.2
_TOGETHER_S: Final = 1.0
"""Seconds to wait for another executor after the last registration."""
_WATCH_S: Final = 2.0
_END_S: Final = 10.0
_SHOWN: Final = 3
_CAUSE: Final = re.compile(r"Caused by: (?:\w+[.$])*(.*)")
# What Spark's own loggers report, as their only interface: a refused executor is neither an exception nor a value.
_ENDED: Final = re.compile(r"Executor updated: \S+ is now (?:FAILED|EXITED|LOST)(?: \((?P<why>.*)\))?$", re.DOTALL)
_REMOVED: Final = re.compile(r"Application has been killed\. Reason: (?P<why>.*)", re.DOTALL)
_UNREACHED: Final = re.compile(r"Failed to connect to master (?P<where>\S+)")
_RETRIED: Final = re.compile(r"Retrying connect to server: (?P<where>\S+?)\. ")
_DIAGNOSED: Final = re.compile(r"[dD]iagnostics(?: message)?: (?:\[[^]]*\] )?(?P<why>\S.*?)\s*(?: Details :|\n|$)")
_SAYS_NOTHING: Final = re.compile(r"N/A$|Max number of executor failures")  # each failure has been reported before
_LOST: Final = re.compile(
    r"Requesting driver to remove executor \S+ for reason (?P<why>.*?)\.?(?: (?:Possible causes|Diagnostics): | Consider |$)",
    re.DOTALL,
)
_SENDING: Final = "Preparing resources for our AM container"
_SUBMITTING: Final = "Submitting application "
_EXIT: Final = re.compile(r"Command exited with code \d+|Exit status: \d+")

Log = tuple[Path, int]
"""The log of a JVM, and how many bytes of it are of earlier ones."""


class NoExecutor(TandemError, code="executor-missing"):
    """No executor came in time, or the cluster refused all."""


class OtherVersions(TandemError, code="executor-differs"):
    """An executor has another Python, package or copy of Tandem than this process."""


class Deadline:
    """Passes `spark.executor_wait_s` after it was made, or after YARN's client has sent its files."""

    def __init__(self, settings: Settings, log: Log | None) -> None:
        self._seconds, self._log = settings.spark.executor_wait_s, log
        self._since = time.monotonic()

    def passed(self) -> bool:
        """Whether it has passed."""
        if self._log is not None and _sends(self._log):
            self._since = time.monotonic()
        return time.monotonic() - self._since > self._seconds


@contextmanager
def in_time(gateway: Any, settings: Settings, deadline: Deadline, log: Log | None) -> Iterator[None]:
    """Bound a block that starts a session in this JVM: YARN's client, for one, would wait for ever.

    At the deadline it removes the submitted YARN application, or else ends the JVM; the block then raises NoExecutor.
    """
    ended, late = threading.Event(), list[str]()

    def look() -> None:
        while not ended.wait(_LOOK_S):
            if not deadline.passed():
                continue
            late.append((log and _reason(log)) or "Spark has not started, and its log has no reason")
            if log and (application := _submitted(log)):
                threading.Thread(target=_remove, args=(gateway.jvm, application), daemon=True).start()
                ended.wait(_END_S)
            for end in (gateway.proc.terminate, gateway.proc.kill):
                if not ended.is_set():
                    end()
                    ended.wait(_END_S)
            return

    threading.Thread(target=look, name="start of the session", daemon=True).start()
    try:
        yield
    except (Py4JError, OSError, EOFError) as error:
        if not late:
            raise
        forget()
        raise NoExecutor(_none_in_time(settings, late[0])) from error
    finally:
        ended.set()


def _remove(jvm: Any, application: str) -> None:
    with suppress(Py4JError, OSError):  # YARN does not answer, or the JVM has ended
        yarn.kill(jvm, application)


def wait(context: SparkContext, settings: Settings, deadline: Deadline, log: Log | None) -> None:
    """Return once an executor has registered, and no other one has followed within a second.

    `log` is the JVM's, for reasons; None if it goes to a terminal.

    Raises NoExecutor at the deadline, or as soon as the cluster gives up.
    """
    never, came = threading.Event(), 0
    while _stopped(context) or not _came(context):
        if _stopped(context) or deadline.passed():
            raise NoExecutor(_none_came(context, settings, log))
        never.wait(_LOOK_S)
    # Those that are not here yet would not be compared.
    while not _stopped(context) and (now := _came(context)) > came:
        came = now
        never.wait(_TOGETHER_S)
    if _stopped(context):
        raise NoExecutor(_none_came(context, settings, log))


def compare(context: SparkContext, settings: Settings, sent: str) -> None:
    """Compare the versions of the executors that have come with this process's; `sent` is the archive that they import.

    Raises OtherVersions, and NoExecutor if no task can run.
    """
    master = settings.spark.master
    # More tasks than there are cores would make executors come that no work waits for.
    tasks = max(1, _came(context)) if settings.spark.executor_idle_s else max(2, int(context.defaultParallelism))
    try:
        there = context.parallelize(range(tasks), tasks).map(versions.report).collect()
    except SPARK_ERRORS as error:
        raise NoExecutor(f"the first task of the session on {master} failed: {_with_hint(sentence(error))}") from error
    if found := versions.differences(versions.report(), there, sent):
        shown = "; ".join(found[:_SHOWN]) + (f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "")
        raise OtherVersions(
            f"executors of {master} would compute with other versions: {shown}: install there what this process has, or name a "
            "Python that has it in spark.python"
        )


def watch(context: SparkContext, settings: Settings, log: Log | None) -> None:
    """From now on, cancel jobs that have waited for an executor for `spark.executor_wait_s`: Spark itself waits for ever.

    The reason is that of the cancelled job. Ends with the session.
    """
    java = _java(context)

    def look() -> None:
        never, since = threading.Event(), None
        with suppress(Py4JError, OSError):  # the JVM has ended
            while not java.isStopped():
                never.wait(_WATCH_S)
                jobs, now = list(java.statusTracker().getActiveJobIds()), time.monotonic()
                # Without jobs a session may have no executor: dynamic allocation returns idle ones.
                since = None if not jobs or len(java.statusTracker().getExecutorInfos()) > 1 else since or now
                if since is not None and now - since > settings.spark.executor_wait_s:
                    reason = (log and _reason(log)) or _of_cluster(context, settings) or "the cluster gave no reason"
                    for job in jobs:
                        java.cancelJob(
                            job, f"because no executor has been there for {settings.spark.executor_wait_s} s: {reason}"
                        )

    threading.Thread(target=look, name="executors", daemon=True).start()


def why_no_session(log: Path, start: int) -> str | None:
    """Why a session on a cluster did not start, from the JVM's log; None if the log has no reason."""
    return _reason((log, start))


def _came(context: SparkContext) -> int:
    # The driver is one of them.
    return len(_java(context).statusTracker().getExecutorInfos()) - 1


def _stopped(context: SparkContext) -> bool:
    return bool(_java(context).isStopped())


def _java(context: SparkContext) -> Any:
    return context._jsc.sc()  # noqa: SLF001 - the only way to the JVM that py4j offers


def _none_came(context: SparkContext, settings: Settings, log: Log | None) -> str:
    reason = (log and _reason(log)) or _of_cluster(context, settings) or "the cluster gave no reason"
    reason = _with_hint(reason, context)
    return f"the cluster gave up on {settings.spark.master}: {reason}" if _stopped(context) else _none_in_time(settings, reason)


def _none_in_time(settings: Settings, reason: str) -> str:
    return f"no executor came within {settings.spark.executor_wait_s} s on {settings.spark.master}: {reason}"


def _with_hint(reason: str, context: SparkContext | None = None) -> str:
    if "Cannot run program" in reason and "python" in reason:
        return f"{reason}; set spark.python to a Python of the executors' hosts"
    if context is not None:
        conf = context.getConf()
        at = f"{conf.get('spark.driver.host')}:{conf.get('spark.driver.port')}"
        if at in reason:
            return f"{reason}; set spark.driver_host to an address at which the cluster reaches this process"
        if _EXIT.search(reason):
            return (
                f"{reason}; its own log on the worker has the cause. If it cannot reach this process at {at}, set "
                "spark.driver_host to an address that it reaches"
            )
    return reason


def _reason(log: Log) -> str | None:
    """The newest reason that Spark's loggers gave."""
    reasons = list(_reasons(log))
    return reasons[-1] if reasons else None


def _submitted(log: Log) -> str | None:
    """The application that YARN's client has submitted."""
    found = [line.text.split()[2] for line in _lines(log) if line.text.startswith(_SUBMITTING)]
    return found[-1] if found else None


def _sends(log: Log) -> bool:
    """Whether YARN's client sends its files: Spark's jars, unless `spark.yarn.jars` names them on the nodes."""
    said = [line.text for line in _lines(log) if line.text.startswith((_SENDING, _SUBMITTING))]
    return bool(said) and said[-1].startswith(_SENDING)


def _lines(log: Log) -> Iterator[Line]:
    path, start = log
    with path.open("rb") as file:
        # A file that has reached its bound starts over (infra/logs/files.py).
        file.seek(start if start <= path.stat().st_size else 0)
        written = file.read().splitlines()
    return (line for one in written if (line := lines.parse(one, "spark", at=clock.now())))


def _reasons(log: Log) -> Iterator[str | None]:
    """The reasons in order; None once the earlier ones are settled."""
    for line in _lines(log):
        stack = str(line.known.get("exception", ""))
        if found := _ENDED.search(line.text):
            yield f"an executor ended at once: {_plain(found['why'] or 'without a message')}"
        elif found := _UNREACHED.search(line.text):
            causes = _CAUSE.findall(stack)
            yield f"{found['where']} cannot be reached{f': {causes[-1].strip()}' if causes else ''}"
        elif line.text.startswith("Application report for ") and line.text.endswith("(state: RUNNING)"):
            yield None
        elif found := _RETRIED.match(line.text):
            yield f"{found['where']} cannot be reached"
        elif found := _LOST.search(line.text):
            yield f"an executor ended at once: {found['why'].strip()}"
        elif (found := _DIAGNOSED.search(line.text)) and not _SAYS_NOTHING.match(found["why"]):
            causes = _CAUSE.findall(line.text)
            yield f"YARN says: {causes[-1].strip() if causes else found['why']}"
        elif (found := _REMOVED.search(line.text)) and "unresponsive" not in line.text:
            yield _plain(found["why"])


def _plain(text: str) -> str:
    """The first line, without the package of an exception's class."""
    return re.sub(r"^(?:[\w$]+\.)+(?=[A-Z]\w*: )", "", text.strip().splitlines()[0])


def _of_cluster(context: SparkContext, settings: Settings) -> str | None:
    """What a standalone master or YARN has to offer; None if it does not answer."""
    if _stopped(context):
        return None
    try:
        offered = {"standalone": _of_master, "yarn": _of_yarn}.get(kind(settings.spark.master) or "")
        return offered and offered(context, settings)
    except (Py4JError, *SPARK_ERRORS):
        return None


def _of_yarn(context: SparkContext, settings: Settings) -> str:
    there: Any = context._gateway  # noqa: SLF001 - the only way to the JVM that py4j offers
    return f"{yarn.room(there.jvm, there.new_array)}; an executor needs {_memory(settings)} and its overhead"


def _memory(settings: Settings) -> str:
    return settings.spark.conf.get("spark.executor.memory", settings.spark.executor_memory)


def _of_master(context: SparkContext, settings: Settings) -> str:
    """What a standalone master has to offer, and who else uses it."""
    state = _master_state(context, settings.spark.master)
    # How much of a worker is free is not part of the answer.
    workers = [worker for worker in state.workers() if worker.state().toString() == "ALIVE"]
    others = sorted(f"'{app.desc().name()}'" for app in state.activeApps() if app.id() != context.applicationId)
    cores, memory = sum(worker.cores() for worker in workers), max((worker.memory() for worker in workers), default=0)
    if not workers:
        return "it has no workers"
    needed = f"an executor needs a free core and {_memory(settings)} of memory"
    held = f"; {', '.join(others)} may hold them" if others else ""
    return f"it has {counted(len(workers), 'worker')} with {cores} cores and at most {memory} MB of memory each{held}; {needed}"


def _master_state(context: SparkContext, master: str) -> Any:
    """The answer that the master's own web page shows."""
    jvm: Any = context._jvm  # noqa: SLF001 - the only way to the JVM that py4j offers
    host, port = master.removeprefix("spark://").split(",")[0].split(":")
    there = _java(context).env().rpcEnv().setupEndpointRef(jvm.org.apache.spark.rpc.RpcAddress(host, int(port)), "Master")
    question = getattr(getattr(jvm.org.apache.spark.deploy, "DeployMessages$RequestMasterState$"), "MODULE$")
    return there.askSync(question, getattr(getattr(jvm.scala.reflect, "ClassTag$"), "MODULE$").AnyRef())
