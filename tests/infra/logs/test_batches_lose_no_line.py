"""Lines in batches are all in the file, in order, at an orderly end; a killed process loses those of a moment."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tandem.infra.logs import telling
from tandem.infra.logs.batch import WAIT_S, LogBatch
from tandem.infra.logs.files import LogBounds, LogFile
from tandem.infra.settings import MASK, KafkaSettings, Settings
from tests.stack import PYTHONPATH

NOON = datetime(2026, 11, 1, 12, 0, 0, 250_000, tzinfo=UTC)
LARGE = LogBounds(bytes=1 << 30, kept=1)


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def until(holds) -> None:
    deadline = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


def test_all_lines_are_there_in_the_order_of_each_thread(tmp_path: Path) -> None:
    batch = LogBatch(LogFile(tmp_path / "a.log", LARGE), str, wait_s=0.001)
    with ThreadPoolExecutor(4) as threads:
        for thread in range(4):
            threads.submit(lambda thread=thread: [batch.add(f"{thread} {number}") for number in range(3000)])
    batch.close()
    batch.add("0 3000")  # what follows is written at once
    found = [tuple(map(int, line.split())) for line in lines_of(tmp_path / "a.log")]
    assert sorted(found) == sorted([(thread, number) for thread in range(4) for number in range(3000)] + [(0, 3000)])
    by_thread = [[number for of, number in found if of == thread] for thread in range(4)]
    assert by_thread == [sorted(numbers) for numbers in by_thread]


def test_a_line_waits_for_a_moment_and_no_longer(tmp_path: Path) -> None:
    batch = LogBatch(LogFile(tmp_path / "a.log", LARGE), str, wait_s=0.05)
    for number in range(3):
        batch.add(str(number))
        until(lambda number=number: len(lines_of(tmp_path / "a.log")) == number + 1)
    batch.close()


def test_many_lines_do_not_wait(tmp_path: Path) -> None:
    batch = LogBatch(LogFile(tmp_path / "a.log", LARGE), str, wait_s=3600)
    for number in range(256):
        batch.add(str(number))
    assert lines_of(tmp_path / "a.log") == [str(number) for number in range(256)]
    batch.close()


@pytest.mark.parametrize("password", ["", "hush"])
def test_an_event_has_the_form_of_any_log(tmp_path: Path, password: str) -> None:
    settings = Settings(state=str(tmp_path), kafka=KafkaSettings(password=password))
    fields = {"who": None, "path": "/views/hush é \x7f", "views": ["hush"], "ms": 0.1}
    telling.filed(settings, "one", now=lambda: NOON).info("request", **fields)
    with telling.recorded(settings, "other", now=lambda: NOON) as log:
        log.info("request", **fields)
        log.info("request", path="\udc80")
    one, other = ([json.loads(line) for line in lines_of(tmp_path / "logs" / f"{part}.log")] for part in ("one", "other"))
    assert one == [{**other[0], "part": "one"}]
    assert (MASK in other[0]["path"]) == bool(password)
    assert other[1]["path"] == "\udc80"


def test_a_killed_process_has_written_all_but_the_last_moment(tmp_path: Path) -> None:
    code = """
import sys, time
from datetime import UTC, datetime
from tandem.infra.logs import telling
from tandem.infra.settings import Settings
with telling.recorded(Settings(state=sys.argv[1]), "access", now=lambda: datetime.now(UTC)) as log:
    number = 0
    while True:
        log.info("request", number=number, at=time.monotonic())
        print(number, time.monotonic(), flush=True)
        number += 1
        time.sleep(0.001)
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": PYTHONPATH})
    assert process.stdout is not None
    said = [process.stdout.readline().split() for _ in range(1500)]
    process.send_signal(signal.SIGKILL)
    said += [line.split() for line in process.stdout.read().splitlines() if len(line.split()) == 2]
    process.wait()
    written = [json.loads(line)["number"] for line in lines_of(tmp_path / "logs" / "access.log")]
    assert written == list(range(len(written)))
    last = float(said[-1][1])
    # Ten times the bound: the machine may be busy.
    assert all(int(number) in set(written) for number, at in said if float(at) < last - 10 * WAIT_S)
