"""Ctrl-C ends `feed` with exit code 130; what it sent is acknowledged, and the sentence names the last record."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tandem.infra import kafka
from tests.cli.log.test_feed import project, values, wait_for  # noqa: F401 - the fixture
from tests.stack import PYTHONPATH, environ

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("interruptible")]

EVENT = b'{"at": "2026-11-01T00:00:00Z", "n": %d}'
LINES = 400_000


def start(folder: Path, file: str, *options: str) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "tandem.cli", "feed", file, "--source", "lines", *options]
    return subprocess.Popen(
        words,
        cwd=folder,
        env={**environ(), "PYTHONPATH": PYTHONPATH},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def to_group(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGINT)


def to_process(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)


SIGNALS: Sequence[Callable[[subprocess.Popen[bytes]], None]] = (to_group, to_process)


def interrupted(process: subprocess.Popen[bytes]) -> tuple[int, int]:
    """The numbers of records and of the last line that the sentence has."""
    errors = process.stderr.read().decode() if process.stderr else ""
    assert process.wait(60) == 130, errors
    (line,) = errors.splitlines()
    match = re.fullmatch(
        r"tandem: interrupted; (\d+) records sent, and acknowledged; the last begins at line (\d+) of \S+: send what follows it, "
        r"since records that are sent again may count twice",
        line,
    )
    assert match, errors
    return int(match[1]), int(match[2])


@pytest.mark.each_run("to_group")
@pytest.mark.parametrize("send", SIGNALS)
def test_feed_that_waits_for_input_ends_at_once(
    project: Path,  # noqa: F811
    broker: kafka.BrokerConnection,
    send: Callable[[subprocess.Popen[bytes]], None],
) -> None:
    with start(project, "-") as process:
        assert process.stdin
        process.stdin.write(b"".join(EVENT % number + b"\n" for number in range(500)))
        process.stdin.flush()
        wait_for(broker, project.name, 500)
        send(process)
        assert interrupted(process) == (500, 500)
    assert len(values(broker, project.name)) == 500


@pytest.mark.each_run("to_process")
@pytest.mark.parametrize("send", SIGNALS)
def test_feed_that_sends_ends_after_a_whole_record(
    project: Path,  # noqa: F811
    broker: kafka.BrokerConnection,
    send: Callable[[subprocess.Popen[bytes]], None],
) -> None:
    (project / "lines.jsonl").write_bytes(b"".join(EVENT % number + b"\n" for number in range(LINES)))
    with start(project, "lines.jsonl") as process:
        wait_for(broker, project.name, 1)
        send(process)
        sent, line = interrupted(process)
    assert sent == line < LINES
    assert sorted(values(broker, project.name)) == sorted(EVENT % number for number in range(sent))


@pytest.mark.slow
def test_feed_that_waits_for_answers_says_that_all_is_acknowledged(project: Path, broker: kafka.BrokerConnection) -> None:  # noqa: F811
    (project / "lines.jsonl").write_bytes(EVENT % 1 + b"\n")
    with start(project, "lines.jsonl", "--wait", "--within", "300") as process:
        wait_for(broker, project.name, 1)
        time.sleep(2)
        to_group(process)
        errors = process.stderr.read().decode() if process.stderr else ""
        assert process.wait(60) == 130, errors
    assert errors.startswith("tandem: interrupted; sent 1 records to lines; all acknowledged, and are counted soon if")
