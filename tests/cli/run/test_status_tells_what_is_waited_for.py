"""While a source waits for its broker `status` has a line of it: since when, and why."""

import json
import os
from pathlib import Path

import pytest

from tandem.cli.__main__ import main
from tandem.speed.progress import ProgressRecorder, WaitingSource
from tests.serving.world import forty_hits

SINCE, WHY = "2026-11-01T12:00:00+00:00", "the Kafka broker at 127.0.0.1:9092 did not answer in 5 s"
LINE = f"hits: the speed layer has been waiting for the broker since {SINCE}: {WHY}"


def test_the_line_is_shown_until_the_broker_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = forty_hits(tmp_path)
    status = ["status", "--project", str(world.folder)]

    def lines() -> list[str]:
        assert main(status) == 0
        return capsys.readouterr().out.splitlines()

    # The speed layer's own recorder, in a process that runs: this one.
    recorder = ProgressRecorder(world.state, os.getpid())
    assert LINE not in lines()
    recorder.waits(WaitingSource(1, "hits", SINCE, WHY))
    assert lines().count(LINE) == 1
    assert main([*status, "--json"]) == 0
    waiting = json.loads(capsys.readouterr().out)["waiting"]
    assert waiting == [{"release": 1, "source": "hits", "since": SINCE, "why": WHY}]
    recorder.goes_on(1, "hits")
    assert LINE not in lines()
