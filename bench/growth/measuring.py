"""Full recomputes in one warm Spark session, with one of three numbers growing: events, views, keys.

The events are written straight into an archive. One in a hundred is a duplicate. Where one view is recomputed, DuckDB recomputes
it from the same files. Every answer's number of events is compared with the number that was written.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from tandem.batch.recompute import recompute
from tandem.batch.recompute.plan import RecomputeRequest
from tandem.batch.runtime.session import BatchRun
from tandem.bench import silent_duckdb
from tandem.bench.growth import archived_history
from tandem.bench.process_tree import Sampler
from tandem.infra import clock
from tandem.infra.settings import Settings, SparkSettings
from tandem.ledger.delta import delta_tables
from tandem.ledger.publish import adoption
from tandem.ledger.publish.batch_parts import files_of
from tandem.ledger.publish.publications import Publication
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint
from tandem.views.kernel import kernel
from tandem.views.project import project
from tandem.views.project.project import Project
from tandem.views.view import View

Axis = Literal["events", "views", "keys"]

SOURCE: Final = "readings"
_ONE_IN: Final = 100
"""The share of events that are duplicates."""

_DEFINITIONS: Final = '''
"""Readings of sensors."""

from datetime import datetime

from tandem import Event, Source, View, count, maximum, total, tumbling


class Reading(Event):
    """One reading."""

    id: str
    at: datetime
    sensor: int
    value: int


readings = Source(topic="readings", event=Reading, event_time="at", identity={identity})
SOURCES = (readings,)
'''
_VIEW: Final = """
view{number} = View(
    source=readings,
    keys={{"sensor": "sensor"}},
    window=tumbling({window}),
    measures={{"n": count(), "total": total("value + {number}"), "largest": maximum("value")}},
)
"""
_NUMBERS: Final = """
SELECT CASE WHEN n % $one_in = $one_in - 1 THEN n - $one_in // 2 ELSE n END AS i FROM range($first, $last) AS r(n)
"""
_MADE: Final = f"""
SELECT '{{"id":"' || format('{{:016x}}', hash(i)) || '","at":"' || strftime(moment, '%Y-%m-%dT%H:%M:%S.%gZ')
    || '","sensor":' || hash(i, 1) % $keys || ',"value":' || hash(i, 2) % 1000000 || '}}' AS value
