"""States of a table's versions in files sorted by a hash of the table's key, so that a look-up reads only those of its keys.

The files of a batch view have no order of keys. So a process that looks up in more states than fit in its memory writes them
once in this order, and maps the file. The system's page cache then holds what is looked up often, for all processes of the
machine.

The hash only finds candidates: states of other keys with an equal hash are read, too; the look-up compares the keys themselves.
"""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Final
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.ipc

from tandem.infra.storage.local import Local
from tandem.ledger.delta.errors import FAILURES, Unwritable, reason, unreadable
from tandem.ledger.delta.location import Location
from tandem.views.arrow import arrays
from tandem.views.composite.current_rows import VALID_FROM
from tandem.views.kernel.kernel import merge_states
from tandem.views.kernel.partial import no_states
from tandem.views.sql import engine
from tandem.views.view import View, state_schema

Hashes = npt.NDArray[np.uint64]

_HASH: Final = "_hash"
_KEYS: Final = "_keys"
_PIECES: Final = 64
"""Ranges of hashes that are merged one after the other."""
_PIECE_BYTES: Final = 64 << 20
"""The most states that are merged at once; more are merged in `_PIECES` ranges."""
_BATCH_ROWS: Final = 8_192
_COPY_BYTES: Final = 8 << 20


@dataclass(frozen=True)
class StatesByKey:
    """A file of merged states, in the order of the hashes of their keys; `place` is a folder, or below a table's root."""

    place: Location
    path: str
    rows: int

    def delete(self) -> None:
        """Delete the file; a process that has mapped it goes on."""
        self.place.storage().delete([self.path])


@dataclass(frozen=True)
class _Map:
    """The batches of a mapped file, and the first and the last hash of each."""

    schema: pa.Schema
    batches: Sequence[pa.RecordBatch]
    firsts: Hashes
    lasts: Hashes


_MAPS: Final[dict[StatesByKey, _Map]] = {}
"""The files that this process has mapped."""


def key_hashes(keys: pa.Table) -> Hashes:
    """The hash of each row: equal rows have equal hashes, in all processes with one version of DuckDB."""
    columns = ", ".join(map(engine.quoted, keys.column_names))
    hashes: Hashes = engine.query(f"SELECT hash({columns}) AS {_HASH} FROM {_KEYS}", {_KEYS: keys})[_HASH].to_numpy()
    return hashes


def in_order(view: View, states: pa.Table) -> pa.Table:
    """The states with the hash of their key, in the order of the hashes."""
    hashes = key_hashes(states.select([name for name in view.keys if name != VALID_FROM]))
    order = np.argsort(hashes, kind="stable")
    column = arrays.from_numpy(hashes[order], pa.uint64())
    return states.take(arrays.from_numpy(order.astype(np.int64), pa.int64())).append_column(_HASH, column).combine_chunks()


def write(view: View, states: Iterable[pa.Table], place: Location, scratch: Path) -> StatesByKey:
    """Merge states of the view, and write them in order; `scratch` is a folder of this machine.

    Memory has one table of `states`, and 64 MiB or a 64th of all states. Raises Unwritable, and what `states` raises.
    """
    path, rows = f"{uuid4().hex}.arrow", 0
    try:
        with (
            TemporaryDirectory(dir=scratch) as folder,
            place.storage().create(path) as upload,
            pa.ipc.new_file(upload.stream, _schema(view)) as file,
        ):
            for some in _pieces(view, iter(states), Path(folder)):
                merged = merge_states(view, some)
                file.write_table(in_order(view, merged), max_chunksize=_BATCH_ROWS)
                rows += merged.num_rows
    except FAILURES as error:
        raise Unwritable(f"cannot write the states of {view.name} to {place.address}: {reason(error)}") from error
    return StatesByKey(place, path, rows)


def of_keys(states: pa.Table, hashes: Hashes) -> pa.Table:
    """The states whose hash is among `hashes`, which are sorted and distinct; `states` are in the order of their hashes."""
    return pa.Table.from_batches([_matching(batch, hashes) for batch in states.to_batches()], states.schema)


def load_keys(file: StatesByKey, hashes: Hashes) -> pa.Table:
    """The states of a file whose hash is among `hashes`, which are sorted and distinct; in order. Raises Unreadable."""
    there = _map_of(file)
    # The batches that may have a hash are neighbours, and both bounds grow with the hash.
    begins, ends = np.searchsorted(there.lasts, hashes, "left"), np.searchsorted(there.firsts, hashes, "right")
    touched = np.zeros(len(there.batches) + 1, np.int64)
    np.add.at(touched, begins[begins < ends], 1)
    np.add.at(touched, ends[begins < ends], -1)
    some = [
        _matching(there.batches[n], hashes[np.searchsorted(ends, n, "right") : np.searchsorted(begins, n, "right")])
        for n in np.flatnonzero(np.cumsum(touched)).tolist()
    ]
    return pa.Table.from_batches(some, there.schema)


