"""Why no executor came, from lines as Spark's own loggers write them: its only account of it."""

import json
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tandem.infra.settings import Settings, SparkSettings
from tandem.infra.spark import executors
from tandem.infra.spark.errors import sentence

CLIENT = "StandaloneAppClient$ClientEndpoint"
SUBMITTED = "Submitting application application_1_0004 to ResourceManager"
RETRIED = (
    "Retrying connect to server: rm/10.0.0.5:8032. Already tried 6 time(s); retry policy is "
    "RetryUpToMaximumCountWithFixedSleep(maxRetries=10, sleepTime=1000 MILLISECONDS)"
)
PENDING = (
    "\n\t client token: N/A\n\t diagnostics: [Wed Nov 25 19:05:19 +0000 2026] Application is added to the scheduler and is not "
    "yet activated. Queue's AM resource limit exceeded.  Details : AM Partition = <DEFAULT_PARTITION>; AM Resource Request = "
    "<memory:4096, vCores:1>; \n\t ApplicationMaster host: N/A"
)
LOST = (
    "Requesting driver to remove executor 1 for reason Container from a bad node: container_1_01_000002 on host: n1. "
    "Exit status: 1. Possible causes: Unknown executor exit code (1) "
    "Diagnostics: [2026-11-25 19:12:48.142]Exception from container-launch.\n"
    "Container id: container_1_01_000002\nExit code: 1\n"
)
REFUSED = (
    "org.apache.spark.SparkException: Exception thrown in awaitResult: \n\tat org.apache.spark.Some.where(Some.scala:1)\n"
    "Caused by: java.io.IOException: Failed to connect to /10.0.0.5:7077\n\tat x.Y.z(Y.java:1)\n"
    "Caused by: io.netty.channel.AbstractChannel$AnnotatedConnectException: Connection refused: /10.0.0.5:7077"
)


def log(path: Path, *events: tuple[str, str]) -> executors.Log:
    """A log with lines of an earlier session, then these events, each with its stack."""
    earlier = (
        f"{json.dumps({'time': '2026-11-25T05:00:00.000Z', 'level': 'warn', 'event': 'Failed to connect to master old:1'})}\n"
    )
    said = [
        {
            "time": "2026-11-25T06:00:00.000Z",
            "level": "info",
            "event": event,
            "logger": CLIENT,
            **({"exception": stack} if stack else {}),
        }
        for event, stack in events
    ]
    path.write_text(earlier + "WARNING: Using incubator modules\n" + "".join(f"{json.dumps(one)}\n" for one in said))
    return path, len(earlier)


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([], None),
        ([("Connecting to master spark://10.0.0.5:7077...", ""), ("Executor updated: app-1/0 is now RUNNING", "")], None),
        (
            [
                ("Failed to connect to master 10.0.0.5:7077", REFUSED),
                ("Application has been killed. Reason: All masters are unresponsive!", ""),
            ],
            "10.0.0.5:7077 cannot be reached: AnnotatedConnectException: Connection refused: /10.0.0.5:7077",
        ),
        (
            [('Executor updated: app-1/0 is now FAILED (java.io.IOException: Cannot run program "/no/java": error=2)', "")],
            'an executor ended at once: IOException: Cannot run program "/no/java": error=2',
        ),
        (
            [
                ("Executor updated: app-1/0 is now EXITED (Command exited with code 1)", ""),
                ("Executor updated: app-1/1 is now RUNNING", ""),
                ("Executor updated: app-1/1 is now EXITED (Command exited with code 2)", ""),
            ],
            "an executor ended at once: Command exited with code 2",
        ),
        (
            [(RETRIED, "")],
            "rm/10.0.0.5:8032 cannot be reached",
        ),
        (
            [
                (SUBMITTED, ""),
                ("Application report for application_1_0004 (state: ACCEPTED)", ""),
                (PENDING, ""),
            ],
            "YARN says: Application is added to the scheduler and is not yet activated. Queue's AM resource limit exceeded.",
        ),
        ([(PENDING, ""), ("Application report for application_1_0004 (state: RUNNING)", "")], None),
        (
            [
                (LOST, ""),
                ("Diagnostics message: Max number of executor failures (3) reached", ""),
            ],
            "an executor ended at once: Container from a bad node: container_1_01_000002 on host: n1. Exit status: 1",
        ),
        (
            [(f"Diagnostics message: Uncaught exception: {REFUSED}", "")],
            "YARN says: AnnotatedConnectException: Connection refused: /10.0.0.5:7077",
        ),
        (
            [("Diagnostics message: Application application_1_0004 was killed by user root at 10.0.0.9", "")],
            "YARN says: Application application_1_0004 was killed by user root at 10.0.0.9",
        ),
        ([("\n\t client token: N/A\n\t diagnostics: N/A\n\t ApplicationMaster host: 10.0.0.6", "")], None),
        (
            [("Application has been killed. Reason: Master removed our application: FAILED", "")],
            "Master removed our application: FAILED",
        ),
    ],
)
def test_the_newest_reason_of_this_session_counts(tmp_path: Path, events: list[tuple[str, str]], reason: str | None) -> None:
    assert executors.why_no_session(*log(tmp_path / "spark-x.log", *events)) == reason