FROM (SELECT i, TIMESTAMP '2026-11-01' + to_milliseconds(i % 86400000) AS moment FROM ({_NUMBERS}))
"""


@dataclass(frozen=True)
class Size:
    """What is recomputed."""

    events: int
    views: int = 1
    keys: int = 10_000

    @property
    def folds(self) -> int:
        """How many events are folded into all views."""
        return self.events * self.views


@dataclass(frozen=True)
class GrowthScale:
    """The sizes along each axis, ascending, and how often each is recomputed after a first time that does not count."""

    axes: Mapping[Axis, tuple[Size, ...]]
    repeat: int


def scale(unit: int, repeat: int) -> GrowthScale:
    """Axes on which most sizes have `unit` events; `keys` goes up to as many."""
    return GrowthScale(
        {
            "events": tuple(Size(times * unit) for times in (1, 4, 16)),
            "views": tuple(Size(unit, views) for views in (1, 3, 12)),
            "keys": tuple(Size(unit, keys=max(1, unit // share)) for share in (1000, 100, 10, 1)),
        },
        repeat,
    )


FULL: Final = scale(1_000_000, 3)
QUICK: Final = scale(100_000, 2)


@dataclass(frozen=True)
class Grown:
    """Medians of a size: seconds, and seconds of CPU of all processes; and their peak PSS.

    `right` is whether every answer counted each event once. `duckdb_s` is DuckDB's median, None for several views.
    """

    axis: Axis
    size: Size
    seconds: float
    cpu_s: float
    peak_bytes: int
    right: bool
    duckdb_s: float | None = None

    @property
    def each_us(self) -> float:
        """Microseconds for each event and view."""
        return 1e6 * self.seconds / self.size.folds


def measure(
    folder: Path, scale: GrowthScale, *, cores: int, memory: str, environ: Mapping[str, str], say: Callable[[str], None]
) -> Iterator[Grown]:
    """Measure every size of every axis, in folders of their own. Raises TandemError."""
    spark = SparkSettings(master=f"local[{cores}]", driver_memory=memory)
    for axis, sizes in scale.axes.items():
        for number, size in enumerate(sizes):
            say(f"{axis}: {size.events:,} events, {size.views} views, {size.keys:,} keys")
            state = folder / f"{axis}-{number}"
            batch = BatchRun(Settings(state=str(state), spark=spark), "bench", clock.now, lambda _: None, environ)
            yield replace(_recomputed(batch, state / "project", size, scale.repeat, cores), axis=axis)


def written(batch: BatchRun, folder: Path, size: Size, *, window: str = "days=1", identity: tuple[str, ...] = ("id",)) -> Project:
    """A project in a new folder, its first publication, and its history in the archive. Raises TandemError."""
    folder.mkdir(parents=True)
    (folder / "tandem.toml").touch()
    views = "".join(_VIEW.format(number=number, window=window) for number in range(size.views))
    names = ", ".join(f"view{number}" for number in range(size.views))
    (folder / "definitions.py").write_text(f"{_DEFINITIONS.format(identity=identity)}{views}\nVIEWS = ({names},)\n", "utf-8")
    defined = project.load(folder)
    adoption.live(batch.tables, lambda: defined, by="bench", at=batch.now())
    with silent_duckdb.connect() as engine:

        def values(low: int, high: int) -> pa.ChunkedArray:
            numbers = {"keys": size.keys, "one_in": _ONE_IN, "first": low, "last": high}
            return engine.sql(_MADE, params=numbers).to_arrow_table().column("value")

        archived_history.write(batch, defined.sources[SOURCE], 0, size.events, values)
    return defined


def _recomputed(batch: BatchRun, folder: Path, size: Size, repeat: int, cores: int) -> Grown:
    defined = written(batch, folder, size)
    spans = []
    with Sampler(lambda: [os.getpid()]) as own:
        for _ in range(1 + repeat):
            start = time.time()
            done = recompute.run(batch, lambda: defined, RecomputeRequest(mode="full"))
            spans.append((start, time.time()))
    warm, counted = spans[1:], _counted(batch, done.publication, defined.views)
    duckdb_s = None
    if size.views == 1:
        table = delta_tables.open_table(batch.tables, batch.tables.events(SOURCE, decoder_fingerprint(defined.sources[SOURCE])))
        assert table is not None, "a recompute has read it"
        duckdb_s, events = recomputed(table.file_uris(), folder / "answer.parquet", cores=cores, repeat=repeat)
        counted.add(events)
    return Grown(
        axis="events",
        size=size,
        seconds=median(end - start for start, end in warm),
        cpu_s=median(own.cpu_at(end) - own.cpu_at(start) for start, end in warm),
        peak_bytes=own.peak_bytes,
        right=counted == {size.events - size.events // _ONE_IN},
        duckdb_s=duckdb_s,
    )


def _counted(batch: BatchRun, live: Publication, views: Mapping[str, View]) -> set[int]:
    """How many events the answers of each view count."""
    found = set()
    for name, view in views.items():
        published = live.views[name]
        handle, files = files_of(batch.tables, published.address(batch.tables, name), published.parts[0])
        states = [kernel.Partial(delta_tables.read_file(handle, file.path)) for file in files]
        found.add(pc.sum(kernel.present(view, kernel.merge(view, states))["n"]).as_py())
    return found


_ASKED: Final = """
COPY (
    SELECT sensor, epoch_ms("at") // 86400000 AS day, count(*) AS n, sum(value)::BIGINT AS total, max(value) AS largest
    FROM (SELECT DISTINCT ON (id) id, "at", sensor, value FROM read_parquet({files}))
    GROUP BY ALL
) TO '{answer}' (FORMAT parquet)
"""


def recomputed(files: Sequence[str], answer: Path, *, cores: int, repeat: int) -> tuple[float, int]:
    """The median of the seconds, after a first time that does not count, and how many events the answer counts."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(_by_duckdb, list(files), str(answer), cores, repeat).result()


def _by_duckdb(files: list[str], answer: str, cores: int, repeat: int) -> tuple[float, int]:
    spans = []
    with silent_duckdb.connect() as engine:
        engine.execute(f"SET threads = {cores}; SET TimeZone = 'UTC'")
        for _ in range(1 + repeat):
            start = time.perf_counter()
            engine.execute(_ASKED.format(files=files, answer=answer))
            spans.append(time.perf_counter() - start)
        counted = engine.execute("SELECT sum(n)::BIGINT FROM read_parquet($answer)", {"answer": answer}).fetchone()
    assert counted is not None, "a sum is one row"
    return median(spans[1:]), int(counted[0])
