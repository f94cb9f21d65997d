"""The process of hot tails hears that somebody asks. Whatever its messages do, it is ended, and another one starts."""

import os
import threading
import time
from pathlib import Path
from threading import Event

import pytest

from tandem.infra import folders
from tandem.ledger.hot.feed import HotFeed
from tandem.ledger.hot.messages import HotMessage
from tandem.speed.hot import process as starting
from tandem.speed.hot.process import HotProcess
from tests.stack import PYTHONPATH

SENDS = """
import sys, threading
from tandem.ledger.hot.messages import HotStatus, message_of, write
write(sys.stdout.buffer, message_of(1, "hits", HotStatus(), None))
threading.Event().wait()
"""
ANSWERS = """
import os, sys
from tandem.ledger.hot.messages import HotStatus, message_of, write
while os.read(0, 1):
    write(sys.stdout.buffer, message_of(1, "hits", HotStatus(), None))
"""


def environ(folder: Path, program: str) -> dict[str, str]:
    """An environment in which the process of hot tails is this program, and all else is the platform."""
    hot = folder / "tandem" / "speed" / "hot"
    hot.mkdir(parents=True)
    for package in (hot, hot.parent):
        (package / "__init__.py").touch()
    (hot.parents[1] / "__init__.py").write_text(f"__path__.append({str(folders.IMPORTED / 'tandem')!r})\n")
    (hot / "__main__.py").write_text(program)
    return {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{PYTHONPATH}"}


class Broken(HotFeed):
    """A feed that cannot apply messages, for a reason that nobody expects."""

    def apply(self, message: HotMessage) -> None:
        raise AttributeError(message.source)


def test_a_message_that_cannot_be_applied_restarts_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "_AGAIN_S", 0.0)
    twice, said = Event(), list[str]()

    def log(line: str) -> None:
        said.append(line)
        if len(said) == 2:
            twice.set()

    process = HotProcess(tmp_path, environ(tmp_path, SENDS), Broken(lambda: 0.0), log)
    process.start()
    try:
        assert twice.wait(60), said
    finally:
        process.stop()
    assert said[0] == (
        "a message of the process of hot tails cannot be applied: AttributeError: hits (exit code -9); starting it again"
    )


def test_a_report_that_somebody_asks_reaches_the_process(tmp_path: Path) -> None:
    heard = Event()
    feed = HotFeed(lambda: 0.0, woken=heard.set)
    process = HotProcess(tmp_path, environ(tmp_path, ANSWERS), feed, print)
    process.ask()  # there is none yet
    process.stop()
    process = HotProcess(tmp_path, process.environ, feed, print)
    process.start()
    try:
        deadline = time.monotonic() + 300
        while not heard.wait(0.05):
            assert time.monotonic() < deadline, "the process has not heard that somebody asks"
            process.ask()
    finally:
        process.stop()
    assert not [thread for thread in threading.enumerate() if thread.name == "hot tails"]
