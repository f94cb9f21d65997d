"""Find the positions of duplicate events, exactly, over all history, in bounded memory.

1. Hashes. Duplicates have equal 64-bit hashes of identity and event time (of identity alone, if it spans any time), which the
   files of the events have (`ledger/files/identity_hashes.py`). Only hashes are compared, eight bytes an event. If no hash
   occurs twice, no event is a duplicate: equal identities have equal hashes. The driver reads and sorts up to 16 million
   hashes of files, or up to 4 million that tasks compute; more are shuffled into buckets that sort them.
2. Suspects. The few events whose hash occurs twice are shuffled whole, by hash, and the kernel's `deduplicate` decides among
   them. It also separates different events whose hashes are equal by chance.

If the suspects are few, and all history is folded, step 2 is a part of the fold, which reads the events anyway
(`Duplicates.suspects`, `batch/fold/suspects.py`).

If only the newest range of the log is searched, hashes of the history are not shuffled: each task compares its part of the
history with the hashes of the new events, and returns the few events that match.

Both steps read in pieces and keep only what differs, so an event that was sent a million times costs no more than an event that
was sent twice.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from tandem.batch.fold.dropped_positions import contained
from tandem.batch.runtime import spark_jobs
from tandem.batch.runtime.parquet_writer import TableFile
from tandem.ledger.delta.location import Location, opened
from tandem.ledger.files.file_ranges import EVENTS
from tandem.ledger.files.identity_hashes import IdentityHash
from tandem.ledger.files.scan import scan, stored, within
from tandem.ledger.files.splits import Slice
from tandem.views.arrow.arrays import from_ipc, to_ipc
from tandem.views.kernel import kernel
from tandem.views.kernel.deduplicate import contents
from tandem.views.project import project
from tandem.views.source.offset_ranges import Ranges
from tandem.views.source.source import Source, events_schema, position_columns

Hashes = npt.NDArray[np.uint64]
Piece = TypeVar("Piece", bound=Sized)

HASHES: Final = 8_000_000
"""About how many hashes one bucket sorts in memory."""
EVENTS_HELD: Final = 500_000
"""About how many whole events one bucket compares in memory."""
STORED_HASHES: Final = 16_000_000
"""The most hashes that the driver reads from files of events, 8 bytes each."""
DRIVER_HASHES: Final = 4_000_000
"""The most hashes that the driver takes from tasks, and sorts; more are shuffled."""
FEW_SUSPECTS: Final = 100_000
"""The most suspects that the fold sets aside: each task that merges compares all of them."""

_READERS: Final = 4
_SCAN_ROWS: Final = 1 << 20
_MOST_BITS: Final = 22
"""A filter of as many slots is 4 MB, which a processor's cache holds."""
_ROW: Final = "_row"


@dataclass(frozen=True)
class Search:
    """What a task needs: the release's files, the name of the source, and the locations of events and scratch files.

    `generations` are the ids of the source's topics, the oldest first. `searched` are the offsets to search, None for all; events
    outside were searched by an earlier run.
    """

    definitions: Mapping[str, bytes] = field(hash=False)
    source: str
    events: Location
    scratch: Location
    generations: tuple[str, ...] = ()
    searched: Ranges | None = None


@dataclass(frozen=True)
class RepeatedHashes:
    """What a search found: scratch `files` list the positions to drop.

    Args:
        suspects: scratch files of hashes; of the events with these the fold has to decide which are duplicates. The numbers
            do not include them.
        duplicates: the number of events to drop.
        conflicts: how many of them have a content that differs from the event that counts.
        displaced: counted events of the history that a new duplicate precedes in log order.
        contested: displaced events whose content differs from that duplicate's.
    """

    files: tuple[str, ...] = ()
    duplicates: int = 0
    conflicts: int = 0
    suspects: tuple[str, ...] = ()
    displaced: int = 0
    contested: int = 0


@dataclass(frozen=True)
class Repeated:
    """A scratch file of the hashes of one bucket that occur more than once, and the number of events with them."""

    file: str
    events: int


@dataclass(frozen=True)
class _HistoryMatches:
    """A scratch file of events of the history whose hashes new events have, too, and a scratch file of these hashes."""

    events: str
    hashes: Repeated


