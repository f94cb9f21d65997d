"""While a source waits for its broker or schema registry `status` has a line of it: since when, and why."""

import json
import os
from pathlib import Path

import pytest

from tandem.cli.__main__ import main
from tandem.speed import progress
from tandem.speed.progress import ProgressRecorder, WaitingSource, query_name
from tests.serving.world import forty_hits

SINCE, WHY = "2026-11-01T12:00:00+00:00", "the Kafka broker at 127.0.0.1:9092 did not answer in 5 s"
LINE = f"hits: the speed layer has been waiting since {SINCE}: {WHY}"


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


def test_a_wait_lasts_until_a_micro_batch_succeeds(tmp_path: Path) -> None:
    """Each try that fails leaves it as old as it was; a query that only begins ends no wait."""
    recorder = ProgressRecorder(tmp_path, os.getpid())
    query = query_name(1, "hits", "a")
    recorder.heart.begins(1, "hits")
    recorder.waits(WaitingSource(1, "hits", SINCE, WHY))
    recorder.follows(query, 1, "hits")
    lacks = "the schema registry http://127.0.0.1:8081 does not have version 1 of 'money'"
    recorder.waits(WaitingSource(1, "hits", "2026-11-01T12:00:05+00:00", lacks))
    assert waits_in(tmp_path) == (WaitingSource(1, "hits", SINCE, lacks),)
    recorder.idle(query)
    assert waits_in(tmp_path) == ()
    recorder.waits(WaitingSource(1, "hits", SINCE, lacks))
    recorder.add(json.dumps({"name": query, "numInputRows": 0, "durationMs": {}}))
    assert waits_in(tmp_path) == ()


def waits_in(folder: Path) -> tuple[WaitingSource, ...]:
    found = progress.read(folder)
    assert found is not None
    return found.waiting
