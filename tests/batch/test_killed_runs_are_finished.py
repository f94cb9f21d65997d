"""Runs that are killed with SIGKILL, and two at once: the next run finishes, and no record is lost or doubled."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tandem.batch.archive import archive
from tandem.batch.recompute import recompute
from tandem.ledger.delta.locks import owner
from tandem.ledger.publish.publications import Publications
from tests.batch.shop import Shop, assert_true, records, rows_of, together
from tests.stack import PYTHONPATH, environ

pytestmark = pytest.mark.broker

_PATIENCE_S = 400


def start(shop: Shop, command: str) -> subprocess.Popen[bytes]:
    """A process group of its own: its Python, its JVM and its workers."""
    return subprocess.Popen(
        [sys.executable, "-m", "tandem.cli", command, "--project", str(shop.folder), "--json"],
        env=environ() | {"PYTHONPATH": PYTHONPATH},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def kill_when(process: subprocess.Popen[bytes], reached: Callable[[], bool]) -> None:
    """Kill the whole group the moment something is there."""
    deadline = time.monotonic() + _PATIENCE_S
    while not reached():
        assert process.poll() is None, process.stderr.read().decode() if process.stderr else ""
        assert time.monotonic() < deadline
        time.sleep(0.0005)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def committed(folder: Path) -> bool:
    """Whether the table has a commit beyond the one that made it."""
    return (folder / "_delta_log" / f"{1:020}.json").exists()


@pytest.mark.slow
@pytest.mark.timeout(1500)  # three processes that each start Spark, however busy the machine
def test_killed_archives_and_recomputes_and_two_archives_at_once_are_finished(shop: Shop) -> None:
    first = records(21, 300)
    shop.sell(first)
    tables = shop.tables

    kill_when(start(shop, "archive"), lambda: committed(Path(tables.archive("sales"))))
    assert not list(Path(tables.root, "log", "sales").glob(f"*/quarantine/_delta_log/{1:020}.json"))

    more = records(22, 100, known=first[1])
    shop.sell(more)
    other = start(shop, "archive")
    deadline = time.monotonic() + _PATIENCE_S
    while (holder := owner(tables.lock("archive"))) is None or holder.pid != other.pid:
        assert other.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    archive.run(shop.run("archive"), shop.project)  # waits for the other one, then does what is left
    assert other.wait(_PATIENCE_S) == 0

    both = together(first, more)
    held = rows_of(shop, tables.archive("sales"))
    assert held["value"].to_pylist() == [*both[0], *both[1]]

    kill_when(start(shop, "recompute"), lambda: any(map(committed, Path(tables.root, "views", "per_hour").glob("*"))))
    live = Publications(tables).latest()
    assert live is not None
    assert live.kind == "initial" or live.number == 2

    live = recompute.run(shop.run("recompute"), shop.project).publication
    assert_true(shop, live, both)
