"""The kept session: one command at a time uses its JVM, nothing of a command reaches the next one, and all it leaves ends."""

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from infra import kafka
from infra.spark.kept import messages
from ledger.delta import locks
from ledger.publish import publications
from tests.batch.shop import Shop, assert_true, records, together
from tests.cli.run import exposure
from tests.stack import PYTHONPATH, environ, new_topic

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

_PATIENCE_S = 300

SETTINGS = """
[spark]
master = "local[2]"
driver_memory = "512m"
[session]
idle_s = {idle_s}
[supervisor]
silent_s = {silent_s}
"""

COMMAND = """
import os, sys, time
from pathlib import Path
from infra.settings import load
from infra.spark.kept import loan
project = Path(sys.argv[1])
held = loan.take(load(project, os.environ), "tandem test", environ=os.environ, say=lambda text: print(text, flush=True))
if held is None:
    sys.exit(7)
spark, context = held.session, held.session.sparkContext
def tasks(work):
    return context.parallelize(range(2), 2).map(work).collect()
"""
"""A command that uses the session; what it then does follows."""


def until(true: Callable[[], object]) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + _PATIENCE_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def variables(modules: Path) -> dict[str, str]:
    """The environment of an owner and its commands; pytest gives each test another value of its own variables."""
    same = {name: value for name, value in environ().items() if not name.startswith("PYTEST_")}
    return same | {"PYTHONPATH": f"{PYTHONPATH}{os.pathsep}{modules}"}


@dataclass(frozen=True)
class Kept:
    """A project whose session an owner keeps."""

    folder: Path
    owner: "subprocess.Popen[bytes]"
    modules: Path

    def start(self, does: str, **more: str) -> "subprocess.Popen[str]":
        """Start a command."""
        return subprocess.Popen(
            [sys.executable, "-c", COMMAND + does, str(self.folder)],
            env=variables(self.modules) | more,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, does: str, code: int = 0, **more: str) -> list[str]:
        """What a command prints, line by line."""
        command = self.start(does, **more)
        printed, _ = command.communicate(timeout=_PATIENCE_S)
        assert command.returncode == code, printed
        return printed.splitlines()

    def jvm(self) -> psutil.Process | None:
        """The session's JVM; None if none runs."""
        for process in psutil.Process(self.owner.pid).children():
            if process.status() != psutil.STATUS_ZOMBIE and "java" in process.name():
                return process
        return None


@pytest.fixture(scope="module")
def keep(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Kept]]:
    """Start owners; the module ends them."""
    started = list[Kept]()

    def begin(idle_s: int = 600, silent_s: int = 60, of: Path | None = None, state: str = ".tandem") -> Kept:
        folder = of or tmp_path_factory.mktemp("too_long_for_an_address_of_a_socket_" * 3)
        if of is None:
            (folder / "tandem.toml").write_text(SETTINGS.format(idle_s=idle_s, silent_s=silent_s))
        (folder / "modules").mkdir()
        words = [sys.executable, "-m", "cli.run.session", "--project", str(folder)]
        owner = subprocess.Popen(words, env=variables(folder / "modules"))
        started.append(Kept(folder, owner, folder / "modules"))
        until(lambda: messages.ping(folder / state, 5))
        return started[-1]

    yield begin
    for kept in started:
        kept.owner.terminate()
        jvm = kept.jvm() if psutil.pid_exists(kept.owner.pid) else None
        assert kept.owner.wait(60) == 0
        assert jvm is None or not jvm.is_running() or jvm.status() == psutil.STATUS_ZOMBIE


@pytest.fixture(scope="module")
def kept(keep: Callable[..., Kept]) -> Kept:
    """An owner whose session stays."""
    return keep()


def test_nothing_of_a_command_reaches_the_next_one(kept: Kept) -> None:
    first = """
spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
spark.range(3).createOrReplaceTempView("mine")
context.setLocalProperty("mine", "yes")
context.setJobGroup("mine", "mine")
context.parallelize(range(10)).cache().count()
context.broadcast(list(range(1000)))
print(context._jsc.getPersistentRDDs().size(), sorted(set(tasks(lambda _: os.getpid()))))
print(held.try_lock(project / "lock"))
spark.stop()
"""
    then = """
print(spark.conf.get("spark.sql.session.timeZone"), spark.catalog.tableExists("mine"), context.getLocalProperty("mine"))
print(context._jsc.getPersistentRDDs().size(), sorted(set(tasks(lambda _: os.getpid()))))
print(held.try_lock(project / "lock"), os.environ.get("PYSPARK_GATEWAY_SECRET"))
"""
    one, locked = kept.run(first)
    jvm = kept.jvm()
    assert jvm is not None
    context, state, lock = kept.run(then)
    assert (locked, lock) == ("True", "True None")
    assert context == "UTC False None"
    assert (one.partition(" ")[0], state.partition(" ")[0]) == ("1", "0")
    workers = [set(text.partition(" ")[2].strip("[]").split(", ")) for text in (one, state)]
    assert not workers[0] & workers[1]
    assert kept.jvm() == jvm  # `stop` of a command stops nothing
    until(lambda: locks.holding(kept.folder / "lock") is None)


