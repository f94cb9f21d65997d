"""`up` runs the sinks that definitions.py has at that time, in a process that comes back; `down` leaves it as stopped."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.speed.sales import per_minute, project_files, some
from tests.stack import PYTHONPATH, environ

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(900)]

TOML = """
[kafka]
memory = "320m"
[spark]
master = "local[2]"
driver_memory = "512m"
"""
SINK = '\nfrom tandem import Sink, delta_table\nlake = Sink(per_minute, to=delta_table("{}"))\nSINKS = (lake,)\n'


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline, "what was waited for did not come"
        time.sleep(0.1)


def content(folder: Path) -> dict[tuple[str, str], tuple[int, int]]:
    """The rows of a table; none if there is no table yet."""
    if not DeltaTable.is_deltatable(str(folder)):
        return {}
    rows = pa.table(DeltaTable(str(folder)).to_pyarrow_table()).to_pylist()
    return {(f"{row['window_start']:%Y-%m-%dT%H:%M:%SZ}", row["shop"]): (row["n"], row["sum"]) for row in rows}


def test_sinks_come_change_are_killed_and_go(tmp_path: Path) -> None:
    def run(*words: str, given: bytes = b"") -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-m", "tandem.cli", *words, "--project", str(tmp_path), "--json"],
            env={**environ(), "PYTHONPATH": PYTHONPATH},
            input=given,
            capture_output=True,
            check=False,
            timeout=400,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def pids() -> dict[str, int]:
        return {part["name"]: part["pid"] for part in run("up")["processes"]}

    def feed(numbers: range) -> None:
        run("feed", "-", "--source", "sales", given=b"".join(value + b"\n" for value in some(numbers)))

    definitions = project_files("sales")["definitions.py"].decode()
    (tmp_path / "tandem.toml").write_text(TOML)
    (tmp_path / "definitions.py").write_text(definitions)
    try:
        before = pids()
        assert [*before] == ["broker", "speed", "supervisor"]
        (tmp_path / "definitions.py").write_text(definitions + SINK.format("one"))
        with_sink = pids()
        assert {name: pid for name, pid in with_sink.items() if name != "sink"} == before
        assert pids() == with_sink
        feed(range(40))
        wait_for(lambda: content(tmp_path / "one") == per_minute(range(40)))

        os.kill(with_sink["sink"], signal.SIGKILL)
        feed(range(40, 80))
        wait_for(lambda: content(tmp_path / "one") == per_minute(range(80)))

        (tmp_path / "definitions.py").write_text(definitions + SINK.format("two"))
        changed = pids()
        assert changed["sink"] not in (None, with_sink["sink"])
        wait_for(lambda: content(tmp_path / "two") == per_minute(range(80)))

        (tmp_path / "definitions.py").write_text(definitions)
        assert pids() == before
    finally:
        run("down")
