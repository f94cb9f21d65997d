"""The only place that builds a Spark session, with the access to its JVM that the rest of the platform needs."""

import logging
import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from pyspark.sql.pandas import functions, utils

from tandem.infra import folders
from tandem.infra.files import private_files
from tandem.infra.java import java_home
from tandem.infra.logs import files, log4j
from tandem.infra.logs.files import LogBounds, bounds, log_of
from tandem.infra.logs.lines import spoken
from tandem.infra.process.returned_memory import ARENAS
from tandem.infra.settings import Settings
from tandem.infra.spark import cluster, executors, versions, worker_sockets
from tandem.infra.spark.errors import SPARK_ERRORS, java_ended, sentence
from tandem.infra.spark.launch import launch
from tandem.infra.spark.properties import properties
from tandem.views.errors import TandemError

# The REPL's logger is named because Spark otherwise announces the level that it gives it.
_LOG4J: Final = """\
rootLogger.level = ${sys:tandem.log}
rootLogger.appenderRef.stderr.ref = stderr
logger.repl.name = org.apache.spark.api.python.PythonGatewayServer
logger.repl.level = ${sys:tandem.log}
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
"""
_READABLE: Final = """\
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n%ex
"""
_FRUGAL: Final = "-XX:TieredStopAtLevel=1"
"""No optimizing compiler, C2: where Python workers do the work, it costs more than its code saves."""
_SERIAL: Final = "-XX:+UseSerialGC"
_SMALL_HEAP: Final = (
    "-Xms96m",
    # Results of tasks outlive a collection or two: with half the survivor space they would be promoted to the old generation.
    "-Xmn32m",
    "-XX:SurvivorRatio=3",
    "-XX:MinHeapFreeRatio=25",
    "-XX:MaxHeapFreeRatio=40",
    # The size of the classes at which Java first collects everything: Spark's are twice the default when it has started.
    "-XX:MetaspaceSize=64m",
)
"""Java would begin with a 64th of the machine's memory, use all of it before it collects, and keep up to 70 % free then."""
_IN_PLACE: Final = ("-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0")
"""A class archive at a fixed address keeps most of its pages as in the file: JVMs share them, and the kernel can drop them."""
_COLLECTOR: Final = re.compile(r"-XX:\+Use\w+GC\b")
"""Java refuses two."""
_HEAP: Final = re.compile(r"-Xm[ns]|-XX:\w*(HeapFreeRatio|HeapSize|NewSize|NewRatio|SurvivorRatio|RAM\w*|MetaspaceSize)=")
"""Who names some of these options names all: Java refuses some pairs of sizes and shares."""
_PANDAS_CHECK: Final = "require_minimum_pandas_version"
_LOOK_S: Final = 5.0
_CULPRIT_LINES: Final = 3
_NOISE: Final = re.compile(
    r"(?i)warn(ing)?\b|\[[^]]*\]\[(warning|info)|note:|picked up |using spark's default|setting default log level|"
    r"to adjust logging level|openjdk .* warning|java hotspot.* warning|at [\w.$/@<>]+\(|\.\.\. \d+ more|"
    r"\d\d:\d\d:\d\d\S* (warn|info)\b"
)


class NoSession(TandemError, code="spark-not-started"):
    """Spark's JVM did not start."""


def get_or_create_session(
    settings: Settings,
    app: str,
    *,
    environ: Mapping[str, str],
    conf: Mapping[str, str] | None = None,
    cores: int | None = None,
    optimized: bool = False,
    debug: bool = False,
) -> SparkSession:
    """This process's session, started if there is none; a process has one JVM and one master for its whole life.

    `conf` are further properties of this use; the user's `[spark] conf` overrides both. `cores` are the most cores of a cluster
    for this use, by default `spark.cores_max`. A use is `optimized` if the JVM converts many records itself: Java then has all
    its compilers. The output of the JVM and its Python workers goes to `logs/spark-<app>.log` in the state folder, or to the
    terminal with `debug`; an error of a job is raised as an exception. Raises NoJava, MissingJar, or NoSession with the JVM's
    last lines; on a cluster also NoExecutor and OtherVersions.
    """
    configured = properties(settings, environ, conf=conf, cores=cores)
    if SparkSession.getActiveSession() is None:
        if lacking := cluster.lacks(settings, environ):
            raise NoSession(lacking)
        found = java_home.find(environ)
        archive = java_home.class_archive(found, environ)
        options = [f"-XX:SharedArchiveFile={archive}", *_IN_PLACE] if archive.exists() else []
        options += frugal(_java_options(configured), optimized=optimized)
        _launch(settings, app, configured, found, options, debug=debug)
    builder = SparkSession.builder
    for name, value in configured.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def frugal(own: str, *, optimized: bool) -> list[str]:
    """Options of a JVM that leaves the work to Python's workers, as far as the user's `own` do not rule them out."""
    compiler = [] if optimized else [_FRUGAL]
    return compiler + ([] if _COLLECTOR.search(own) else [_SERIAL, *([] if optimized or _HEAP.search(own) else _SMALL_HEAP)])


