"""The states of a view: those of its batch versions, read without Spark, and those of realtime commits, as merged runs.

delta-rs lists the files of the version and Arrow reads them, so that an object store works like a folder.

A run is more than twice as large as the next, so that adding a commit merges few states however long the tail is, and a lookup
of one key filters a handful of tables. A merged partial cannot be split: a run that no longer starts at the cut, or no longer
ends where a commit ends, is folded again from the commits.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from tandem.infra.storage.storage import Storage
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.delta_tables import storage
from tandem.ledger.delta.errors import unreadable
from tandem.ledger.files.group_bounds import Bounds, FileBounds, file_bounds
from tandem.ledger.hash_slots import EVERY, SLOTS, slot_columns, slot_of, slots_in, slots_of
from tandem.ledger.log.positions import Position
from tandem.ledger.publish.batch_parts import BatchPart, PartFile, files_of, still_live
from tandem.ledger.realtime.commits import Commit
from tandem.ledger.stored_states import row_groups, several
from tandem.serving.read.selection import Selection
from tandem.views.arrow import arrays
from tandem.views.arrow.arrays import from_ipc
from tandem.views.composite.current_rows import VALID_FROM
from tandem.views.kernel.kernel import Partial, merge, roll
from tandem.views.view import View, bind, shared_columns, state_schema
from tandem.views.windows import WINDOW_COLUMNS

ROOM: Final = 64 * 2**20
"""The default bytes of memory for what was read of files."""
PIECE: Final = 8 * 2**20
_ROW_BYTES: Final = 16
"""The bytes in files of states that are made into rows at once, and the least that each counts. The fold's files have as many."""
_OWN_BYTES: Final = 4096
"""About the bytes of an entry besides its states: of a single row these are most."""


@dataclass
class Reads:
    """What was read of files of batch versions: files opened, their footers, row groups, and the bytes of these."""

    files: int = 0
    footers: int = 0
    groups: int = 0
    bytes: int = 0


@dataclass
class ReadCache:
    """What was read of files, at most `room` bytes of it: the least recently used goes; `piece` as PIECE. For one thread.

    Files never change, and no other file ever has a name again. So an entry is never wrong, only useless.
    """

    room: int = ROOM
    piece: int = PIECE
    reads: Reads = field(default_factory=Reads)
    _entries: OrderedDict[Hashable, tuple[Any, int]] = field(default_factory=OrderedDict, init=False, repr=False)
    _bytes: int = field(default=0, init=False, repr=False)

    @property
    def nbytes(self) -> int:
        """About the bytes of memory that it uses."""
        return self._bytes

    def has_room_for(self, compressed: int) -> bool:
        """Whether a part of this size in files can be kept as a whole beside others."""
        return compressed <= self.room // 4

    def get(self, place: Hashable) -> Any:
        """What is kept under this; None without."""
        if place in self._entries:
            self._entries.move_to_end(place)
            return self._entries[place][0]
        return None

    def put(self, place: Hashable, value: Any, nbytes: int) -> None:
        """Keep something of this many bytes, if there is room for it."""
        if (before := self._entries.pop(place, None)) is not None:
            self._bytes -= before[1]
        self._entries[place] = value, nbytes + _OWN_BYTES
        self._bytes += nbytes + _OWN_BYTES
        while self._bytes > self.room:
            _, (_, gone) = self._entries.popitem(last=False)
            self._bytes -= gone


