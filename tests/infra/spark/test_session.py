"""The session: plain Delta tables, UTC, loopback, a quiet terminal, and a lock that the JVM holds."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tandem.infra.folders import ROOT, child_environment
from tandem.infra.java import jars, java_home
from tandem.infra.kafka import Address, outside
from tandem.infra.process import background
from tandem.infra.settings import KafkaSettings, Settings
from tandem.infra.spark.jvm_lock import try_lock
from tandem.infra.spark.kafka_source import kafka_options
from tandem.infra.spark.session import frugal
from tandem.ledger.delta.one_writer import write_locks
from tandem.views.errors import TandemError
from tests.infra.kafka.secured.authority import Authority
from tests.stack import PYTHONPATH, environ

pytestmark = pytest.mark.spark

# A driver of its own: says its JVM's pid and whether it got the lock, fails a job, then waits to be killed.
DRIVER = """
import sys, os, time
from pathlib import Path
from tandem.infra.spark.jvm_lock import try_lock
from tandem.infra.spark.session import get_or_create_session
from tandem.infra.settings import Settings, SparkSettings
settings = Settings(state=sys.argv[1], spark=SparkSettings(master="local[1]", driver_memory="512m"))
session = get_or_create_session(settings, "driver", environ=os.environ)
got = try_lock(session, Path(sys.argv[2]))
try:
    session.sql("select 1 / 0").collect()
except Exception as error:
    failed = type(error).__name__
