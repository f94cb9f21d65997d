"""The memory for finding duplicates: the speed layer's dedup window, and one bucket of the batch search.

Each figure comes from a separate process, whose peak the operating system reports.
"""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from math import ceil
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import psutil
import pyarrow as pa
from rich.table import Table

from tandem.batch.fold.duplicates import EVENTS_HELD, HASHES, Search, judged, repeated_hashes
from tandem.bench.peak import peak
from tandem.ledger.delta.location import Location
from tandem.speed.dedup.dedup_window import DedupWindow
from tandem.speed.dedup.identities import Identities
from tandem.speed.dedup.identity_runs import IdentityRun
from tandem.speed.dedup.keys import KEY
from tandem.views.arrow.ipc import to_ipc
from tandem.views.project import project
from tandem.views.source.source import events_schema

MILLION: Final = 1_000_000
_PIECE: Final = 10_000
_COPIES: Final = 20
"""Every n-th event of a sample history is a copy."""
_DEFINITIONS: Final = b"""
from datetime import datetime
from tandem import Event, Source

class Sale(Event):
    id: int
    at: datetime
    shop: str
    cents: int

sales = Source(topic="sales", event=Sale, event_time="at", identity=("id",))
SOURCES = (sales,)
VIEWS = ()
"""
_FILES: Final = {"tandem.toml": b"", "definitions.py": _DEFINITIONS}


@dataclass(frozen=True)
class Scale:
    """The number of identities in a dedup window, and of events in histories, one for each measurement."""

    dedup_windows: tuple[int, ...]
    histories: tuple[int, ...]


FULL: Final = Scale((MILLION, 4 * MILLION, 16 * MILLION), (MILLION, 4 * MILLION, 16 * MILLION))
QUICK: Final = Scale((MILLION // 4, MILLION), (MILLION // 4, MILLION))


@dataclass(frozen=True)
class Figure:
    """The memory of one process beyond its initial memory, in bytes: its `peak`, and `steady` at the end."""

    what: str
    size: int
    steady: int
    peak: int
    seconds: float


def measure(scale: Scale) -> Iterator[Figure]:
    """Each figure as soon as it is measured: the dedup windows, then a bucket's two steps in histories of growing size."""
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as processes:
        for identities in scale.dedup_windows:
            yield processes.submit(dedup_window, identities).result()
        for step in (hashes, one_hash, suspects, one_event):
            for events in scale.histories:
                yield processes.submit(step, events).result()


def document(figures: Sequence[Figure]) -> dict[str, Any]:
    """Every figure, with the peak for each identity or event."""
    return {"figures": [asdict(one) | {"peak_bytes_each": round(one.peak / one.size, 1)} for one in figures]}


def table(figures: Sequence[Figure]) -> Table:
    """The figures for a person."""
    shown = Table("what", "size", "steady, MB", "peak, MB", "peak, bytes each", "seconds")
    for one in figures:
        megabytes = [f"{number / MILLION:.0f}" for number in (one.steady, one.peak)]
        shown.add_row(one.what, f"{one.size:,}", *megabytes, f"{one.peak / one.size:.1f}", f"{one.seconds:.1f}")
    return shown


def dedup_window(identities: int) -> Figure:
    """Measure a dedup window of N identities, added in micro-batches of ten thousand."""
    dice, held, start = np.random.default_rng(1), DedupWindow(1), _Start.now()
    for _ in range(0, identities, _PIECE):
        keys = dice.integers(0, 2**64, (_PIECE, KEY), np.uint64)
        held = held.extended(Identities(keys, np.zeros(_PIECE, np.int64)), at=0, caught_up=0)
    return start.figure("dedup window", identities, sum(map(_size, held.runs)))


def _size(run: IdentityRun) -> int:
    return run.words.nbytes + run.rest.nbytes + run.numbers.nbytes + run.stamps.nbytes


def hashes(events: int) -> Figure:
    """The first step of the batch search over one bucket of a history of N events."""
    return _hashes("hashes of a bucket", events, ceil(events / max(1, ceil(events / HASHES))), strangers=True)


def one_hash(events: int) -> Figure:
    """The same where all of the history is one event, so that all of it falls into one bucket."""
    return _hashes("hashes, all of one event", events, events, strangers=False)


def suspects(events: int) -> Figure:
    """The second step over one bucket of the events that have copies."""
    some = 2 * events // _COPIES
    return _suspects("events of a bucket", events, ceil(some / max(1, ceil(some / EVENTS_HELD))), strangers=True)


def one_event(events: int) -> Figure:
    """The same where all of the history is one event."""
    return _suspects("events, all of one event", events, events, strangers=False)


def _hashes(what: str, events: int, bucket: int, *, strangers: bool) -> Figure:
    dice = np.random.default_rng(2)

    def pieces() -> Iterator[bytes]:
        for _ in range(0, bucket, _PIECE):
            numbers = dice.integers(0, 2**63, _PIECE, np.uint64) if strangers else np.zeros(_PIECE, np.uint64)
            again = _PIECE // _COPIES
            numbers[:again] = numbers[again : 2 * again]
            yield numbers.tobytes()

    with TemporaryDirectory() as folder:
        search, start = _search(folder), _Start.now()
        list(repeated_hashes(search, pieces()))
        return start.figure(what, events)


def _suspects(what: str, events: int, bucket: int, *, strangers: bool) -> Figure:
    schema = events_schema(project.load_files(_FILES).sources["sales"])

    def pieces() -> Iterator[bytes]:
        for start in range(0, bucket, _PIECE):
            offsets = np.arange(start, start + _PIECE)
            ids = offsets // 2 if strangers else np.zeros(_PIECE, np.int64)
            constant = {"_topic_id": "T", "_partition": 0, "_append_time": 0, "at": 0, "shop": "a shop", "cents": 1}
            varying = {"_offset": pa.array(offsets), "id": pa.array(ids)}
            columns = [varying.get(f.name, pa.repeat(pa.scalar(constant.get(f.name), f.type), _PIECE)) for f in schema]
            yield to_ipc(pa.table(columns, schema=schema))

    with TemporaryDirectory() as folder:
        search, start = _search(folder), _Start.now()
        list(judged(search, pieces()))
        return start.figure(what, events)


def _search(folder: str) -> Search:
    place = Location(str(Path(folder)))
    return Search(_FILES, "sales", place, place)


@dataclass(frozen=True)
class _Start:
    """The memory of this process and the time, before the work."""

    bytes: int
    seconds: float

    @classmethod
    def now(cls) -> "_Start":
        return cls(psutil.Process().memory_info().rss, time.perf_counter())

    def figure(self, what: str, size: int, steady: int = 0) -> Figure:
        return Figure(what, size, steady, max(0, peak() - self.bytes), time.perf_counter() - self.seconds)