def find(
    session: SparkSession,
    search: Search,
    slices: Sequence[Slice],
    *,
    history: Sequence[Slice] = (),
    parallelism: int,
    undecided: bool = False,
) -> RepeatedHashes:
    """Find the duplicates among the events of the slices, and those that repeat events of the history.

    With `undecided`, few suspects are left to the fold, and returned as `Duplicates.suspects`. Raises TaskFailed, Unreadable.
    """
    found = _compared_hashes(session, search, slices, parallelism)
    repeated = [one for one in found if isinstance(one, Repeated)]
    new = tuple(one for one in found if isinstance(one, str))
    matches = [one for one in spark_jobs.each(session, partial(_history_matches, search, new), history) if one] if new else []
    repeated += [one.hashes for one in matches]
    if not repeated:
        return RepeatedHashes()
    files, events = tuple(one.file for one in repeated), sum(one.events for one in repeated)
    if undecided and events <= FEW_SUSPECTS:
        return RepeatedHashes(suspects=files)
    buckets = max(parallelism, ceil(events / EVENTS_HELD))
    suspects = [*slices, *(one.events for one in matches)]
    decided = spark_jobs.each_then(
        session, partial(suspects_of, search, files, buckets), partial(judged, search), suspects, buckets
    )
    return RepeatedHashes(
        files=tuple(file for one in decided for file in one.files),
        duplicates=sum(one.duplicates for one in decided),
        conflicts=sum(one.conflicts for one in decided),
        displaced=sum(one.displaced for one in decided),
        contested=sum(one.contested for one in decided),
    )


def hashes_of_copies(session: SparkSession, search: Search, slices: Sequence[Slice], parallelism: int) -> list[Repeated]:
    """The hashes that more than one event of the slices has. Raises TaskFailed, Unreadable."""
    compared = _compared_hashes(session, search, slices, parallelism)
    return [each for each in compared if isinstance(each, Repeated)]


def _compared_hashes(
    session: SparkSession, search: Search, slices: Sequence[Slice], parallelism: int
) -> Sequence[Repeated | str]:
    """What `repeated_hashes` finds among the events of all slices. Raises TaskFailed, Unreadable."""
    rows = sum(part.rows for part in slices)
    if rows <= STORED_HASHES and (stored_ones := _stored_hashes(search, slices)) is not None:
        parts = by_value(stored_ones, max(1, ceil(rows / HASHES)))
        return [one for part in parts for one in repeated_hashes(search, part)]
    if rows <= DRIVER_HASHES:
        pieces = spark_jobs.each(session, partial(_slice_hashes, search), slices)
        return [*repeated_hashes(search, filter(None, pieces))]
    buckets = max(parallelism, ceil(rows / HASHES))
    return spark_jobs.each_then(session, partial(_hashes, search, buckets), partial(repeated_hashes, search), slices, buckets)


def _stored_hashes(search: Search, slices: Sequence[Slice]) -> list[bytes] | None:
    """The sorted hashes of each slice, read in this process; None if some file of them has no hashes. Raises Unreadable."""
    name = _identity_hash(search).name
    with ThreadPoolExecutor(_READERS) as readers:
        if not all(one.result() for one in [readers.submit(stored, search.events, part, name) for part in slices]):
            return None
        return [one.result() for one in [readers.submit(_slice_hashes, search, part) for part in slices]]