def unite(view: View, tables: Sequence[pa.Table]) -> pa.Table:
    """Merge tables of merged states, each in the order of hashes; only states with a hash that several have are merged again."""
    some = [table for table in tables if table.num_rows]
    hashes = [_hashes(table) for table in some]
    distinct = np.sort(np.concatenate([each[np.diff(each, prepend=~each[:1]) != 0] for each in hashes] or [np.empty(0)]))
    shared = distinct[1:][distinct[1:] == distinct[:-1]]
    alone = some
    if len(shared):
        apart = [np.isin(each, shared) for each in hashes]
        alone = [table.filter(arrays.booleans(~mask)) for table, mask in zip(some, apart, strict=True)]
        some = [table.filter(arrays.booleans(mask)) for table, mask in zip(some, apart, strict=True)]
        alone.append(in_order(view, merge_states(view, [table.drop_columns([_HASH]) for table in some])))
    return pa.concat_tables([no_states(view), *(table.drop_columns([_HASH]) for table in alone)]).combine_chunks()


def load_all(file: StatesByKey) -> Iterator[pa.Table]:
    """All states of a file, some at a time. Raises Unreadable."""
    for batch in _map_of(file).batches:
        yield pa.Table.from_batches([batch]).drop_columns([_HASH])


def _schema(view: View) -> pa.Schema:
    return state_schema(view).append(pa.field(_HASH, pa.uint64()))


def _pieces(view: View, states: Iterator[pa.Table], folder: Path) -> Iterator[list[pa.Table]]:
    """The states in ranges of their hashes, in order; no key is in two of them."""
    few, size = list[pa.Table](), 0
    for table in states:
        few.append(table)
        size += table.nbytes
        if size > _PIECE_BYTES:
            break
    else:
        yield few
        return
    bounds = np.arange(1, _PIECES, dtype=np.uint64) << np.uint64(58)
    with ExitStack() as stack:
        sinks: dict[Path, pa.RecordBatchWriter] = {}
        for table in chain(few, states):
            ordered = in_order(view, table)
            edges = [0, *np.searchsorted(_hashes(ordered), bounds).tolist(), ordered.num_rows]
            for number, (start, end) in enumerate(pairwise(edges)):
                path = folder / f"{number:02}"
                if end > start and path not in sinks:
                    sinks[path] = stack.enter_context(pa.ipc.new_stream(str(path), _schema(view)))
                if end > start:
                    sinks[path].write_table(ordered.slice(start, end - start))
        few.clear()
    for path in sorted(sinks):
        with pa.memory_map(str(path)) as mapped:
            yield [pa.ipc.open_stream(mapped).read_all().drop_columns([_HASH])]
        path.unlink()


def _hashes(rows: pa.Table | pa.RecordBatch) -> Hashes:
    column = rows.column(_HASH)
    whole = arrays.whole(column) if isinstance(column, pa.ChunkedArray) else column
    return arrays.integers(whole).view(np.uint64)


def _matching(batch: pa.RecordBatch, hashes: Hashes) -> pa.RecordBatch:
    """The rows of a batch in order whose hash is among these."""
    there = _hashes(batch)
    begins, ends = np.searchsorted(there, hashes, "left"), np.searchsorted(there, hashes, "right")
    counts = ends - begins
    rows = np.repeat(begins - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
    return batch.take(arrays.from_numpy(rows.astype(np.int64), pa.int64()))


def _map_of(file: StatesByKey) -> _Map:
    """The file, mapped at its first use. Raises Unreadable."""
    if file not in _MAPS:
        try:
            for other in [*_MAPS]:  # those of this place: another store may not answer, and concerns nobody here
                if other.place == file.place and other.place.storage().head(other.path) is None:
                    _MAPS.pop(other, None)
            _MAPS[file] = _map(file)
        except FAILURES as error:
            unreadable(f"{file.place.address}: {file.path}", error)
    return _MAPS[file]


def _map(file: StatesByKey) -> _Map:
    storage = file.place.storage()
    if isinstance(storage, Local):
        reader = pa.ipc.open_file(pa.memory_map(f"{storage.root}/{file.path}"))
    else:
        with NamedTemporaryFile() as copy, storage.open(file.path) as stream:
            shutil.copyfileobj(stream, copy, _COPY_BYTES)
            copy.flush()
            reader = pa.ipc.open_file(pa.memory_map(copy.name))  # the block deletes the name; the content stays mapped
    batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
    if (rows := sum(batch.num_rows for batch in batches)) != file.rows:
        raise ValueError(f"it has {rows} of {file.rows} rows")
    firsts = np.array([_hashes(batch)[0] for batch in batches], np.uint64)
    lasts = np.array([_hashes(batch)[-1] for batch in batches], np.uint64)
    return _Map(reader.schema, batches, firsts, lasts)