print(session._jvm.java.lang.ProcessHandle.current().pid(), got, failed, flush=True)
time.sleep(600)
"""


# A driver of its own: says the options of its JVM.
OPTIONS = """
import sys, os
from tandem.infra.spark.session import get_or_create_session
from tandem.infra.settings import Settings, SparkSettings
conf = {"spark.driver.extraJavaOptions": sys.argv[2]}
settings = Settings(state=sys.argv[1], spark=SparkSettings(master="local[1]", conf=conf))
session = get_or_create_session(settings, "driver", environ=os.environ)
print(*session._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments(), sep="\\n")
"""

# A driver of its own: prints what a worker had imported before its first task, and whether the driver has imported pandas.
IMPORTS = """
import sys, os
from tandem.infra.spark.session import get_or_create_session
from tandem.infra.settings import Settings, SparkSettings
session = get_or_create_session(Settings(state=sys.argv[1], spark=SparkSettings(master="local[1]")), "driver", environ=os.environ)
print(*session.sparkContext.parallelize([0], 1).flatMap(lambda _: __import__("sys").modules).collect())
session.range(1).mapInArrow(lambda batches: batches, "id long").toArrow()
print("pandas" in sys.modules)
tasks = session.sparkContext.parallelize([0], 1)
frozen = [tasks.map(lambda _: __import__("gc").get_freeze_count()).collect()[0]]
tasks.map(lambda _: bool(__import__("wave"))).collect()
frozen += tasks.map(lambda _: __import__("gc").get_freeze_count()).collect()
print(frozen[0] < frozen[1])
"""


def test_times_are_utc_microseconds_and_tables_are_plain(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("select timestamp '2026-11-01 00:00:00' as at").write.format("delta").save(str(tmp_path / "table"))
    log = (tmp_path / "table" / "_delta_log" / f"{0:020}.json").read_text().splitlines()
    protocol = next(json.loads(line)["protocol"] for line in log if "protocol" in line)
    assert protocol == {"minReaderVersion": 1, "minWriterVersion": 2}
    table = spark.read.format("delta").load(str(tmp_path / "table")).toArrow()
    assert str(table.schema.field("at").type) == "timestamp[us, tz=UTC]"
    assert table["at"].to_pylist() == [datetime(2026, 11, 1, tzinfo=UTC)]
    # RawLocalFileSystem: no .crc file beside each file.
    assert list((tmp_path / "table").glob(".*.crc")) == []


def test_tasks_see_the_platform(spark: SparkSession) -> None:
    def where(batches):
        import pyarrow as pa  # noqa: PLC0415 - runs in a worker

        from tandem import views  # noqa: PLC0415

        yield from (pa.RecordBatch.from_pylist([{"file": views.__file__, "python": sys.executable}]) for _ in batches)

    found = spark.range(1).mapInArrow(where, "file string, python string").toArrow().to_pylist()
    assert found == [{"file": str(ROOT / "src" / "tandem" / "views" / "__init__.py"), "python": sys.executable}]


def test_the_jvm_uses_the_class_archive_of_set_up(spark: SparkSession) -> None:
    archive = java_home.class_archive(java_home.find(environ()), environ())
    try:
        java_home.refuse_escapes([archive])
    except TandemError as error:
        pytest.skip(str(error))
    assert archive.exists(), "set-up makes it: remove .venv/ready and run ./tandem"
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
    if not (maps := Path(f"/proc/{jvm}/maps")).exists():
        pytest.skip("this system does not show what a process maps")
    assert archive.name in maps.read_text()


@pytest.mark.slow
def test_the_jvm_is_frugal_unless_it_has_work_or_the_user_says_otherwise(tmp_path: Path) -> None:
    small, serial, compiler = "-Xmn32m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"
    assert {small, serial, compiler} < set(frugal("", optimized=False))
    assert frugal("", optimized=True) == [serial]
    assert frugal("-XX:+UseG1GC", optimized=False) == [compiler]
    for sized in ("-XX:MinHeapFreeRatio=50", "-Xmn64m"):
        assert frugal(sized, optimized=False) == [compiler, serial]
    command = [sys.executable, "-c", OPTIONS, str(tmp_path / "state"), "-XX:TieredStopAtLevel=4"]
    surroundings = {**environ(), "PYTHONPATH": PYTHONPATH, "JAVA_TOOL_OPTIONS": "-XX:+UseParallelGC"}
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=True, timeout=300)
    options = done.stdout.splitlines()
    # Of two values Java takes the last, which is the user's.
    assert [one for one in options if one.startswith("-XX:Tiered")] == [compiler, "-XX:TieredStopAtLevel=4"]
    assert [one for one in options if one.endswith("GC")] == ["-XX:+UseParallelGC"]


@pytest.mark.slow
def test_workers_share_their_imports_and_nobody_imports_pandas(tmp_path: Path) -> None:
    command = [sys.executable, "-c", IMPORTS, str(tmp_path / "state")]
    surroundings = {**environ(), "PYTHONPATH": PYTHONPATH}
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=True, timeout=300)
    modules, driver_has_pandas, spares_imports = done.stdout.splitlines()
    assert {"pyspark.worker", "pyarrow", "tandem.views.kernel.kernel"} <= set(modules.split())
    assert "pandas" not in modules.split()
    assert driver_has_pandas == "False"
    assert spares_imports == "True"


@pytest.mark.slow
def test_an_archive_replaces_those_of_other_jars_and_javas(tmp_path: Path) -> None:
    folder = tmp_path / "jars"
    shutil.copytree(jars.folder(environ()), folder, symlinks=True, ignore=shutil.ignore_patterns("*.jsa", "*.new", "ready"))
    known = sorted(folder.iterdir())
    archive = folder / java_home.class_archive(java_home.find(environ()), environ()).name
    for stale in (archive, folder / "spark-17.0.0.jsa"):
        stale.write_bytes(b"of other jars")
    (folder / "classes.new").mkdir()
    subprocess.run(
        [sys.executable, "-m", "tandem.infra.spark.cds_archive"],
        env={**child_environment(environ()), "TANDEM_CACHE": str(tmp_path)},
        check=True,
    )
    assert sorted(folder.iterdir()) == sorted([*known, archive])
    assert archive.stat().st_size > 10_000_000


@pytest.mark.slow
def test_a_lock_is_held_until_the_jvm_ends_not_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    lock = tmp_path / "locks" / "table.lock"
    command = [sys.executable, "-c", DRIVER, str(tmp_path / "state"), str(lock)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**environ(), "PYTHONPATH": PYTHONPATH}
    ) as driver:
        assert driver.stdout
        assert driver.stderr
        said = driver.stdout.readline().decode().split()
        jvm = int(said[0])
        assert said[1:] == ["True", "ArithmeticException"]
        assert try_lock(spark, lock) is False
        # Stopped, the JVM cannot notice that its driver is gone: only its own end may free the lock.
        os.kill(jvm, signal.SIGSTOP)
        driver.kill()
        driver.wait(20)
        time.sleep(0.5)
        assert background.start_time(jvm)
        assert try_lock(spark, lock) is False
        os.kill(jvm, signal.SIGCONT)
        deadline = time.monotonic() + 300
        while not try_lock(spark, lock) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert try_lock(spark, lock) is True
        with write_locks.own() as acquire:
            assert acquire(lock) is False
            assert acquire(tmp_path / "free.lock") is True
            assert try_lock(spark, tmp_path / "free.lock") is False
        assert try_lock(spark, tmp_path / "free.lock") is True
        # Neither the failed job nor the start of the JVM wrote to the terminal.
        assert driver.stderr.read() == b""
    assert (tmp_path / "state" / "logs" / "spark-driver.log").exists()


def test_an_outside_broker_is_configured_by_sparks_options(tmp_path: Path) -> None:
    certificates = str(Authority(tmp_path).file)
    kafka = KafkaSettings(
        bootstrap="a:1", security="sasl_ssl", username="me", password='x"y\\', ca_file=certificates, mechanism="SCRAM-SHA-256"
    )
    assert kafka_options(outside(Settings(kafka=kafka))) == {
        "kafka.bootstrap.servers": "a:1",
        "kafka.isolation.level": "read_committed",
        "kafka.allow.auto.create.topics": "false",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": certificates,
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.jaas.config": (
            'org.apache.kafka.common.security.scram.ScramLoginModule required username="me" password="x\\"y\\\\";'
        ),
    }
    assert kafka_options(Address("a:1", {}, 20)) == {
        "kafka.bootstrap.servers": "a:1",
        "kafka.isolation.level": "read_committed",
        "kafka.allow.auto.create.topics": "false",
    }
