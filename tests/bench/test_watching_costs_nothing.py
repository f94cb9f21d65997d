"""The poller's view of a Delta table and of a process tree."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from bench.process_tree import cpu_seconds, tree
from bench.stock.delta_tables import Watched, column_values


def test_each_commit_is_seen_once_with_its_rows(tmp_path: Path) -> None:
    watched = Watched(tmp_path / "table")
    assert list(watched.added()) == []
    for number in range(3):
        write_deltalake(tmp_path / "table", pa.table({"key": ["a", f"k{number}"]}), mode="append")
    seen = [set(column_values(files, "key")) for files in watched.added()]
    assert seen == [{("a",), (f"k{number}",)} for number in range(3)]
    assert list(watched.added()) == []


def test_cpu_counts_children_that_have_ended() -> None:
    burn = "sum(i * i for i in range(3_000_000))"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', '{burn}']); print('done', flush=True); input()"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    assert [each.pid for each in tree(process.pid)] == [process.pid]
    assert cpu_seconds(process.pid) > 0.1
    process.communicate(b"\n", timeout=60)
    assert cpu_seconds(process.pid) == 0
