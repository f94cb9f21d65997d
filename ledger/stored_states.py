"""Read states of a view from a table's files, and split them into the buckets of the tasks that merge them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tandem.ledger.delta.location import Location, opened
from tandem.ledger.publish.batch_parts import BatchPart, still_live
from tandem.views.arrow.arrays import to_ipc
from tandem.views.composite.dated import PIECE
from tandem.views.sql import engine
from tandem.views.view import View, state_schema
from tandem.views.windows import WINDOW_COLUMNS

_TABLE: Final = "states"
_PIECE_ROWS: Final = 1 << 17
_PIECE_BYTES: Final = 64 << 20


def stored(
    view: View, place: Location, path: str, later: Sequence[BatchPart], names: Iterable[str] | None = None
) -> Iterator[pa.Table]:
    """The states of a file of the view's table, some row groups at a time, without those that `later` parts replace.

    `names` are the columns to read, by default all; the window columns are always read.
    """
    schema = state_schema(view)
    if names is not None:
        needed = {*names, *WINDOW_COLUMNS}
        schema = pa.schema([field for field in schema if field.name in needed])
    with opened(place, path, verified=True) as file:
        for groups in several(file.metadata):
            yield still_live(row_groups(file, groups, schema), later)


def several(footer: pq.FileMetaData, among: Iterable[int] | None = None) -> Iterator[list[int]]:
    """Row groups of a file, by default all, as many at a time as are small together: each read costs, and so does each table."""
    groups, rows, size = list[int](), 0, 0
    for number in range(footer.num_row_groups) if among is None else among:
        group = footer.row_group(number)
        if groups and (rows + group.num_rows > _PIECE_ROWS or size + group.total_byte_size > _PIECE_BYTES):
            yield groups
            groups, rows, size = [], 0, 0
        groups.append(number)
        rows, size = rows + group.num_rows, size + group.total_byte_size
    if groups:
        yield groups


def row_groups(file: pq.ParquetFile, groups: Sequence[int], schema: pa.Schema) -> pa.Table:
    """Row groups with these columns of states. Files of a dated view may be older than some columns, which are NULL there."""
    there = schema.names
    if PIECE.name in there:
        there = [name for name in there if name in file.schema_arrow.names]
    states = file.read_row_groups(groups, there, use_threads=False)
    columns = [states[field.name] if field.name in there else pa.nulls(states.num_rows, field.type) for field in schema]
    return pa.Table.from_arrays(columns, names=schema.names).cast(schema)


def by_bucket(states: pa.Table, columns: Sequence[str], buckets: int) -> Iterator[tuple[int, bytes]]:
    """The states by bucket, as Arrow IPC: states that agree in these columns go to the same of N buckets."""
    if not states.num_rows:
        return
    shared = ", ".join(map(engine.quoted, columns)) or "NULL"
    found = engine.query(f"SELECT (hash({shared}) % {buckets})::INTEGER AS bucket FROM {_TABLE}", {_TABLE: states})
    bucket_of = found["bucket"].to_numpy()
    for bucket in np.unique(bucket_of).tolist():
        yield bucket, to_ipc(states.filter(pa.array(bucket_of == bucket)))
