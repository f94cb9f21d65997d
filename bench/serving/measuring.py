"""The measurements: in process, over HTTP while others commit, and by DuckDB over the same files and in memory."""

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
from typing import Any, Final, Literal, ParamSpec, TypeVar

import numpy as np
import psutil
import pyarrow as pa

from tandem.bench import silent_duckdb
from tandem.bench.serving.over_http import OverHTTP, over_http
from tandem.bench.serving.published import AT, SMALL, VIEW, PublishedTail, files, publish
from tandem.bench.serving.questions import MANY, Questions, QuestionTimes, ServingScale, asked, many, numbered, questions, timed
from tandem.ledger.delta.addresses import Tables
from tandem.serving import Connection, PublishedView
from tandem.serving.memory.store import Store

P = ParamSpec("P")
T = TypeVar("T")

_ROOM: Final = 8 * 2**30
_COMMITS: Final = 20


@dataclass(frozen=True)
class InProcess:
    """One view in memory: seconds to open it, bytes held, bytes at the peak beyond what the process began with.

    `commit` is the time from looking to answering with a commit of a thousand keys. `sums` are of some single rows and of one
    look-up, which all sides are asked for.
    """

    keys: int
    open_s: float
    held: int
    peak: int
    row: QuestionTimes
    lookup: QuestionTimes
    commit: QuestionTimes
    sums: tuple[int, int]
    by: Literal["in process"] = "in process"


@dataclass(frozen=True)
class ByDuckDB:
    """The same questions, and a range and the ten largest of the small view, by DuckDB.

    It reads the active files of the Delta tables, or has loaded them into memory and indexed their keys.
    """

    keys: int
    row: QuestionTimes
    lookup: QuestionTimes
    scan: QuestionTimes
    top: QuestionTimes
    sums: tuple[int, int]
    by: Literal["DuckDB", "DuckDB in memory"] = "DuckDB"


Side = InProcess | OverHTTP | ByDuckDB


def measure(folder: Path, scale: ServingScale, say: Callable[[str], None]) -> Iterator[Side]:
    """For each size a table, then each side in a process of its own."""
    for keys in scale.keys:
        say(f"writing a view of {keys:,} keys")
        place = folder / str(keys)
        publish(place, keys)
        sides: tuple[Callable[[Path, int, ServingScale], Side], ...] = (by_duckdb, by_duckdb_in_memory, in_process, over_http)
        for side in sides:
            found = apart(side, place, keys, scale)
            say(f"{keys:,} keys: {found.row.p50 * 1e6:,.0f} us a row, {found.lookup.p50 * 1e3:,.1f} ms for {MANY:,} ({found.by})")
            yield found


