"""The measurements: one row, a thousand keys, opening and a commit, in process; one row and a thousand keys by DuckDB."""

import resource
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, Literal

import duckdb
import numpy as np
import psutil
import pyarrow as pa

from bench.serving.published import VIEW, Tail, files, page, publish
from ledger.tables import Tables
from serving import Connection
from serving.memory.store import Store

_ROOM: Final = 8 * 2**30
_MANY: Final = 1_000
_COMMITS: Final = 20


@dataclass(frozen=True)
class Scale:
    """The keys of each view, and how often each question is asked: one row and many keys in process, and by DuckDB."""

    keys: tuple[int, ...]
    rows: int
    lookups: int
    duckdb: int


FULL: Final = Scale((100_000, 1_000_000, 10_000_000), rows=20_000, lookups=100, duckdb=30)
QUICK: Final = Scale((20_000, 200_000), rows=5_000, lookups=30, duckdb=10)


@dataclass(frozen=True)
class Asked:
    """Seconds of one question, asked again and again: the median and the 99th percentile."""

    p50: float
    p99: float


@dataclass(frozen=True)
class InProcess:
    """One view in memory: seconds to open it, bytes held, bytes at the peak beyond what the process began with.

    `commit` is the time from looking to answering with a commit of a thousand keys. `sums` add up the bytes of some single rows
    and of one lookup, which both sides are asked for.
    """

    keys: int
    open_s: float
    held: int
    peak: int
    row: Asked
    lookup: Asked
    commit: Asked
    sums: tuple[int, int]
    by: Literal["in process"] = "in process"


@dataclass(frozen=True)
class ByDuckDB:
    """The same questions, over the active files of the view's Delta table."""

    keys: int
    row: Asked
    lookup: Asked
    sums: tuple[int, int]
    by: Literal["DuckDB"] = "DuckDB"


def measure(folder: Path, scale: Scale, say: Callable[[str], None]) -> Iterator[InProcess | ByDuckDB]:
    """For each size a table, then each side in a process of its own."""
    for keys in scale.keys:
        say(f"writing a view of {keys:,} keys")
        place = folder / str(keys)
        publish(place, keys)
        sides: tuple[Callable[[Path, int, Scale], InProcess | ByDuckDB], ...] = (by_duckdb, in_process)
        for side in sides:
            with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as processes:
                found = processes.submit(side, place, keys, scale).result()
            say(
                f"{keys:,} keys: {found.row.p50 * 1e6:,.0f} us a row, {found.lookup.p50 * 1e3:,.1f} ms for {_MANY:,} ({found.by})"
            )
            yield found


def in_process(folder: Path, keys: int, scale: Scale) -> InProcess:
    """Questions to a connection."""
    process = psutil.Process()
    before, started = process.memory_info().rss, time.perf_counter()
    connection = Connection(Store(Tables(str(folder / ".tandem")), seed=1, memory=_ROOM))
    view = connection.view(VIEW)
    memory = view.now().memory
    assert memory is not None  # there is room for every size
    opened = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) - before
    some, many = _questions(keys, scale.rows), [_questions(keys, _MANY) for _ in range(scale.lookups)]
    row = _timed([partial(view.get, page=name) for name in some])
    lookup = _timed([partial(view.lookup, names) for names in many])
    bytes_of = [found["bytes"] for name in some[: scale.duckdb] if (found := view.get(page=name))]
    sums = sum(bytes_of), sum(found["bytes"] for found in view.lookup(many[0]).rows())
    tail, dice, seconds = Tail(folder, Tables(str(folder / ".tandem"))), np.random.default_rng(9), []
    for _ in range(_COMMITS):
        tail.commit(dice.choice(keys, min(_MANY, keys), replace=False))
        start = time.perf_counter()
        connection.refresh()
        view.get(page=some[0])
        seconds.append(time.perf_counter() - start)
    return InProcess(keys, opened, memory.answers.held.nbytes, peak, row, lookup, _asked(seconds), sums)


def by_duckdb(folder: Path, keys: int, scale: Scale) -> ByDuckDB:
    """The same to DuckDB, with as many threads as there are cores, each statement planned once."""
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    paths = ", ".join(f"'{path}'" for path in files(Tables(str(folder / ".tandem"))))
    columns = f"page, hits, bytes, largest, mean__sum / mean__count AS mean FROM read_parquet([{paths}])"
    connection.execute(f"PREPARE one AS SELECT {columns} WHERE page = $1")
    connection.execute(f"PREPARE many AS SELECT {columns} WHERE page IN (SELECT unnest($1::VARCHAR[]))")
    some, many = _questions(keys, scale.rows), [_questions(keys, _MANY) for _ in range(scale.lookups)]

    def one(name: str) -> list[tuple[Any, ...]]:
        return connection.execute(f"EXECUTE one('{name}')").fetchall()

    def several(names: Sequence[str]) -> pa.Table:
        listed = ", ".join(f"'{name}'" for name in names)
        return connection.execute(f"EXECUTE many([{listed}])").to_arrow_table()

    warnings.filterwarnings("ignore", message="Arrow output on a DB-API result", category=UserWarning)
    row = _timed([partial(one, name) for name in some[: scale.duckdb]])
    lookup = _timed([partial(several, names) for names in many[: scale.duckdb]])
    bytes_of = [int(found[2]) for name in some[: scale.duckdb] for found in one(name)]
    return ByDuckDB(keys, row, lookup, (sum(bytes_of), sum(map(int, several(many[0])["bytes"].to_pylist()))))


def _questions(keys: int, number: int) -> list[str]:
    return [page(one) for one in np.random.default_rng(number + keys).integers(0, keys, number).tolist()]


def _timed(questions: Sequence[Callable[[], object]]) -> Asked:
    questions[0]()  # what is made at first use
    seconds = []
    for question in questions:
        start = time.perf_counter()
        question()
        seconds.append(time.perf_counter() - start)
    return _asked(seconds)


def _asked(seconds: Sequence[float]) -> Asked:
    return Asked(*(float(one) for one in np.percentile(seconds, (50, 99))))
