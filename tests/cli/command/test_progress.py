"""The progress of Spark's tasks is printed on stderr, without a terminal in lines, and only if it has changed."""

import re
import time
from pathlib import Path
from threading import Event, Thread

import pytest
from pyspark.sql import SparkSession

from tandem.cli.command import progress
from tandem.cli.command.call import Call
from tandem.cli.command.progress import Tasks, tasks
from tandem.infra.folders import ROOT
from tests.speed.sales import wait_for

CALL = Call(Path(), json=True, debug=False, environ={})


def test_a_line_is_printed_if_progress_changed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "_LINE_S", 0.0)
    looks, ended = [Tasks(), Tasks(1, 4, (7,)), Tasks(1, 4, (7,)), Tasks(), Tasks(0, 8, (9,)), Tasks(3, 4, (7,))], Event()

    def look() -> Tasks:
        if len(looks) == 1:
            ended.set()
        return looks.pop(0)

    progress._say(CALL, look, ended)
    said = capsys.readouterr()
    assert said.err.splitlines() == [
        "1 of 4 tasks of this stage, 25 %, 0 s left",
        "0 of 8 tasks of this stage, 0 %",
        "3 of 4 tasks of this stage, 75 %, 0 s left",
    ]
    assert said.out == ""


def test_the_time_left_is_that_of_the_running_stage() -> None:
    seconds = iter([100.0, 110.0, 200.0, 240.0])
    clock = progress._StageClock(lambda: next(seconds))
    assert clock.sentence(Tasks(2, 10, (1,))) == "2 of 10 tasks of this stage, 20 %, 40 s left"
    assert clock.sentence(Tasks(20, 50, (2,))) == "20 of 50 tasks of this stage, 40 %, 1 min left"


def test_every_batch_command_shows_its_progress() -> None:
    makers = [path for path in (ROOT / "cli").rglob("*.py") if re.search(r"\bBatchRun\(", path.read_text("utf-8"))]
    assert makers == [ROOT / "cli" / "command" / "batch_run.py"]


@pytest.mark.spark
def test_running_tasks_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    tracker = spark.sparkContext.statusTracker()

    def wait(name: str) -> str:
        while not (tmp_path / name).exists():
            time.sleep(0.05)
        return name

    waiting = Thread(target=lambda: spark.sparkContext.parallelize(["0", "1"], 2).map(wait).collect(), daemon=True)
    waiting.start()
    wait_for(lambda: (tasks(tracker).done, tasks(tracker).total) == (0, 2))
    (tmp_path / "0").touch()
    wait_for(lambda: (tasks(tracker).done, tasks(tracker).total) == (1, 2))
    (tmp_path / "1").touch()
    waiting.join()
    wait_for(lambda: tasks(tracker) == Tasks())
