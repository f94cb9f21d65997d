"""Ctrl-C ends a batch command with exit code 130, its JVM and workers, and one sentence; the next run continues.

Real commands with real Spark; the signal goes to the process alone, as `kill -INT` sends it, or to its group, as a terminal does.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from tandem.batch.archive import write_archive
from tandem.batch.recompute import recompute
from tandem.infra import kafka
from tandem.ledger.publish.publications import Publications
from tests.batch.shop import DEFINITIONS, Shop, records
from tests.stack import PYTHONPATH, environ, new_topic

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("interruptible")]
PATIENCE_S = 300


@pytest.fixture(scope="module")
def shop(broker: kafka.BrokerConnection, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A shop with a publication, archived events beyond its cut, records beyond the archive, and a changed view."""
    made = Shop.open(broker, new_topic(broker), tmp_path_factory.mktemp("shop"))
    made.sell(records(1, 100))
    write_archive.run(made.run("archive"), made.project)
    recompute.run(made.run("recompute"), made.project)
    made.sell(records(2, 100))
    write_archive.run(made.run("archive"), made.project)
    made.sell(records(3, 100))
    before = Publications(made.tables).latest()
    assert before is not None
    made.define(DEFINITIONS.replace("cents < 0", "cents < 1"))
    yield made
    made.define(DEFINITIONS)
    write_archive.run(made.run("archive"), made.project)
    recompute.run(made.run("recompute"), made.project)
    live = Publications(made.tables).latest()
    assert live is not None
    assert live.number == before.number + 1  # what was interrupted published nothing, and kept nobody from going on


def descendants(process: psutil.Process) -> list[psutil.Process]:
    with suppress(psutil.Error):
        return list(process.children(recursive=True))
    return []


def command_lines(process: psutil.Process) -> Iterator[list[str]]:
    for child in descendants(process):
        with suppress(psutil.Error):
            if words := child.cmdline():
                yield words


def java(process: psutil.Process) -> bool:
    """Spark's JVM has started."""
    return any("java" in Path(words[0]).name for words in command_lines(process))


@pytest.mark.slow
@pytest.mark.parametrize("pause", [0, 0.1, 0.3, 1, 1.5, 2, 3, 4, 5])
@pytest.mark.parametrize(
    ("command", "target", "sentence"),
    [
        (["archive"], "group", "what was archived stays, and nothing was published: `tandem archive` completes"),
        (["verify", "--all"], "process", "nothing was changed, and nothing is left behind: `tandem verify` starts over"),
        (["recompute"], "group", "nothing was published: `tandem recompute` continues"),
        (["apply"], "process", "nothing was published: `tandem apply` continues"),
    ],
)
def test_an_interrupted_command_ends_its_children_and_says_what_stands(
    shop: Shop, command: list[str], target: str, sentence: str, pause: float
) -> None:
    words = [sys.executable, "-m", "tandem.cli", *command, "--project", str(shop.folder)]
    started = subprocess.Popen(
        words, env={**environ(), "PYTHONPATH": PYTHONPATH}, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    process, deadline = psutil.Process(started.pid), time.monotonic() + PATIENCE_S
    try:
        while not java(process):
            assert started.poll() is None, started.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        time.sleep(pause)  # at any moment of Spark's start
        children = descendants(process)
        if target == "group":
            os.killpg(started.pid, signal.SIGINT)
        else:
            started.send_signal(signal.SIGINT)
        errors = started.communicate(timeout=PATIENCE_S)[1]
        assert started.returncode == 130, errors
        assert [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE] == []
        lines = [line for line in errors.splitlines() if line.startswith("tandem: ")]
        assert lines == [line for line in lines if line.startswith(f"tandem: interrupted; {sentence}")], errors
        assert len(lines) == 1
        assert "Traceback" not in errors
        assert "Error" not in errors
    finally:
        with suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
