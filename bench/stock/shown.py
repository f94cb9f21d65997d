"""What each system shows a reader: which markers its answers count, and the answers themselves.

All are asked the same way, over and over: look for what was committed since the last look, and for the markers in it. The two
kinds of Spark tables are read from the newest data files; Tandem is asked for each marker's answer, as a user would ask.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from bench.stock.answers import Answers, answers
from bench.stock.delta_tables import Watched, column_values
from bench.stock.jobs.spark_views import SparkView
from bench.stock.marker import keys_of, marker_of
from infra.settings import Settings
from ledger.delta.addresses import Tables
from ledger.log.positions import Position
from serving.read.outcome import Value, given
from serving.read.reader import Reader
from serving.read.snapshot import Snapshot


class Shown(Protocol):
    """A system from the outside."""

    commits: int
    """How many times the first view has changed so far."""

    def look(self, waiting: Iterable[int]) -> set[int]:
        """Those of the markers that every view with keys counts."""

    def answers(self) -> Answers:
        """Every row of every view."""


@dataclass
class MergedTables:
    """A Delta table for each view that holds its answers."""

    folder: Path
    views: Sequence[SparkView]
    commits: int = 0
    _watched: dict[str, Watched] = field(default_factory=dict)
    _seen: dict[str, set[int]] = field(default_factory=dict)

    def look(self, waiting: Iterable[int]) -> set[int]:
        keyed = [view for view in self.views if view.keys]
        for view in keyed:
            watched = self._watched.setdefault(view.name, Watched(self.folder / view.name))
            seen = self._seen.setdefault(view.name, set())
            for files in watched.added():
                self.commits += view is keyed[0]
                values = column_values(files, *view.keys)
                seen.update(number for (key,) in values if (number := marker_of(key)) is not None)
        return {number for number in waiting if all(number in self._seen[view.name] for view in keyed)}

    def answers(self) -> Answers:
        return answers(self.views, {view.name: _rows("SELECT * FROM t", self.folder / view.name) for view in self.views})


@dataclass
class Partials:
    """One Delta table of partials of all views: an answer is what they add up to."""

    folder: Path
    views: Sequence[SparkView]
    commits: int = 0
    _watched: Watched = field(init=False)
    _seen: dict[str, set[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._watched = Watched(self.folder / "partials")
        self._seen = {view.name: set() for view in self.views if view.keys}

    def look(self, waiting: Iterable[int]) -> set[int]:
        for files in self._watched.added():
            self.commits += 1
            for view, key in column_values(files, "view", "key"):
                if view in self._seen:
                    number = marker_of(int(str(key)) if view == "status_counts" else key)
                    if number is not None:
                        self._seen[str(view)].add(number)
        return {number for number in waiting if all(number in seen for seen in self._seen.values())}

    def answers(self) -> Answers:
        columns = "view, key, window_start, sum(requests) requests, sum(bytes) bytes, max(largest) largest, max(slowest) slowest"
        query = f'SELECT {columns}, min("first") "first", max("last") "last" FROM t GROUP BY view, key, window_start'
        rows: dict[str, list[dict[str, Any]]] = {view.name: [] for view in self.views}
        for row in _rows(query, self.folder / "partials"):
            key = int(row["key"]) if row["view"] == "status_counts" else row["key"]
            rows[row["view"]].append({**row, "hits": row["requests"], **dict.fromkeys(_keys(self.views, row["view"]), key)})
        return answers(self.views, rows)


@dataclass
class Asked:
    """Tandem's merged reader."""

    state: str
    source: str
    views: Sequence[SparkView]
    commits: int = 0
    _at: Position | None = None
    _reader: Reader = field(init=False)

    def __post_init__(self) -> None:
        self._reader = Reader(Tables.of(Settings(state=self.state)))

    def look(self, waiting: Iterable[int]) -> set[int]:
        snapshot = self._reader.refresh()
        if not isinstance(snapshot, Snapshot) or (at := snapshot.positions.get(self.source)) is None or at == self._at:
            return set()
        self._at = at
        self.commits += 1
        found = set()
        for number in sorted(waiting):
            if not all(self._counts(view, keys_of(number)) for view in self.views if view.keys):
                # Markers are sent in turn to both partitions: the next one may be counted, those after it are not.
                break
            found.add(number)
        return found

    def answers(self) -> Answers:
        return answers(self.views, {view.name: given(self._reader.answer(view.name)).rows() for view in self.views})

    def _counts(self, view: SparkView, keys: Mapping[str, object]) -> bool:
        (name,) = view.keys
        return isinstance(self._reader.answer(view.name, keys={name: keys[view.name]}), Value)


def _keys(views: Sequence[SparkView], name: str) -> Iterable[str]:
    return next(view.keys for view in views if view.name == name)


def _rows(query: str, folder: Path) -> list[dict[str, Any]]:
    found = QueryBuilder().register("t", DeltaTable(str(folder))).execute(query).read_all()
    rows: list[dict[str, Any]] = pa.table(found).to_pylist()
    return rows
