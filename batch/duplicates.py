"""Find the positions of duplicate events, exactly, over all history, in bounded memory.

Two events are copies only if a 64-bit hash of their identity and event time is equal. So only hashes travel first: eight
bytes an event, spread by hash over buckets that sort them. If none occurs twice, no event has a copy, and that is a proof,
for equal identities have equal hashes. The few events whose hash does occur twice travel whole, by hash, and the kernel's
`unique` decides among them; strangers whose hashes met by chance are told apart there.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from batch import jobs
from batch.drops import contained
from batch.place import Place
from batch.scan import scan
from batch.slices import Slice
from batch.spans import EVENTS
from batch.table_file import TableFile
from views import engine, kernel, project
from views.source import events_schema, position_columns
from views.unique import identity_columns
from views.wire import from_ipc, to_ipc

Hashes = npt.NDArray[np.uint64]

# How many hashes, and how many whole events, one bucket is meant to hold.
_HASHES: Final = 8_000_000
_EVENTS: Final = 500_000
_SCAN_ROWS: Final = 1 << 20
_TABLE: Final = "batch_identities"


@dataclass(frozen=True)
class Search:
    """What a task needs: the release's files and the source in them, where events are, and where scratch files go.

    `generations` are the ids of the source's topics, the oldest first.
    """

    definitions: Mapping[str, bytes] = field(hash=False)
    source: str
    events: Place
    scratch: Place
    generations: tuple[str, ...] = ()


@dataclass(frozen=True)
class Duplicates:
    """`files` in the scratch place list the positions to drop; how many, and how many differed from the event kept."""

    files: tuple[str, ...] = ()
    duplicates: int = 0
    conflicts: int = 0


@dataclass(frozen=True)
class _Repeated:
    """A scratch file of the hashes of one bucket that occur more than once, and how many events have them."""

    file: str
    events: int


def find(session: SparkSession, search: Search, slices: Sequence[Slice], *, parallelism: int) -> Duplicates:
    """The duplicates among the events of the slices. Raises jobs.TaskFailed."""
    buckets = max(parallelism, ceil(sum(part.rows for part in slices) / _HASHES))
    repeated = jobs.each_then(session, partial(_hashes, search, buckets), partial(_repeated, search), slices, buckets)
    if not repeated:
        return Duplicates()
    files = tuple(one.file for one in repeated)
    buckets = max(parallelism, ceil(sum(one.events for one in repeated) / _EVENTS))
    found = jobs.each_then(session, partial(_suspects, search, files, buckets), partial(_judged, search), slices, buckets)
    return Duplicates(
        files=tuple(file for one in found for file in one.files),
        duplicates=sum(one.duplicates for one in found),
        conflicts=sum(one.conflicts for one in found),
    )


def _hashes(search: Search, buckets: int, part: Slice) -> Iterator[tuple[int, bytes]]:
    """The hashes of a slice's events, by bucket."""
    columns = identity_columns(project.load_files(search.definitions).sources[search.source])
    for events in scan(search.events, part, EVENTS, columns, rows=_SCAN_ROWS):
        hashes = _hashed(events, columns)
        places = hashes % np.uint64(buckets)
        order = np.argsort(places, kind="stable")
        there, starts = np.unique(places[order], return_index=True)
        for bucket, some in zip(there.tolist(), np.split(hashes[order], starts[1:]), strict=True):
            yield bucket, some.tobytes()


def _repeated(search: Search, pieces: Iterator[bytes]) -> Iterator[_Repeated]:
    """The hashes of a bucket that occur more than once."""
    hashes = np.sort(np.concatenate([np.empty(0, np.uint64), *(np.frombuffer(piece, np.uint64) for piece in pieces)]))
    same = hashes[1:] == hashes[:-1]
    if same.any():
        often = np.unique(hashes[1:][same])
        file = TableFile(search.scratch, pa.schema([("hash", pa.uint64())]))
        with file:
            file.write(pa.table({"hash": often}))
        assert file.written is not None  # it has rows
        yield _Repeated(file.written.path, int(same.sum()) + len(often))


def _suspects(search: Search, files: Sequence[str], buckets: int, part: Slice) -> Iterator[tuple[int, bytes]]:
    """The slice's events, whole, whose hash occurs more than once, by bucket."""
    source = project.load_files(search.definitions).sources[search.source]
    columns = identity_columns(source)
    scratch = search.scratch.file_system()
    tables = [pq.read_table(file, filesystem=scratch, use_threads=False) for file in files]
    often = np.sort(pa.concat_tables(tables)["hash"].to_numpy())
    for events in scan(search.events, part, EVENTS, events_schema(source).names, rows=_SCAN_ROWS // 4):
        hashes = _hashed(events, columns)
        suspect = contained(hashes, often)
        chosen, places = events.filter(pa.array(suspect)), hashes[suspect] % np.uint64(buckets)
        for bucket in np.unique(places).tolist():
            yield bucket, to_ipc(chosen.filter(pa.array(places == bucket)))


def _judged(search: Search, pieces: Iterator[bytes]) -> Iterator[Duplicates]:
    """Which of a bucket's suspects are duplicates."""
    source = project.load_files(search.definitions).sources[search.source]
    suspects = pa.concat_tables([events_schema(source).empty_table(), *map(from_ipc, pieces)]).combine_chunks()
    result = kernel.unique(source, suspects, generations=search.generations)
    if not result.duplicates:
        return
    names = list(position_columns(source))
    kept = result.events.select(names)
    dropped = suspects.select(names).join(kept, keys=names, join_type="left anti", use_threads=False)
    file = TableFile(search.scratch, dropped.schema)
    with file:
        file.write(dropped)
    assert file.written is not None  # it has rows
    yield Duplicates((file.written.path,), result.duplicates, result.conflicts)


def _hashed(events: pa.Table, columns: Sequence[str]) -> Hashes:
    """A hash per event of its identity and event time; equal values have equal hashes wherever they are computed."""
    names = ", ".join(engine.quoted(name) for name in columns)
    hashes: Hashes = engine.query(f"SELECT hash({names}) AS h FROM {_TABLE}", {_TABLE: events})["h"].to_numpy()
    engine.take_back(_TABLE)
    return hashes
