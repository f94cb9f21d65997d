"""Whatever a message of the process of hot tails does to the server, the process is ended, and another one started."""

import os
from pathlib import Path
from threading import Event

import pytest

from tandem.ledger.realtime.hot_messages import HotMessage
from tandem.serving.memory import hot_process
from tandem.serving.memory.hot_feed import HotFeed
from tandem.serving.memory.hot_process import HotProcess
from tests.stack import PYTHONPATH

SENDS = """
import sys, threading
from tandem.ledger.realtime.hot_messages import HotStatus, message_of, write
write(sys.stdout.buffer, message_of(1, "hits", HotStatus(), None))
threading.Event().wait()
"""


class Broken(HotFeed):
    """A feed that cannot apply messages, for a reason that nobody expects."""

    def apply(self, message: HotMessage) -> None:
        raise AttributeError(message.source)


def test_a_message_that_cannot_be_applied_restarts_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "speed" / "hot").mkdir(parents=True)
    for name in ("__init__.py", "hot/__init__.py"):
        (tmp_path / "speed" / name).touch()
    (tmp_path / "speed" / "hot" / "__main__.py").write_text(SENDS)
    monkeypatch.setattr(hot_process, "_AGAIN_S", 0.0)
    twice, said = Event(), list[str]()

    def log(line: str) -> None:
        said.append(line)
        if len(said) == 2:
            twice.set()

    process = HotProcess(tmp_path, {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{PYTHONPATH}"}, Broken(lambda: 0.0), log)
    process.start()
    try:
        assert twice.wait(60)
    finally:
        process.stop()
    assert said[0] == (
        "a message of the process of hot tails cannot be applied: AttributeError: hits (exit code -9); starting it again"
    )
