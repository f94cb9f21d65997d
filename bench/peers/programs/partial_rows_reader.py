"""Follows a Delta table of partial rows: TABLE PREFIX. Prints each new path that begins with the prefix, and when it was read.

It reads the data files of each new commit, at the cost of one look at the file system when there is none. It ends with its input.
"""

import json
import sys
import time
from pathlib import Path
from urllib.parse import unquote

import pyarrow.compute as pc
import pyarrow.parquet as pq

from tandem.bench.input_end import watched

LOOK_S = 0.01


def added(table: Path, version: int) -> list[Path] | None:
    """The data files that a commit added; None before the commit is there."""
    log = table / "_delta_log" / f"{version:020d}.json"
    try:
        actions = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    except FileNotFoundError:
        return None
    files = [action["add"] for action in actions if "add" in action]
    return [table / unquote(file["path"]) for file in files if file["dataChange"]]


def paths(file: Path, prefix: str) -> list[str]:
    """The paths of a file that begin with the prefix; none of a file that a compaction has replaced."""
    try:
        column = pq.read_table(file, columns=["path"], partitioning=None).column("path")
    except FileNotFoundError:
        return []
    found: list[str] = column.filter(pc.starts_with(column, prefix)).to_pylist()
    return found


def main(table: Path, prefix: str) -> None:
    """Follow the table until the input ends."""
    ended, seen, version = watched(), set[str](), 0
    while not ended.is_set():
        files = added(table, version)
        if files is None:
            ended.wait(LOOK_S)
            continue
        version += 1
        for file in files:
            for path in paths(file, prefix):
                if path not in seen:
                    seen.add(path)
                    print(path, time.time(), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
