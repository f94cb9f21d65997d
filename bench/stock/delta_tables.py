"""What a Delta table shows a reader, commit by commit: the newest log file names the data files that just became visible.

Watching the log costs one look at the file system for each poll, so that watching takes nothing from what is watched.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pyarrow.parquet as pq


@dataclass
class Watched:
    """A Delta table in a local folder, read up to and without version `next_version`."""

    folder: Path
    next_version: int = 0

    def added(self) -> Iterator[list[Path]]:
        """For each commit since the last call, the data files it added."""
        while (log := self.folder / "_delta_log" / f"{self.next_version:020d}.json").exists():
            actions = [json.loads(line) for line in log.read_text().splitlines()]
            self.next_version += 1
            yield [self.folder / unquote(action["add"]["path"]) for action in actions if "add" in action]


def column_values(files: list[Path], *columns: str) -> Iterator[tuple[object, ...]]:
    """The distinct rows of these columns in these files; a file that is gone already was replaced by a later commit's."""
    for file in files:
        try:
            table = pq.read_table(file, columns=list(columns), partitioning=None)
        except FileNotFoundError:
            continue
        yield from set(zip(*(table.column(name).to_pylist() for name in columns), strict=True))
