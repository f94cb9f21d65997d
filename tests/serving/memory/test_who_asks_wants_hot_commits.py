"""Whoever asks for answers has the process of hot tails fold faster, and hears of it at most twice a second."""

import os
import time
from pathlib import Path
from threading import Event

from tandem.serving.connection import Connection
from tandem.serving.memory.hot_feed import REPORT_S, HotFeed
from tandem.serving.memory.hot_process import HotProcess
from tandem.serving.memory.store import Store
from tests.serving.memory.test_answers_of_hot_commits import Clock
from tests.serving.world import nine_hits
from tests.stack import PYTHONPATH

ANSWERS = """
import os, sys, threading
from tandem.ledger.realtime.hot_messages import HotStatus, message_of, write
while os.read(0, 1):
    write(sys.stdout.buffer, message_of(1, "hits", HotStatus(), None))
"""


def test_each_question_reports_that_somebody_asks_but_not_too_often(tmp_path: Path) -> None:
    world, clock, reports = nine_hits(tmp_path), Clock(), list[float]()
    feed = HotFeed(clock, wanted=lambda: reports.append(clock.now))
    connection = Connection(Store(world.tables, 1, hot=feed))
    connection.refresh()
    assert reports == []
    for step in (0.0, REPORT_S / 2, REPORT_S / 2, REPORT_S):
        clock.now += step
        connection.view("per_page").rows()
    assert [round(at - reports[0], 3) for at in reports] == [0.0, REPORT_S, 2 * REPORT_S]


def test_a_report_reaches_the_process(tmp_path: Path) -> None:
    (tmp_path / "speed" / "hot").mkdir(parents=True)
    for name in ("__init__.py", "hot/__init__.py"):
        (tmp_path / "speed" / name).touch()
    (tmp_path / "speed" / "hot" / "__main__.py").write_text(ANSWERS)
    heard = Event()
    feed = HotFeed(lambda: 0.0, woken=heard.set)
    process = HotProcess(tmp_path, {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{PYTHONPATH}"}, feed, print)
    process.ask()  # there is none yet
    process.start()
    try:
        deadline = time.monotonic() + 60
        while not heard.wait(0.05):
            assert time.monotonic() < deadline, "the process has not heard that somebody asks"
            process.ask()
    finally:
        process.stop()
    process.ask()  # there is none any more