def test_a_command_computes_by_its_own_version_of_the_code(kept: Kept) -> None:
    does = """
def rate(_):
    import rates
    return rates.RATE
def where(_):
    from views.project import project
    return project.load_files(files).views["paid"].where
files = {"tandem.toml": b"", "limits.py": f"LIMIT = {LIMIT}".encode(), "definitions.py": b'''
from datetime import datetime
from limits import LIMIT
from tandem import Event, Source, View, count
class Sale(Event):
    at: datetime
    cents: int
sales = Source(topic="sales", event=Sale, event_time="at")
paid = View(source=sales, where=f"cents > {LIMIT}", measures={"n": count()})
SOURCES = (sales,)
VIEWS = (paid,)
'''}
print(tasks(rate), tasks(where))
"""
    for number in (1, 2):
        # Another size: modules are cached by size and second.
        (kept.modules / "rates.py").write_text(f"RATE = {10**number}\n")
        assert kept.run(f"LIMIT = {number}\n{does}") == [f"[{10**number}, {10**number}] ['cents > {number}', 'cents > {number}']"]


def test_two_commands_do_not_use_it_at_once(kept: Kept) -> None:
    first = kept.start("print(context._gateway.gateway_parameters.auth_token, flush=True)\nsys.stdin.read()\n")
    assert first.stdout is not None
    secret = first.stdout.readline().strip()
    assert len(secret) > 16
    assert exposure.commands([secret]) == exposure.commands([secret], what="environ") == []
    assert exposure.files([secret], kept.folder / ".tandem") == []
    assert stat.S_IMODE(messages.file(kept.folder / ".tandem").stat().st_mode) == 0o600
    said = kept.run("", code=7)
    assert said == [f"starting Spark, because the session of `tandem up` is used by tandem test (process {first.pid})"]
    first.kill()
    first.wait()
    assert kept.run("print(sum(tasks(int)))") == ["1"]


def test_another_environment_or_setting_is_refused_by_name(kept: Kept) -> None:
    (said,) = kept.run("", code=7, AWS_REGION="mars", TANDEM_SPARK_DRIVER_MEMORY="600m")
    different = "the Spark property spark.driver.memory, the environment variable AWS_REGION"
    assert said == f"starting Spark, because the session of `tandem up` has another value of {different}"
    assert kept.run("print(sum(tasks(int)))", AIRFLOW_CTX_DAG_ID="recompute", TERM="vt100") == ["1"]


def test_a_killed_command_writes_nothing_once_its_lock_is_free(kept: Kept) -> None:
    written, lock = kept.folder / "written", kept.folder / "killed.lock"
    does = f"""
def write(_):
    with open({str(written)!r}, "ab", buffering=0) as file:
        while True:
            file.write(b".")
            time.sleep(0.001)
print(held.try_lock(Path({str(lock)!r})), flush=True)
tasks(write)
"""
    command = kept.start(does)
    until(lambda: written.exists() and written.stat().st_size > 100)
    jvm = kept.jvm()
    assert jvm is not None
    assert locks.holding(lock) in {command.pid, jvm.pid}
    command.kill()
    until(lambda: locks.holding(lock) is None)
    size = written.stat().st_size
    assert kept.run(f"print(sum(tasks(int)), held.try_lock(Path({str(lock)!r})))") == ["1 True"]
    assert written.stat().st_size == size
    assert kept.jvm() == jvm


@pytest.mark.parametrize("dies", ["JVM", pytest.param("owner", marks=pytest.mark.slow)])
def test_a_command_keeps_its_lock_when_its_jvm_dies(keep: Callable[..., Kept], dies: str) -> None:
    kept = keep()
    lock = kept.folder / "kept.lock"
    does = f"print(held.try_lock(Path({str(lock)!r})), held.try_lock(Path({str(lock)!r})), flush=True)\nsys.stdin.read()\n"
    command = kept.start(does)
    assert command.stdout is not None
    assert command.stdout.readline() == "True True\n"
    jvm, owner = kept.jvm(), messages.connect(kept.folder / ".tandem", _PATIENCE_S).socket
    assert jvm is not None
    if dies == "JVM":
        jvm.kill()
    else:
        kept.owner.terminate()
        assert kept.owner.wait(_PATIENCE_S) == 0
    until(lambda: not psutil.pid_exists(jvm.pid))
    assert locks.holding(lock) == command.pid
    with locks.own() as acquire:
        assert not acquire(lock)
    if dies == "JVM":
        # The next session's command waits for the first one, as one without a session does.
        assert owner.recv(1) == b"", "the owner starts over"
        until(lambda: messages.ping(kept.folder / ".tandem", 5))
        assert kept.run(f"print(held.try_lock(Path({str(lock)!r})))") == ["False"]
    owner.close()
    command.kill()
    command.wait()
    with locks.own() as acquire:
        assert acquire(lock)