def _launch(
    settings: Settings,
    app: str,
    properties: Mapping[str, str],
    found: java_home.JavaInstallation,
    options: Sequence[str],
    *,
    debug: bool,
) -> None:
    private_files.folder(settings.folder)
    told = _log4j(settings, readable=debug)
    level = "warn" if debug else "error"
    logging_options = [f"-Dlog4j2.configurationFile={told.absolute().as_uri()}", f"-Dtandem.log={level}", "-XX:-UsePerfData"]
    given = properties.get("spark.driver.extraJavaOptions", "")
    configured = SparkConf(loadDefaults=False).setAll(list(properties.items()))
    if not cluster.remote(settings):
        configured.setAll(list(worker_sockets.properties(properties).items()))
    configured.set("spark.driver.extraJavaOptions", f"{shlex.join([*logging_options, *options])} {given}".strip())
    configured.setMaster(settings.spark.master).setAppName(f"tandem {app}")
    _set_environment(settings, found)
    _spare_pandas()
    code = cluster.packed(settings.folder / "spark") if cluster.remote(settings) else None
    if code is not None:
        configured.set(f"spark.executorEnv.{versions.DRIVER}", versions.described(code.name))
    log = log_of(settings.folder, f"spark-{app}")
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as sink:
        start = sink.tell()
        try:
            output = {} if debug else {"stdout": sink, "stderr": sink}
            gateway = launch(dict(configured.getAll()), settings.folder / "spark", output)
        except PySparkRuntimeError:
            said = "" if debug else f": {_culprit(log, start)}"
            raise NoSession(f"Spark did not start on the Java of {found.home}{said}") from None
    if not debug:
        # py4j logs a lost connection through the root logger, which without a handler prints it; also while Spark starts, if
        # Ctrl-C ends Java before PySpark's own handler of it cancels jobs there.
        logging.getLogger().addHandler(logging.NullHandler())
        _keep_bounded(log, bounds(settings.logs))
    jvm_log = None if debug else (log, start)
    deadline = executors.Deadline(settings, jvm_log)
    bounded = executors.in_time(gateway, settings, deadline, jvm_log) if cluster.waits(settings) else nullcontext()
    try:
        with _own_handlers(), bounded:
            context = SparkContext(conf=configured, gateway=gateway)
            if not cluster.remote(settings):
                worker_sockets.connect_workers(context)
    except SPARK_ERRORS as error:
        why = None if debug else executors.why_no_session(log, start)
        at = f" on {settings.spark.master}" if cluster.remote(settings) else ""
        raise NoSession(f"Spark did not start{at}: {why or sentence(error)}") from error
    except (Py4JError, OSError, EOFError) as error:
        if not java_ended(error):
            raise
        said = "" if debug else f": {_culprit(log, start)}"
        raise NoSession(f"Java ended while Spark started on {found.home}{said}") from error
    if not debug:
        _hush(context)
    if code is not None:
        deadline = deadline if cluster.waits(settings) else executors.Deadline(settings, jvm_log)
        try:
            executors.wait(context, settings, deadline, jvm_log)
            context.addPyFile(str(code))
            executors.compare(context, settings, code.name)
            executors.watch(context, settings, jvm_log)
        except BaseException:
            context.stop()
            raise


def _java_options(properties: Mapping[str, str]) -> str:
    """The user's own options of the driver's JVM."""
    given = [properties.get("spark.driver.extraJavaOptions", ""), properties.get("spark.driver.defaultJavaOptions", "")]
    return " ".join([*given, *(os.environ.get(name, "") for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"))])


@contextmanager
def _own_handlers() -> Iterator[None]:
    """Keep this process's handler of Ctrl-C, which a new SparkContext replaces."""
    interrupted = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, interrupted)


def _hush(context: SparkContext) -> None:
    """Keep PySpark's own threads from writing to the terminal: their errors are raised as exceptions, too."""
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    # The thread that waits for accumulators prints a stack when the JVM is gone.
    context._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign]  # noqa: SLF001 - no other way


def _keep_bounded(log: Path, bounds: LogBounds) -> None:
    """Bound, for as long as this process lives, the output of the JVM and of the project's code in its Python workers."""

    def look() -> None:
        never = threading.Event()
        while True:
            files.empty(log, bounds)
            never.wait(_LOOK_S)

    threading.Thread(target=look, name="bounds of Spark's log", daemon=True).start()


def _log4j(settings: Settings, *, readable: bool) -> Path:
    folder, remote = settings.folder / "spark", cluster.remote(settings)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"log4j2{'-cluster' if remote else ''}{'-readable' if readable else ''}.properties"
    text = _LOG4J + (cluster.LOGGERS if remote else "") + (_READABLE if readable else log4j.layout("stderr"))
    if not path.exists() or path.read_text("ascii") != text:
        path.write_text(text, "ascii")
    return path


def _set_environment(settings: Settings, found: java_home.JavaInstallation) -> None:
    """The environment variables of the JVM and its Python workers: the only way to configure them at their start."""
    os.environ["JAVA_HOME"] = str(found.home)
    os.environ.setdefault(*ARENAS)
    remote = cluster.remote(settings)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYSPARK_PYTHON"] = (remote and settings.spark.python) or sys.executable
    if not remote:
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    # Otherwise a worker would import modules from the current folder first.
    os.environ.update(folders.child_environment(os.environ))


def _spare_pandas() -> None:
    """Keep PySpark from importing pandas to see whether it is there: neither py4j's calls nor mapInArrow use it.

    So PySpark does not check the version of pandas either, also where a script of `tandem pyspark` uses it.
    """
    for module in (functions, utils):
        setattr(module, _PANDAS_CHECK, lambda: None)


def _culprit(log: Path, start: int) -> str:
    """The reason that an ended JVM printed: its first lines that are neither warnings, notes nor a stack."""
    with log.open("rb") as file:
        file.seek(start)
        printed = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines()]
    errors = [spoken(line) for line in printed if line and not _NOISE.match(line)]
    if not errors:
        return f"it ended without an error message; it may have been killed, for example when memory ran out; its log is {log}"
    return "; ".join(errors[:_CULPRIT_LINES])