def test_a_log_that_was_emptied_at_its_bound_still_gives_the_reason(tmp_path: Path) -> None:
    path, start = log(tmp_path / "spark-x.log", ("Executor updated: app-1/0 is now EXITED (Command exited with code 1)", ""))
    assert executors.why_no_session(path, start + path.stat().st_size) == "an executor ended at once: Command exited with code 1"


def test_a_program_that_cannot_run_is_named() -> None:
    failed = Exception(
        "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times: "
        'Lost task 0.3 in stage 0.0 (TID 5) (w1): java.io.IOException: Cannot run program "/no/python": error=2, No such '
        "file or directory\n\tat java.base/java.lang.ProcessBuilder.start(ProcessBuilder.java:1143)\n"
        "Caused by: java.io.IOException: error=2, No such file or directory\n\tat java.base/x.y(Z.java:1)\n"
    )
    assert sentence(failed) == 'Cannot run program "/no/python": error=2, No such file or directory'


def test_the_time_in_which_yarns_client_sends_files_does_not_count(tmp_path: Path) -> None:
    settings = Settings(spark=SparkSettings(executor_wait_s=1))
    sends = ("Preparing resources for our AM container", ""), ("Uploading resource file:/a.jar -> hdfs://n/a.jar", "")
    sending = executors.Deadline(settings, log(tmp_path / "sending.log", *sends))
    sent = executors.Deadline(settings, log(tmp_path / "sent.log", *sends, (SUBMITTED, "")))
    time.sleep(1.1)
    assert not sending.passed()
    assert sent.passed()


def test_a_session_that_does_not_start_in_time_is_ended_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = [(SparkContext, name) for name in ("_gateway", "_jvm", "_active_spark_context")]
    known += [(SparkSession, name) for name in ("_instantiatedSession", "_activeSession")]
    for place, name in known:  # all that is forgotten: this process may have a session of other tests
        monkeypatch.setattr(place, name, "of the ended JVM")
    settings = Settings(spark=SparkSettings(master="yarn", executor_wait_s=1))
    said = log(tmp_path / "spark-x.log", (RETRIED, ""))
    java = subprocess.Popen(["sleep", "60"])

    def start() -> None:
        with executors.in_time(SimpleNamespace(proc=java), settings, executors.Deadline(settings, said), said):
            assert java.wait(30) < 0
            raise Py4JNetworkError("Answer from Java side is empty")

    with pytest.raises(executors.NoExecutor) as raised:
        start()
    assert str(raised.value) == "no executor came within 1 s on yarn: rm/10.0.0.5:8032 cannot be reached"
    assert {getattr(place, name) for place, name in known} == {None}, "the next session starts another"


def test_executors_that_come_one_after_the_other_are_all_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver is one of them; the first tasks are compared with those that are there."""
    monkeypatch.setattr(executors, "_TOGETHER_S", 0.01)
    there = [1, 1, 2, 2, 3, 4, 4, 9]
    status = SimpleNamespace(getExecutorInfos=lambda: range(there.pop(0)))
    java = SimpleNamespace(isStopped=lambda: False, statusTracker=lambda: status)
    context: Any = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: java))
    settings = Settings(spark=SparkSettings(master="spark://host:7077"))
    executors.wait(context, settings, executors.Deadline(settings, None), None)
    assert there == [9]


def test_a_session_that_starts_in_time_is_left_alone() -> None:
    settings = Settings(spark=SparkSettings(master="yarn"))
    with pytest.raises(Py4JNetworkError), executors.in_time(None, settings, executors.Deadline(settings, None), None):
        raise Py4JNetworkError("the JVM has crashed")