def test_a_lock_that_cannot_be_used_is_refused_with_its_reason(kept: Kept) -> None:
    (kept.folder / "folder.lock").mkdir()
    does = """
from views.errors import TandemError
import errno
from infra.spark.kept.messages import Request
held._connection.send(Request("lock", path=str(project / "folder.lock")))
print(held._connection.reply(60).why)
try:
    held.try_lock(project / "folder.lock")
except OSError as error:
    print(errno.errorcode[error.errno])
print(sum(tasks(int)))
"""
    why, own, total = kept.run(does)
    lock = kept.folder / "folder.lock"
    assert why == f"cannot use the lock {lock}: FileNotFoundException: {lock} (Is a directory)"
    assert (own, total) == ("EISDIR", "1")


@pytest.mark.slow
def test_a_session_whose_jvm_dies_or_hangs_is_started_again(keep: Callable[..., Kept]) -> None:
    kept = keep(silent_s=3)
    endless = "print('mine', flush=True)\ntasks(lambda _: time.sleep(600))\n"
    for number in (signal.SIGKILL, signal.SIGSTOP):
        command = kept.start(endless)
        assert command.stdout is not None
        assert command.stdout.readline() == "mine\n"
        jvm = kept.jvm()
        assert jvm is not None
        jvm.send_signal(number)
        assert command.wait(_PATIENCE_S) != 0
        until(lambda before=jvm: not before.is_running() or before.status() == psutil.STATUS_ZOMBIE)
        until(lambda: messages.ping(kept.folder / ".tandem", 5))
    assert kept.run("print(sum(tasks(int)))") == ["1"]
    assert kept.owner.poll() is None


@pytest.mark.slow
def test_a_stopped_owner_holds_no_command_up(keep: Callable[..., Kept]) -> None:
    kept = keep()
    kept.owner.send_signal(signal.SIGSTOP)
    try:
        (said,) = kept.run("", code=7)
    finally:
        kept.owner.send_signal(signal.SIGCONT)
    assert said.startswith("starting Spark, because the session of `tandem up` does not answer: ")


@pytest.mark.slow
def test_an_idle_session_frees_its_memory_and_starts_again(keep: Callable[..., Kept]) -> None:
    kept = keep(idle_s=1)
    assert kept.jvm() is None
    for _ in range(2):
        assert kept.run("print(sum(tasks(int)))") == ["1"]
        until(lambda: kept.jvm() is None)
        until(lambda: messages.ping(kept.folder / ".tandem", 5))
    memory = psutil.Process(kept.owner.pid).memory_full_info()
    assert memory.uss < 150 << 20


@pytest.mark.broker
def test_runs_in_the_session_publish_the_truth_also_after_one_was_killed(
    keep: Callable[..., Kept], broker: kafka.Connection, tmp_path: Path
) -> None:
    shop = Shop.open(broker, new_topic(broker), tmp_path)
    with (tmp_path / "tandem.toml").open("a") as file:
        file.write("[session]\nidle_s = 600\n")
    kept = keep(of=tmp_path, state="state")

    def start(command: str) -> "subprocess.Popen[bytes]":
        words = [sys.executable, "-m", "cli", command, "--project", str(tmp_path)]
        return subprocess.Popen(words, env=variables(kept.modules), stdin=subprocess.DEVNULL)

    log = records(31, 300)
    shop.sell(log)
    assert start("archive").wait(_PATIENCE_S) == 0
    jvm = kept.jvm()
    assert jvm is not None
    killed, lock = start("recompute"), shop.tables.lock("views")
    until(lambda: lock.exists() and locks.holding(lock) is not None)
    killed.kill()
    more = records(32, 100, known=log[1])
    shop.sell(more)
    for command in ("archive", "recompute"):
        assert start(command).wait(_PATIENCE_S) == 0
    live = publications.latest(shop.tables)
    assert live is not None
    assert_true(shop, live, together(log, more))
    assert kept.jvm() == jvm
    assert {path.name for path in (tmp_path / "state" / "logs").glob("spark-*")} == {"spark-session.log"}