def by_value(pieces: Sequence[bytes], parts: int) -> Iterator[Iterator[bytes]]:
    """Sorted pieces, divided: equal hashes are in the same part, and the parts are about equally large, as hashes are random."""
    arrays = [np.frombuffer(piece, np.uint64) for piece in pieces]
    bounds = [number * (1 << 64) // parts for number in range(1, parts)]
    edges = [[0, *np.searchsorted(array, np.array(bounds, np.uint64)), len(array)] for array in arrays]
    for part in range(parts):
        yield (array[edge[part] : edge[part + 1]].tobytes() for array, edge in zip(arrays, edges, strict=True))


def _slice_hashes(search: Search, part: Slice) -> bytes:
    """The hashes of a slice's events, sorted."""
    pieces = [hashes for hashes, _ in _hashed(search, part)]
    return np.sort(np.concatenate([np.empty(0, np.uint64), *pieces])).tobytes()


def _hashed(
    search: Search, part: Slice, columns: Sequence[str] = (), *, rows: int = _SCAN_ROWS
) -> Iterator[tuple[Hashes, pa.Table]]:
    """The hashes of a slice's events, and these columns of them."""
    made = _identity_hash(search)
    for events in scan(search.events, part, EVENTS, columns, rows=rows, made=made):
        yield events[made.name].to_numpy(), events.select(columns)


def _identity_hash(search: Search) -> IdentityHash:
    found = IdentityHash.of_source(project.load_files(search.definitions).sources[search.source])
    assert found is not None, "only sources with an identity are searched"
    return found


def _hashes(search: Search, buckets: int, part: Slice) -> Iterator[tuple[int, bytes]]:
    """The hashes of a slice's events, by bucket."""
    for found, _ in _hashed(search, part):
        hashes = np.sort(found)
        places = hashes % np.uint64(buckets)
        order = np.argsort(places, kind="stable")
        there, starts = np.unique(places[order], return_index=True)
        for bucket, some in zip(there.tolist(), np.split(hashes[order], starts[1:]), strict=True):
            yield bucket, some.tobytes()


def repeated_hashes(search: Search, pieces: Iterator[bytes]) -> Iterator[Repeated | str]:
    """The hashes of a bucket that occur more than once; for a search with a history also a scratch file of the other hashes.

    Pieces are sorted hashes.
    """
    once = often = np.empty(0, np.uint64)
    events = 0
    for some in _bundled((np.frombuffer(piece, np.uint64) for piece in pieces), HASHES):
        events += sum(map(len, some))
        # A stable sort takes less time for pieces that are sorted each, as these are.
        hashes = np.sort(np.concatenate([once, *some]), kind="stable")
        again = np.zeros(len(hashes), dtype=bool)
        again[1:] = hashes[1:] == hashes[:-1]
        often = np.union1d(often, hashes[again])
        once = hashes[~again]
    if len(often):
        yield Repeated(_stored(search, pa.table({"hash": often})), events - len(once) + len(often))
    if search.searched is not None and len(once):
        yield _stored(search, pa.table({"hash": once}))


def _history_matches(search: Search, new: Sequence[str], part: Slice) -> _HistoryMatches | None:
    """The events of a slice of the history whose hash is among those of the new events."""
    source = project.load_files(search.definitions).sources[search.source]
    among = read_hashes(search.scratch, new)
    common = np.empty(0, np.uint64)
    for hashes, _ in _hashed(search, part):
        common = np.union1d(common, hashes[found_among(hashes, among)])
    if not len(common):
        return None
    chosen = [
        events.filter(pa.array(found_among(hashes, common)))
        for hashes, events in _hashed(search, part, events_schema(source).names, rows=_SCAN_ROWS // 4)
    ]
    events = pa.concat_tables(chosen)
    # As many new events as old ones may match: the number of buckets allows for both.
    return _HistoryMatches(_stored(search, events), Repeated(_stored(search, pa.table({"hash": common})), 2 * events.num_rows))


def suspects_of(search: Search, files: Sequence[str], buckets: int, part: Slice | str) -> Iterator[tuple[int, bytes]]:
    """The whole events of a slice, or of a scratch file, whose hash occurs more than once, by bucket."""
    often = read_hashes(search.scratch, files)
    for hashes, events in _events(search, part):
        suspect = found_among(hashes, often)
        chosen, places = events.filter(pa.array(suspect)), hashes[suspect] % np.uint64(buckets)
        for bucket in np.unique(places).tolist():
            yield bucket, to_ipc(chosen.filter(pa.array(places == bucket)))


def _events(search: Search, part: Slice | str) -> Iterator[tuple[Hashes, pa.Table]]:
    """Whole events with their hashes."""
    source = project.load_files(search.definitions).sources[search.source]
    if isinstance(part, Slice):
        yield from _hashed(search, part, events_schema(source).names, rows=_SCAN_ROWS // 4)
    else:
        events = opened(search.scratch, part).read(use_threads=False).cast(events_schema(source))
        yield _identity_hash(search).made(events).to_numpy(), events


def judged(search: Search, pieces: Iterator[bytes]) -> Iterator[RepeatedHashes]:
    """Decide which of a bucket's suspects are duplicates, of the searched ones; the others are the events that they repeat."""
    source = project.load_files(search.definitions).sources[search.source]
    first = partial(kernel.deduplicate, source, generations=search.generations)
    before = fresh = events_schema(source).empty_table()
    old = both = contents(source, before)
    duplicates = 0
    place = list(position_columns(source))
    file = TableFile(search.scratch, before.select(place).schema)
    with file:
        for some in _bundled(map(from_ipc, pieces), EVENTS_HELD):
            suspects = pa.concat_tables(some).combine_chunks()
            history, new = _parted(suspects, search.searched)
            both = contents(source, pa.concat_tables([both, suspects.select(both.column_names)]))
            old = contents(source, pa.concat_tables([old, history.select(old.column_names)]))
            before = first(pa.concat_tables([before, history]).combine_chunks()).events
            candidates = pa.concat_tables([fresh, new]).combine_chunks()
            result = first(candidates)
            file.write(_without(source, candidates, result.events).select(place))
            fresh, duplicates = result.events, duplicates + result.duplicates
        kept = first(fresh, before)
        file.write(_without(source, fresh, kept.events).select(place))
    winners = first(pa.concat_tables([before, fresh]).combine_chunks()).events
    displaced = _without(source, before, winners)
    if file.written is not None or displaced.num_rows:
        yield RepeatedHashes(
            files=() if file.written is None else (file.written.path,),
            duplicates=duplicates + kept.duplicates,
            conflicts=both.num_rows - winners.num_rows - (old.num_rows - before.num_rows),
            displaced=displaced.num_rows,
            contested=first(pa.concat_tables([displaced, winners]).combine_chunks()).conflicts,
        )


def _parted(suspects: pa.Table, searched: Ranges | None) -> tuple[pa.Table, pa.Table]:
    """The events that an earlier run searched, and the others."""
    if searched is None:
        return suspects.slice(0, 0), suspects
    new = within(suspects, EVENTS, searched)
    return suspects.filter(pc.invert(new)), suspects.filter(new)


def _without(source: Source, events: pa.Table, others: pa.Table) -> pa.Table:
    """The events without those others, by position."""
    place = list(position_columns(source))
    numbered = events.select(place).append_column(_ROW, pa.array(np.arange(events.num_rows)))
    left = numbered.join(others.select(place), keys=place, join_type="left anti", use_threads=False)
    return events.take(left[_ROW])


def _stored(search: Search, table: pa.Table) -> str:
    """Write a table that has rows to a scratch file; returns its path."""
    file = TableFile(search.scratch, table.schema)
    with file:
        file.write(table)
    assert file.written is not None
    return file.written.path


def read_hashes(scratch: Location, files: Sequence[str]) -> Hashes:
    """Read the hashes of scratch files, sorted."""
    tables = [opened(scratch, file).read(use_threads=False) for file in files]
    hashes: Hashes = np.sort(pa.concat_tables(tables)["hash"].to_numpy())
    return hashes


def found_among(hashes: Hashes, others: Hashes) -> npt.NDArray[np.bool_]:
    """Per hash, whether it is among sorted others.

    A filter by the first bits leaves few hashes to search for. Most of a log is new: to search for all costs seven times as much.
    """
    slots = min(_MOST_BITS, 4 + len(others).bit_length())
    first = np.uint64(64 - slots)
    taken = np.zeros(1 << slots, dtype=bool)
    taken[others >> first] = True
    rows = np.flatnonzero(taken[hashes >> first])
    found = np.zeros(len(hashes), dtype=bool)
    found[rows] = contained(hashes[rows], others)
    return found


def _bundled(pieces: Iterable[Piece], most: int) -> Iterator[list[Piece]]:
    """Bundle pieces into lists of at least `most` items in all; the last list may have fewer."""
    bundle: list[Piece] = []
    for piece in pieces:
        bundle.append(piece)
        if sum(map(len, bundle)) >= most:
            yield bundle
            bundle = []
    if bundle:
        yield bundle
