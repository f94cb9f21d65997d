"""Why no executor came, from lines as Spark's own loggers write them: its only account of it."""

import json
from pathlib import Path

import pytest

from infra.spark import executors
from infra.spark.errors import sentence

CLIENT = "StandaloneAppClient$ClientEndpoint"
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
            [("Application has been killed. Reason: Master removed our application: FAILED", "")],
            "Master removed our application: FAILED",
        ),
    ],
)
def test_the_newest_reason_of_this_session_counts(tmp_path: Path, events: list[tuple[str, str]], reason: str | None) -> None:
    assert executors.why_no_session(*log(tmp_path / "spark-x.log", *events)) == reason


def test_a_program_that_cannot_run_is_named() -> None:
    failed = Exception(
        "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times: "
        'Lost task 0.3 in stage 0.0 (TID 5) (w1): java.io.IOException: Cannot run program "/no/python": error=2, No such '
        "file or directory\n\tat java.base/java.lang.ProcessBuilder.start(ProcessBuilder.java:1143)\n"
        "Caused by: java.io.IOException: error=2, No such file or directory\n\tat java.base/x.y(Z.java:1)\n"
    )
    assert sentence(failed) == 'Cannot run program "/no/python": error=2, No such file or directory'
