"""Find the positions of duplicate events, exactly, over all history, in bounded memory.

Two events are copies only if a 64-bit hash of their identity and event time is equal. So only hashes travel first: eight
bytes an event, spread by hash over buckets that sort them. If none occurs twice, no event has a copy, and that is a proof,
for equal identities have equal hashes. The few events whose hash does occur twice travel whole, by hash, and the kernel's
`unique` decides among them; strangers whose hashes met by chance are told apart there.

Where only the newest stretch of the log is searched, the hashes of what came before do not travel: each task compares its
part of the history with those of the new events, and gives the few events that match.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from batch import jobs
from batch.drops import contained
from batch.place import Place
from batch.scan import scan, within
from batch.slices import Slice
from batch.spans import EVENTS
from batch.table_file import TableFile
from views import engine, kernel, project
from views.ranges import Ranges
from views.source import Source, events_schema
from views.unique import identity_columns
from views.wire import from_ipc, to_ipc

Hashes = npt.NDArray[np.uint64]

# How many hashes, and how many whole events, one bucket is meant to hold.
_HASHES: Final = 8_000_000
_EVENTS: Final = 500_000
_SCAN_ROWS: Final = 1 << 20
_TABLE: Final = "batch_identities"
_ROW: Final = "_row"


@dataclass(frozen=True)
class Search:
    """What a task needs: the release's files and the source in them, where events are, and where scratch files go.

    `generations` are the ids of the source's topics, the oldest first. `searched` is the stretch of the log whose events are
    searched, where that is not all of it: what lies outside has been searched before.
    """

    definitions: Mapping[str, bytes] = field(hash=False)
    source: str
    events: Place
    scratch: Place
    generations: tuple[str, ...] = ()
    searched: Ranges | None = None


@dataclass(frozen=True)
class Duplicates:
    """`files` in the scratch place list the positions to drop; how many, and how many differed from the event kept.

    `displaced` are events of the history that a new copy comes before in the order of the log, though they were counted;
    `contested` are those among them whose content differs from that copy's.
    """

    files: tuple[str, ...] = ()
    duplicates: int = 0
    conflicts: int = 0
    displaced: int = 0
    contested: int = 0


@dataclass(frozen=True)
class _Repeated:
    """A scratch file of the hashes of one bucket that occur more than once, and how many events have them."""

    file: str
    events: int


@dataclass(frozen=True)
class _Met:
    """A scratch file of events of the history whose hash a new event has, and one of these hashes."""

    events: str
    hashes: _Repeated


def find(
    session: SparkSession, search: Search, slices: Sequence[Slice], *, history: Sequence[Slice] = (), parallelism: int
) -> Duplicates:
    """The duplicates among the events of the slices, and of events of the history. Raises jobs.TaskFailed."""
    buckets = max(parallelism, ceil(sum(part.rows for part in slices) / _HASHES))
    found = jobs.each_then(session, partial(_hashes, search, buckets), partial(_sorted, search), slices, buckets)
    repeated = [one for one in found if isinstance(one, _Repeated)]
    new = tuple(one for one in found if isinstance(one, str))
    met = [one for one in jobs.each(session, partial(_met, search, new), history) if one] if new else []
    repeated += [one.hashes for one in met]
    if not repeated:
        return Duplicates()
    files = tuple(one.file for one in repeated)
    buckets = max(parallelism, ceil(sum(one.events for one in repeated) / _EVENTS))
    suspects = [*slices, *(one.events for one in met)]
    judged = jobs.each_then(session, partial(_suspects, search, files, buckets), partial(_judged, search), suspects, buckets)
    return Duplicates(
        files=tuple(file for one in judged for file in one.files),
        duplicates=sum(one.duplicates for one in judged),
        conflicts=sum(one.conflicts for one in judged),
        displaced=sum(one.displaced for one in judged),
        contested=sum(one.contested for one in judged),
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


def _sorted(search: Search, pieces: Iterator[bytes]) -> Iterator[_Repeated | str]:
    """The hashes of a bucket that occur more than once and, for a search with a history, a scratch file of all."""
    hashes = np.sort(np.concatenate([np.empty(0, np.uint64), *(np.frombuffer(piece, np.uint64) for piece in pieces)]))
    same = hashes[1:] == hashes[:-1]
    if same.any():
        often = np.unique(hashes[1:][same])
        yield _Repeated(_stored(search, pa.table({"hash": often})), int(same.sum()) + len(often))
    if search.searched is not None and len(hashes):
        yield _stored(search, pa.table({"hash": hashes}))


def _met(search: Search, new: Sequence[str], part: Slice) -> _Met | None:
    """The events of a slice of the history whose hash is among those of the new events."""
    source = project.load_files(search.definitions).sources[search.source]
    columns = identity_columns(source)
    among = _read_hashes(search, new)
    matches = [
        np.unique(hashes[contained(hashes, among)])
        for events in scan(search.events, part, EVENTS, columns, rows=_SCAN_ROWS)
        for hashes in (_hashed(events, columns),)
    ]
    common = np.unique(np.concatenate([np.empty(0, np.uint64), *matches]))
    if not len(common):
        return None
    chosen = [
        events.filter(pa.array(contained(_hashed(events, columns), common)))
        for events in scan(search.events, part, EVENTS, events_schema(source).names, rows=_SCAN_ROWS // 4)
    ]
    events = pa.concat_tables(chosen)
    # As many new events may match as old ones: each bucket of suspects is made for both.
    return _Met(_stored(search, events), _Repeated(_stored(search, pa.table({"hash": common})), 2 * events.num_rows))


def _suspects(search: Search, files: Sequence[str], buckets: int, part: Slice | str) -> Iterator[tuple[int, bytes]]:
    """The whole events of a slice, or of a scratch file, whose hash occurs more than once, by bucket."""
    source = project.load_files(search.definitions).sources[search.source]
    columns, often = identity_columns(source), _read_hashes(search, files)
    for events in _events(search, source, part):
        hashes = _hashed(events, columns)
        suspect = contained(hashes, often)
        chosen, places = events.filter(pa.array(suspect)), hashes[suspect] % np.uint64(buckets)
        for bucket in np.unique(places).tolist():
            yield bucket, to_ipc(chosen.filter(pa.array(places == bucket)))


def _events(search: Search, source: Source, part: Slice | str) -> Iterator[pa.Table]:
    if isinstance(part, Slice):
        yield from scan(search.events, part, EVENTS, events_schema(source).names, rows=_SCAN_ROWS // 4)
    else:
        yield pq.read_table(part, filesystem=search.scratch.file_system(), use_threads=False).cast(events_schema(source))


def _judged(search: Search, pieces: Iterator[bytes]) -> Iterator[Duplicates]:
    """Which of a bucket's suspects are duplicates: of all, or of those that are searched."""
    source = project.load_files(search.definitions).sources[search.source]
    suspects = pa.concat_tables([events_schema(source).empty_table(), *map(from_ipc, pieces)]).combine_chunks()
    whole = kernel.unique(source, suspects, generations=search.generations)
    if search.searched is None:
        yield from _dropped(search, suspects, whole.events, Duplicates((), whole.duplicates, whole.conflicts))
        return
    new = within(suspects, EVENTS, search.searched)
    before = kernel.unique(source, suspects.filter(pc.invert(new)), generations=search.generations)
    fresh = suspects.filter(new)
    kept = kernel.unique(source, fresh, before.events, generations=search.generations)
    displaced = _without(before.events, whole.events)
    counted = Duplicates(
        duplicates=kept.duplicates,
        conflicts=whole.conflicts - before.conflicts,
        displaced=displaced.num_rows,
        contested=kernel.unique(source, pa.concat_tables([displaced, whole.events]), generations=search.generations).conflicts,
    )
    yield from _dropped(search, fresh, kept.events, counted)


