"""The speed layer's progress: sums over micro-batches, readable by others while its process lives."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tandem.speed import progress
from tandem.speed.progress import ProgressRecorder, query_name


def told(name: str | None, records: int = 5, **milliseconds: int) -> str:
    """As Spark writes it."""
    phases = {**milliseconds, "triggerExecution": sum(milliseconds.values())}
    return json.dumps({"id": "x", "name": name, "numInputRows": records, "durationMs": phases, "sources": []})


def test_micro_batches_are_summed_up_by_release_and_source(tmp_path: Path) -> None:
    recorder = ProgressRecorder(tmp_path, os.getpid())
    assert progress.read(tmp_path) is None
    recorder.add(told(query_name(1, "sales", "x"), addBatch=1500, walCommit=20))
    recorder.add(told(query_name(1, "sales", "x"), addBatch=250))
    recorder.add(told(query_name(2, "sales", "x"), addBatch=100))
    recorder.add(told(query_name(1, "sales", "x"), records=0, latestOffset=7))
    recorder.add(told(None, addBatch=9))
    found = progress.read(tmp_path)
    assert found is not None
    assert [(one.release, one.source, one.triggers, one.seconds) for one in found.sources] == [
        (1, "sales", 2, {"addBatch": 1.75, "walCommit": 0.02}),
        (2, "sales", 1, {"addBatch": 0.1}),
    ]


def test_progress_of_an_ended_process_is_ignored(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        ProgressRecorder(tmp_path, process.pid).add(told(query_name(1, "sales", "x"), addBatch=1))
        assert progress.read(tmp_path) is not None
        process.kill()
    assert progress.read(tmp_path) is None
    progress.file(tmp_path).write_bytes(b"torn")
    assert progress.read(tmp_path) is None


def test_a_read_only_folder_does_not_end_the_layer(tmp_path: Path) -> None:
    (tmp_path / "run").touch()
    ProgressRecorder(tmp_path, os.getpid()).add(told(query_name(1, "sales", "x"), addBatch=1))