@dataclass
class BatchStates:
    """The live states of a view's table, in no particular order.

    A published part never changes (maintenance may rewrite its files, never its rows). Small parts are kept whole as far as there
    is room. Of a larger part a question about one key reads one row group of each file that may have it, and the key's states are
    kept; any other question filters the row groups that it needs as they are read.
    """

    tables: Tables
    address: str
    view: View
    cache: ReadCache
    _parts: dict[BatchPart, tuple[DeltaTable, list[PartFile]]] = field(default_factory=dict, init=False, repr=False)

    def read(self, parts: Sequence[BatchPart], selection: Selection, slots: range = EVERY) -> pa.Table:
        """The selected states of the parts of a publication, those of some hash slots. Raises Unreadable."""
        self._parts = {part: files for part, files in self._parts.items() if part in parts}
        states = [pa.Table.from_batches([], self._schema)]
        for number, part in enumerate(parts):
            states.append(still_live(self._part(part, selection, slots), parts[number + 1 :]))
        return pa.concat_tables(states)

    def pieces(self, parts: Sequence[BatchPart]) -> list[range]:
        """Ranges of all slots of whose states one after the other fits in memory. Raises Unreadable."""
        size = sum(max(_ROW_BYTES * file.rows, file.size) for part in parts for file in self._files(part)[1])
        width = SLOTS >> min(SLOTS.bit_length() - 1, (max(1, size // self.cache.piece) - 1).bit_length())
        return [range(first, first + width) for first in range(0, SLOTS, width)]

    @property
    def _schema(self) -> pa.Schema:
        return state_schema(self.view)

    def _part(self, part: BatchPart, selection: Selection, slots: range) -> pa.Table:
        place = self._place(part, selection) if slots == EVERY else None
        if place is not None and (kept := self.cache.get(place)) is not None:
            return kept
        try:
            try:
                states = self._read(part, selection, slots)
            except FileNotFoundError:  # maintenance rewrote the files after the log was read
                self._parts.pop(part, None)
                states = self._read(part, selection, slots)
        except (OSError, pa.ArrowException) as error:
            unreadable(self.address, error)
        if place is not None and not self._small(part):
            self.cache.put(place, states, states.nbytes)
        return states

    def _place(self, part: BatchPart, selection: Selection) -> Hashable:
        """The question about the states of one key, as what it is kept under; None for any other question."""
        if selection.keys.keys() != self.view.keys.keys() or selection.among is not None or selection.at is not None:
            return None
        values = tuple(value.as_py() for value in selection.keys.values())
        return (self.address, part, tuple(selection.keys), values, selection.start, selection.end, selection.reach)

    def _files(self, part: BatchPart) -> tuple[DeltaTable, list[PartFile]]:
        if part not in self._parts:
            self._parts[part] = files_of(self.tables, self.address, part)
        return self._parts[part]

    def _small(self, part: BatchPart) -> bool:
        """Whether all row groups of the part that are read are kept."""
        return self.cache.has_room_for(sum(file.size for file in self._files(part)[1]))

    def _read(self, part: BatchPart, selection: Selection, slots: range) -> pa.Table:
        handle, files = self._files(part)
        place, wanted, small = storage(handle), slots_for(self.view, selection), self._small(part)
        tables = [pa.Table.from_batches([], self._schema)]
        for file in files:
            there = slots_in(file.path)
            if max(there.start, slots.start) < min(there.stop, slots.stop) and (
                wanted is None or any(slot in there for slot in wanted)
            ):
                states = (selection.filter(some) for some in self._row_groups(place, file.path, selection, small=small))
                inside = slots.start <= there.start and there.stop <= slots.stop
                tables += states if inside else (in_slots(self.view, some, slots) for some in states)
        return pa.concat_tables(tables)

    def _row_groups(self, place: Storage, path: str, selection: Selection, *, small: bool) -> Iterator[pa.Table]:
        """The row groups of a file that may have selected states."""
        bounds, opened = self._bounds(place, path)
        needed = groups_for(bounds, selection)
        for some in ([group] for group in needed) if small else several(bounds.footer, needed):
            kept = self.cache.get((self.address, path, some[0])) if small else None
            if kept is None:
                if opened is None:
                    opened = self._open(place, path, bounds.footer)
                kept = row_groups(opened, some, self._schema)
                self.cache.reads.groups += len(some)
                self.cache.reads.bytes += sum(_compressed(bounds.footer, group) for group in some)
                if small:
                    self.cache.put((self.address, path, some[0]), kept, kept.nbytes)
            yield kept

    def _bounds(self, place: Storage, path: str) -> tuple[FileBounds, pq.ParquetFile | None]:
        """The bounds of a file's row groups, and the file if it was opened for that."""
        kept: FileBounds | None = self.cache.get((self.address, path))
        if kept is not None:
            return kept, None
        opened = self._open(place, path, None)
        bounds = file_bounds(opened.metadata, [*self.view.keys, WINDOW_COLUMNS[0], VALID_FROM])
        self.cache.reads.footers += 1
        self.cache.reads.bytes += int(opened.metadata.serialized_size)
        self.cache.put((self.address, path), bounds, bounds.nbytes)
        return bounds, opened

    def _open(self, place: Storage, path: str, footer: pq.FileMetaData | None) -> pq.ParquetFile:
        self.cache.reads.files += 1
        # Buffered: one request for neighbouring columns.
        return pq.ParquetFile(place.open(path), metadata=footer, pre_buffer=True, page_checksum_verification=True)


def in_slots(view: View, states: pa.Table, slots: range) -> pa.Table:
    """The states of these hash slots."""
    if slots == EVERY:
        return states
    of = slots_of(states, slot_columns(view))
    return states.filter(arrays.booleans((of >= slots.start) & (of < slots.stop)))


def _compressed(footer: pq.FileMetaData, group: int) -> int:
    columns = footer.row_group(group)
    return sum(columns.column(place).total_compressed_size for place in range(columns.num_columns))


def groups_for(file: FileBounds, selection: Selection) -> list[int]:
    """The row groups of a file that may have selected states: what is read is filtered by the selection."""
    groups = [*range(file.footer.num_row_groups)]
    for name, value in selection.keys.items():
        bounds, wanted = file.bounds.get(name), value.as_py()
        groups = groups if bounds is None else [group for group in groups if bounds[group].may_have(wanted)]
    if selection.among is not None:
        columns = [file.bounds.get(name) for name in selection.among.columns]
        groups = [group for group in groups if any(_may_have(columns, group, key) for key in selection.among.keys)]
    starts = file.bounds.get(WINDOW_COLUMNS[0])
    if starts is not None and selection.reach is not None:
        groups = [group for group in groups if _may_start(starts[group], selection)]
    valid = file.bounds.get(VALID_FROM)
    if valid is not None and selection.at is not None:
        groups = [group for group in groups if valid[group].low is None or valid[group].low <= selection.at]
    return groups


def _may_have(columns: Sequence[Sequence[Bounds] | None], group: int, key: tuple[Any, ...]) -> bool:
    return all(bounds is None or bounds[group].may_have(value) for bounds, value in zip(columns, key, strict=True))


def _may_start(bounds: Bounds, selection: Selection) -> bool:
    """Whether a window of the row group may start when selected states do."""
    start, end, reach = selection.start, selection.end, selection.reach
    if bounds.low is None or reach is None:
        return True
    # Not the end and the reach together, which may lie beyond the calendar.
    return (start is None or bounds.high >= start) and (end is None or reach > timedelta(0) or bounds.low < end)


def slots_for(view: View, selection: Selection) -> frozenset[int] | None:
    """The slots that selected states of a view may be in; None for any."""
    columns, schema = shared_columns(view), state_schema(view)
    windows = _window(view, selection) if WINDOW_COLUMNS[0] in columns else ()
    names = [*view.keys]
    if windows is None or columns[: len(names)] != names or columns[len(names) :] not in ([], [*WINDOW_COLUMNS]):
        return None
    types = [schema.field(name).type for name in columns]
    if selection.keys.keys() == view.keys.keys():
        keys = [tuple(selection.keys[name].as_py() for name in names)]
    elif selection.among is not None and [*selection.among.columns] == names:
        keys = [*selection.among.keys]
    else:
        return None
    return frozenset(slot_of(types, (*key, *windows)) for key in keys)


def _window(view: View, selection: Selection) -> tuple[Any, ...] | None:
    """The bounds of the only window that a selection takes; None for several, or where that is unknown."""
    timing = bind(view).placement.timing
    if not timing.bounded:
        return (None, None)
    start, end = selection.start, selection.end
    if start is None or end is None or timing.slice_at is None or selection.reach != timedelta(0):
        return None
    first = timing.slice_at(start)
    return first if first[0] == start and end <= first[1] else None


def states_in(handle: DeltaTable, path: str, schema: pa.Schema) -> Iterator[pa.Table]:
    """The states of one file of a view's table, in pieces."""
    # Not pyarrow.dataset: importing it imports pandas.
    with storage(handle).open(path) as opened:
        file = pq.ParquetFile(opened, page_checksum_verification=True)
        for groups in several(file.metadata):
            yield row_groups(file, groups, schema)


def states_of(tables: Tables, release: int, view: View, fingerprint: str, commit: Commit) -> pa.Table:
    """The commit's states of the view, which it has under that fingerprint. Raises Unreadable if they are missing or damaged."""
    try:
        return roll(view, from_ipc(commit.partials[fingerprint]))
    except (KeyError, pa.ArrowException) as error:
        unreadable(f"{tables.realtime(release, view.source.name)}: [{commit.start}, {commit.end})", error)


@dataclass(frozen=True)
class MergedCommits:
    """The merged partial of the commits that tile `[start, end)`."""

    start: Position
    end: Position
    partial: Partial


Runs = tuple[MergedCommits, ...]
Decode = Callable[[Commit], Partial]


def follow(view: View, held: Runs, commits: Sequence[Commit], decode: Decode) -> Runs:
    """The runs of a chain of commits, which tile a range in order; those of `held` that fall on its boundaries are reused.

    Only commits past the reused runs are decoded.
    """
    runs = _reusable(held, commits)
    done = next((n for n, commit in enumerate(commits, 1) if runs and commit.end == runs[-1].end), 0)
    for commit in commits[done:]:
        runs = _append(view, runs, MergedCommits(commit.start, commit.end, decode(commit)))
    return runs


def _reusable(held: Runs, commits: Sequence[Commit]) -> Runs:
    """The longest prefix of the cached runs that starts where the chain starts and ends where one of its commits ends."""
    if not held or not commits or held[0].start != commits[0].start:
        return ()
    ends = {commit.end for commit in commits}
    return held[: next((n for n in range(len(held), 0, -1) if held[n - 1].end in ends), 0)]


def _append(view: View, runs: Runs, run: MergedCommits) -> Runs:
    """The runs with one more, merged into its predecessors while they are at most twice as large."""
    while runs and runs[-1].partial.states.num_rows <= 2 * run.partial.states.num_rows:
        run = MergedCommits(runs[-1].start, run.end, merge(view, [runs[-1].partial, run.partial]))
        runs = runs[:-1]
    return (*runs, run)
