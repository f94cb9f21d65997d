"""The executors of a session on a cluster: none came, none is left, or one computes with other versions; each is an error."""

import re
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark import SparkContext

from infra.logs import lines
from infra.settings import Settings
from infra.settings.spark_master import kind
from infra.spark import first_task
from infra.spark.errors import SPARK_ERRORS, sentence
from views.errors import TandemError

_LOOK_S: Final = 0.2
_WATCH_S: Final = 2.0
_SHOWN: Final = 3
_CAUSE: Final = re.compile(r"Caused by: (?:\w+[.$])*(.*)")
# What Spark's own loggers report, as their only interface: a refused executor is neither an exception nor a value.
_ENDED: Final = re.compile(r"Executor updated: \S+ is now (?:FAILED|EXITED|LOST)(?: \((?P<why>.*)\))?$", re.DOTALL)
_REMOVED: Final = re.compile(r"Application has been killed\. Reason: (?P<why>.*)", re.DOTALL)
_UNREACHED: Final = re.compile(r"Failed to connect to master (?P<where>\S+)")
_EXIT: Final = re.compile(r"Command exited with code \d+")

Log = tuple[Path, int]
"""The log of a JVM, and how many bytes of it are of earlier ones."""


class NoExecutor(TandemError):
    """No executor came in time, or the cluster refused all."""


class OtherVersions(TandemError):
    """An executor has another Python, package or copy of Tandem than this process."""


def wait(context: SparkContext, settings: Settings, log: Log | None) -> None:
    """Return once an executor has come. `log` is the JVM's, for reasons; None if it goes to a terminal.

    Raises NoExecutor after `spark.executor_wait_s`, or as soon as the cluster gives up.
    """
    deadline = time.monotonic() + settings.spark.executor_wait_s
    never = threading.Event()
    while _stopped(context) or not _came(context):
        if _stopped(context) or time.monotonic() > deadline:
            raise NoExecutor(_none_came(context, settings, log))
        never.wait(_LOOK_S)


def compare(context: SparkContext, settings: Settings, sent: str) -> None:
    """Compare the versions of the executors that have come with this process's; `sent` is what infra.spark.cluster.ship returned.

    Raises OtherVersions, and NoExecutor if no task can run.
    """
    master, tasks = settings.spark.master, max(2, int(context.defaultParallelism))
    try:
        there = context.parallelize(range(tasks), tasks).map(first_task.report).collect()
    except SPARK_ERRORS as error:
        raise NoExecutor(f"the first task of the session on {master} failed: {_with_hint(sentence(error))}") from error
    if found := first_task.differences(first_task.report(), there, sent):
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
                    reason = (log and _reason(log)) or _of_master(context, settings) or "the cluster gave no reason"
                    for job in jobs:
                        java.cancelJob(
                            job, f"because no executor has been there for {settings.spark.executor_wait_s} s: {reason}"
                        )

    threading.Thread(target=look, name="executors", daemon=True).start()


def why_no_session(log: Path, start: int) -> str | None:
    """Why a session on a cluster did not start, from the JVM's log; None if the log has no reason."""
    return _reason((log, start))


def _came(context: SparkContext) -> bool:
    # The driver is one of them.
    return len(_java(context).statusTracker().getExecutorInfos()) > 1


def _stopped(context: SparkContext) -> bool:
    return bool(_java(context).isStopped())


def _java(context: SparkContext) -> Any:
    return context._jsc.sc()  # noqa: SLF001 - the only way to the JVM that py4j offers


def _none_came(context: SparkContext, settings: Settings, log: Log | None) -> str:
    spark = settings.spark
    since = "the cluster gave up" if _stopped(context) else f"no executor came within {spark.executor_wait_s} s"
    reason = (log and _reason(log)) or _of_master(context, settings) or "the cluster gave no reason"
    return f"{since} on {spark.master}: {_with_hint(reason, context)}"


def _with_hint(reason: str, context: SparkContext | None = None) -> str:
    if "Cannot run program" in reason and "python" in reason:
        return f"{reason}; set spark.python to a Python of the executors' hosts"
    if context is not None and _EXIT.search(reason):
        conf = context.getConf()
        at = f"{conf.get('spark.driver.host')}:{conf.get('spark.driver.port')}"
        return (
            f"{reason}; its own log on the worker has the cause. If it cannot reach this process at {at}, set spark.driver_host "
            "to an address that it reaches"
        )
    return reason


def _reason(log: Log) -> str | None:
    """The newest reason that Spark's loggers gave."""
    reasons = list(_reasons(log))
    return reasons[-1] if reasons else None


def _reasons(log: Log) -> Iterator[str]:
    path, start = log
    with path.open("rb") as file:
        file.seek(start)
        written = file.read().splitlines()
    for line in (lines.parse(one, "spark", at=datetime.now(UTC)) for one in written):
        if line is None:
            continue
        stack = str(line.known.get("exception", ""))
        if found := _ENDED.search(line.text):
            yield f"an executor ended at once: {_plain(found['why'] or 'without a message')}"
        elif found := _UNREACHED.search(line.text):
            causes = _CAUSE.findall(stack)
            yield f"{found['where']} cannot be reached{f': {causes[-1].strip()}' if causes else ''}"
        elif (found := _REMOVED.search(line.text)) and "unresponsive" not in line.text:
            yield _plain(found["why"])


def _plain(text: str) -> str:
    """The first line, without the package of an exception's class."""
    return re.sub(r"^(?:[\w$]+\.)+(?=[A-Z]\w*: )", "", text.strip().splitlines()[0])


def _of_master(context: SparkContext, settings: Settings) -> str | None:
    """What a standalone master has to offer, and who else uses it; None if it does not answer."""
    if kind(settings.spark.master) != "standalone" or _stopped(context):
        return None
    try:
        state = _master_state(context, settings.spark.master)
        # How much of a worker is free is not part of the answer.
        workers = [worker for worker in state.workers() if worker.state().toString() == "ALIVE"]
        others = sorted(f"'{app.desc().name()}'" for app in state.activeApps() if app.id() != context.applicationId)
        cores, memory = sum(worker.cores() for worker in workers), max((worker.memory() for worker in workers), default=0)
    except (Py4JError, *SPARK_ERRORS):
        return None
    if not workers:
        return "it has no workers"
    spark = settings.spark
    needed = f"an executor needs a free core and {spark.conf.get('spark.executor.memory', spark.executor_memory)} of memory"
    held = f"; {', '.join(others)} may hold them" if others else ""
    return f"it has {len(workers)} workers with {cores} cores and at most {memory} MB of memory each{held}; {needed}"


def _master_state(context: SparkContext, master: str) -> Any:
    """The answer that the master's own web page shows."""
    jvm: Any = context._jvm  # noqa: SLF001 - the only way to the JVM that py4j offers
    host, port = master.removeprefix("spark://").split(",")[0].split(":")
    there = _java(context).env().rpcEnv().setupEndpointRef(jvm.org.apache.spark.rpc.RpcAddress(host, int(port)), "Master")
    question = getattr(getattr(jvm.org.apache.spark.deploy, "DeployMessages$RequestMasterState$"), "MODULE$")
    return there.askSync(question, getattr(getattr(jvm.scala.reflect, "ClassTag$"), "MODULE$").AnyRef())
