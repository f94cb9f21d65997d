"""Find the positions of duplicate events, exactly, over all history, in bounded memory.

Two events are copies only if a 64-bit hash of their identity and event time is equal. So only hashes travel first: eight
bytes an event, spread by hash over buckets that sort them. If none occurs twice, no event has a copy, and that is a proof,
for equal identities have equal hashes. The few events whose hash does occur twice travel whole, by hash, and the kernel's
`unique` decides among them; strangers whose hashes met by chance are told apart there.

Both steps take what comes in pieces and keep of it what differs, so that an event sent a million times costs no more than
one sent twice.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from typing import Final, TypeVar

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
from views.source import events_schema
from views.unique import contents, identity_columns
from views.wire import from_ipc, to_ipc

Hashes = npt.NDArray[np.uint64]
Piece = TypeVar("Piece", bound=Sized)

HASHES: Final = 8_000_000
"""How many hashes one bucket is meant to hold."""
EVENTS_HELD: Final = 500_000
"""How many whole events."""

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
class Repeated:
    """A scratch file of the hashes of one bucket that occur more than once, and how many events have them."""

    file: str
    events: int


def find(session: SparkSession, search: Search, slices: Sequence[Slice], *, parallelism: int) -> Duplicates:
    """The duplicates among the events of the slices. Raises jobs.TaskFailed."""
    buckets = max(parallelism, ceil(sum(part.rows for part in slices) / HASHES))
    repeated = jobs.each_then(session, partial(_hashes, search, buckets), partial(repeated_hashes, search), slices, buckets)
    if not repeated:
        return Duplicates()
    files = tuple(one.file for one in repeated)
    buckets = max(parallelism, ceil(sum(one.events for one in repeated) / EVENTS_HELD))
    found = jobs.each_then(session, partial(_suspects, search, files, buckets), partial(judged, search), slices, buckets)
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


def repeated_hashes(search: Search, pieces: Iterator[bytes]) -> Iterator[Repeated]:
    """The hashes of a bucket that occur more than once."""
    held = often = np.empty(0, np.uint64)
    events = 0
    for some in _together((np.frombuffer(piece, np.uint64) for piece in pieces), HASHES):
        events += sum(map(len, some))
        hashes = np.sort(np.concatenate([held, *some]))
        again = np.concatenate([[False], hashes[1:] == hashes[:-1]])
        often = np.union1d(often, hashes[again])
        held = hashes[~again]
    if len(often):
        file = TableFile(search.scratch, pa.schema([("hash", pa.uint64())]))
        with file:
            file.write(pa.table({"hash": often}))
        assert file.written is not None  # it has rows
        yield Repeated(file.written.path, events - len(held) + len(often))


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


def judged(search: Search, pieces: Iterator[bytes]) -> Iterator[Duplicates]:
    """Which of a bucket's suspects are duplicates."""
    source = project.load_files(search.definitions).sources[search.source]
    kept = events_schema(source).empty_table()
    different, duplicates = contents(source, kept), 0
    file = TableFile(search.scratch, kept.select(EVENTS.names).schema)
    with file:
        for some in _together(map(from_ipc, pieces), EVENTS_HELD):
            different = contents(source, pa.concat_tables([different, *(one.select(different.column_names) for one in some)]))
            suspects = pa.concat_tables([kept, *some]).combine_chunks()
            result = kernel.unique(source, suspects, generations=search.generations)
            kept, duplicates = result.events, duplicates + result.duplicates
            places, stay = suspects.select(EVENTS.names), kept.select(EVENTS.names)
            file.write(places.join(stay, keys=EVENTS.names, join_type="left anti", use_threads=False))
    if file.written is not None:
        yield Duplicates((file.written.path,), duplicates, different.num_rows - kept.num_rows)


def _together(pieces: Iterable[Piece], most: int) -> Iterator[list[Piece]]:
    """Pieces in lists of at least so much, the last one apart."""
    held: list[Piece] = []
    for piece in pieces:
        held.append(piece)
        if sum(map(len, held)) >= most:
            yield held
            held = []
    if held:
        yield held


def _hashed(events: pa.Table, columns: Sequence[str]) -> Hashes:
    """A hash per event of its identity and event time; equal values have equal hashes wherever they are computed."""
    names = ", ".join(engine.quoted(name) for name in columns)
    hashes: Hashes = engine.query(f"SELECT hash({names}) AS h FROM {_TABLE}", {_TABLE: events})["h"].to_numpy()
    engine.take_back(_TABLE)
    return hashes
