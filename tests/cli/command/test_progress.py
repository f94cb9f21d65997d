"""The progress of Spark's tasks is printed on stderr, without a terminal in lines, and only if it has changed."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest
from pyarrow import RecordBatch
from pyspark.sql import SparkSession

from tandem.cli.command import progress
from tandem.cli.command.call import Call
from tandem.cli.command.progress import Tasks, tasks
from tandem.infra.folders import ROOT
from tests.speed.sales import wait_for

CALL = Call(Path(), json=True, debug=False, environ={})


def test_a_line_is_printed_if_progress_changed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "_LINE_S", 0.0)
    looks, ended = [Tasks(), Tasks(1, 4), Tasks(1, 4), Tasks(), Tasks(0, 8), Tasks(3, 4)], Event()

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


@pytest.mark.parametrize(
    ("tasks", "sentence"),
    [
        (Tasks(2, 10, seconds=10.0), "2 of 10 tasks of this stage, 20 %, 40 s left"),
        (Tasks(20, 50, seconds=40.0), "20 of 50 tasks of this stage, 40 %, 1 min left"),
        (Tasks(0, 4, 500), "0 of 4 tasks of this stage, 0 %, 500 records"),
        (Tasks(0, 4, 1), "0 of 4 tasks of this stage, 0 %, 1 record"),
        (Tasks(1, 4, 5000, 10.0), "1 of 4 tasks of this stage, 25 %, 5000 records, 500 a second, 30 s left"),
    ],
)
def test_records_their_rate_and_the_time_left_are_those_of_the_running_stage(tasks: Tasks, sentence: str) -> None:
    assert tasks.sentence() == sentence


def test_every_batch_command_shows_its_progress() -> None:
    makers = [path for path in (ROOT / "cli").rglob("*.py") if re.search(r"\bBatchRun\(", path.read_text("utf-8"))]
    assert makers == [ROOT / "cli" / "command" / "batch_run.py"]


@pytest.mark.slow
@pytest.mark.spark
def test_running_tasks_and_their_records_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    def wait(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        for batch in batches:
            while not (tmp_path / str(batch.num_rows)).exists():
                time.sleep(0.05)
            yield batch

    for rows in (5, 7):
        spark.range(0, rows, 1, 1).write.parquet(str(tmp_path / f"rows{rows}"))
    read = spark.read.parquet(str(tmp_path / "rows5")).union(spark.read.parquet(str(tmp_path / "rows7")))
    waiting = Thread(target=lambda: read.mapInArrow(wait, "id long").collect(), daemon=True)
    waiting.start()
    wait_for(lambda: (tasks(spark).done, tasks(spark).total) == (0, 2))
    (tmp_path / "5").touch()
    wait_for(lambda: (tasks(spark).done, tasks(spark).total, tasks(spark).records) == (1, 2, 5))
    (tmp_path / "7").touch()
    waiting.join()
    wait_for(lambda: tasks(spark) == Tasks())
