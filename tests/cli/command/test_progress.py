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
    looks, ended = [Tasks(), Tasks(1, 4), Tasks(1, 4), Tasks(), Tasks(3, 4)], Event()

    def look() -> Tasks:
        if len(looks) == 1:
            ended.set()
        return looks.pop(0)

    progress._say(CALL, look, ended)
    said = capsys.readouterr()
    assert said.err == "1 of 4 tasks of this stage done\n3 of 4 tasks of this stage done\n"
    assert said.out == ""


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
    wait_for(lambda: tasks(tracker) == Tasks(0, 2))
    (tmp_path / "0").touch()
    wait_for(lambda: tasks(tracker) == Tasks(1, 2))
    (tmp_path / "1").touch()
    waiting.join()
    wait_for(lambda: tasks(tracker) == Tasks())