def _dropped(search: Search, suspects: pa.Table, kept: pa.Table, counted: Duplicates) -> Iterator[Duplicates]:
    """What was counted, with a file of the suspects that are not kept."""
    if counted.duplicates:
        yield replace(counted, files=(_stored(search, _without(suspects, kept).select(EVENTS.names)),))
    elif counted.displaced:
        yield counted


def _without(events: pa.Table, others: pa.Table) -> pa.Table:
    """The events that are not among others, by position."""
    numbered = events.select(EVENTS.names).append_column(_ROW, pa.array(np.arange(events.num_rows)))
    left = numbered.join(others.select(EVENTS.names), keys=EVENTS.names, join_type="left anti", use_threads=False)
    return events.take(left[_ROW])


def _stored(search: Search, table: pa.Table) -> str:
    """A scratch file of the table, which has rows."""
    file = TableFile(search.scratch, table.schema)
    with file:
        file.write(table)
    assert file.written is not None
    return file.written.path


def _read_hashes(search: Search, files: Sequence[str]) -> Hashes:
    """The hashes of scratch files, sorted."""
    scratch = search.scratch.file_system()
    tables = [pq.read_table(file, filesystem=scratch, use_threads=False) for file in files]
    hashes: Hashes = np.sort(pa.concat_tables(tables)["hash"].to_numpy())
    return hashes


def _hashed(events: pa.Table, columns: Sequence[str]) -> Hashes:
    """A hash per event of its identity and event time; equal values have equal hashes wherever they are computed."""
    names = ", ".join(engine.quoted(name) for name in columns)
    hashes: Hashes = engine.query(f"SELECT hash({names}) AS h FROM {_TABLE}", {_TABLE: events})["h"].to_numpy()
    engine.take_back(_TABLE)
    return hashes