def apart(work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """The result of a function in a new process."""
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as processes:
        return processes.submit(work, *arguments, **named).result()


def opened(folder: Path) -> Connection:
    """A connection that holds the views of a folder in memory, whatever their size."""
    return Connection(Store(Tables(str(folder / ".tandem" / "tables")), seed=1, memory=_ROOM))


def questions_to(view: PublishedView, keys: int, scale: ServingScale) -> Questions:
    """What a view of N keys is asked in process."""
    rows = [partial(view.get, page=name) for name in questions(keys, scale.rows)]
    return rows, [partial(view.lookup, names) for names in many(keys, scale.lookups)]


def in_process(folder: Path, keys: int, scale: ServingScale) -> InProcess:
    """Questions to a connection."""
    process = psutil.Process()
    before, started = process.memory_info().rss, time.perf_counter()
    connection = opened(folder)
    view = connection.view(VIEW)
    memory = view.now().memory
    assert memory is not None  # there is room for every size
    took = time.perf_counter() - started
    needed = peak() - before
    row, lookup = map(timed, questions_to(view, keys, scale))
    some, several = questions(keys, scale.rows), many(keys, scale.lookups)
    rows = [found for name in some[: scale.duckdb] if (found := view.get(page=name))]
    together = view.lookup(several[0]).rows()
    sums = numbered((one["hits"], one["bytes"]) for one in rows), numbered((one["hits"], one["bytes"]) for one in together)
    tail, dice, seconds = PublishedTail(folder, Tables(str(folder / ".tandem" / "tables"))), np.random.default_rng(9), []
    for _ in range(_COMMITS):
        tail.commit(np.unique(dice.integers(0, keys, MANY)))
        start = time.perf_counter()
        connection.refresh()
        view.get(page=some[0])
        seconds.append(time.perf_counter() - start)
    return InProcess(keys, took, memory.answers.held.nbytes, needed, row, lookup, asked(seconds), sums)


def by_duckdb(folder: Path, keys: int, scale: ServingScale) -> ByDuckDB:
    """The same to DuckDB over the files, with as many threads as there are cores, each statement planned once."""
    return _duckdb(folder, keys, scale, in_memory=False)


def by_duckdb_in_memory(folder: Path, keys: int, scale: ServingScale) -> ByDuckDB:
    """The same over tables in memory, indexed by page and by window."""
    return _duckdb(folder, keys, scale, in_memory=True)


def _duckdb(folder: Path, keys: int, scale: ServingScale, *, in_memory: bool) -> ByDuckDB:
    connection = silent_duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    pages, minutes = (
        ", ".join(f"'{path}'" for path in files(Tables(str(folder / ".tandem" / "tables")), view)) for view in (VIEW, SMALL)
    )
    of_pages, of_minutes = f"read_parquet([{pages}])", f"read_parquet([{minutes}])"
    connection.execute("SET TimeZone = 'UTC'")
    if in_memory:
        connection.execute(f"CREATE TABLE pages AS FROM {of_pages}; CREATE INDEX by_page ON pages (page)")
        connection.execute(f"CREATE TABLE minutes AS FROM {of_minutes}; CREATE INDEX by_window ON minutes (window_start)")
        of_pages, of_minutes = "pages", "minutes"
    columns = f"page, hits, bytes, largest, mean__sum / mean__count AS mean FROM {of_pages}"
    small = f"SELECT window_start, window_end, hits, bytes FROM {of_minutes}"
    bounds = f"TIMESTAMPTZ '{AT.isoformat()}' + to_minutes($1)"
    connection.execute(
        f"PREPARE range AS {small} WHERE window_start >= {bounds} AND window_start < {bounds} + INTERVAL 100 MINUTE"
    )
    connection.execute(f"PREPARE top AS {small} ORDER BY bytes DESC, window_start LIMIT 10")
    connection.execute(f"PREPARE one AS SELECT {columns} WHERE page = $1")
    connection.execute(f"PREPARE many AS SELECT {columns} WHERE page IN (SELECT unnest($1::VARCHAR[]))")
    some, several = questions(keys, scale.rows), many(keys, scale.lookups)

    def one(name: str) -> list[tuple[Any, ...]]:
        return connection.execute(f"EXECUTE one('{name}')").fetchall()

    def fetched(statement: str) -> list[tuple[Any, ...]]:
        return connection.execute(statement).fetchall()

    def all_of(names: Sequence[str]) -> pa.Table:
        listed = ", ".join(f"'{name}'" for name in names)
        return connection.execute(f"EXECUTE many([{listed}])").to_arrow_table()

    warnings.filterwarnings("ignore", message="Arrow output on a DB-API result", category=UserWarning)
    row = timed([partial(one, name) for name in some[: scale.duckdb]])
    lookup = timed([partial(all_of, names) for names in several[: scale.duckdb]])
    scan = timed([partial(fetched, f"EXECUTE range({number})") for number in range(scale.duckdb)])
    top = timed([partial(fetched, "EXECUTE top") for _ in range(scale.duckdb)])
    rows = [(row[1], row[2]) for name in some[: scale.duckdb] for row in one(name)]
    found = all_of(several[0])
    sums = numbered(rows), numbered(zip(found["hits"].to_pylist(), found["bytes"].to_pylist(), strict=True))
    return ByDuckDB(keys, row, lookup, scan, top, sums, by="DuckDB in memory" if in_memory else "DuckDB")


def peak() -> int:
    """The peak memory of this process in bytes.

    From Linux's /proc, because getrusage includes the peak of the process that it was forked from.
    """
    if sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1]) * 1024
