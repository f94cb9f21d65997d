"""Write the states of a view as files of its table, so that a look-up reads one row group of one file.

Each file has the states of a range of hash slots, sorted by key. Row groups are small, and their statistics bound their keys.
"""

from collections.abc import Iterator
from math import ceil, log2
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tandem.batch.fold.fold_job import VERSION
from tandem.batch.runtime.parquet_writer import TableFile, Written
from tandem.ledger.delta.location import Location
from tandem.ledger.hash_slots import SLOTS, Slots, file_name, slot_columns, slots_of
from tandem.views.arrow import arrays
from tandem.views.view import View, group_columns, state_schema
from tandem.views.windows import WINDOW_COLUMNS

FILE_ROWS: Final = 1 << 19
FILE_BYTES: Final = 64 << 20
"""The most states of a file, and about the most bytes of them in memory: a question about all rows holds those of a file."""
GROUP_ROWS: Final = 1 << 13
GROUP_BYTES: Final = 1 << 20
"""The most states of a row group, which a look-up of one key reads, and about the most bytes of them in memory."""
_FEWEST: Final = 64


def write_states(
    place: Location, view: View, states: pa.Table, version: int, *, rows: int = FILE_ROWS, group_rows: int = GROUP_ROWS
) -> Iterator[Written]:
    """Write merged states of a batch version in files of about `rows` states; no file without states."""
    slots = slots_of(states, slot_columns(view))
    for part in _ranges(states, slots, rows):
        some = states.filter(arrays.booleans((slots >= part[0]) & (slots <= part[-1])))
        file = TableFile(
            place,
            state_schema(view),
            WINDOW_COLUMNS,
            {VERSION: str(version)},
            group_rows=_group_rows(some, group_rows),
            name=file_name(part),
        )
        with file:
            file.write(_by_key(view, some))
        if file.written is not None:
            yield file.written


def _ranges(states: pa.Table, slots: Slots, rows: int) -> Iterator[range]:
    """Ranges of slots that have the states, each of about `rows`.

    All slots are halved until they are small enough. So of two ranges of different versions one contains the other, or they have
    no slot in common.
    """
    if not states.num_rows:
        return
    of_all = SLOTS / (int(slots.max()) + 1 - int(slots.min()))
    files = min(SLOTS, of_all * max(states.num_rows / rows, states.nbytes / FILE_BYTES))
    width = SLOTS >> max(0, ceil(log2(files)))
    for first in np.unique(slots // width * width).tolist():
        yield range(first, first + width)


def _by_key(view: View, states: pa.Table) -> pa.Table:
    """The states by key, then by window."""
    columns = [name for name in (*view.keys, WINDOW_COLUMNS[0], *group_columns(view)) if name in states.column_names]
    return states.take(pc.sort_indices(states, sort_keys=[(name, "ascending") for name in dict.fromkeys(columns)]))


def _group_rows(states: pa.Table, most: int) -> int:
    return min(most, max(_FEWEST, GROUP_BYTES * int(states.num_rows) // max(1, int(states.nbytes))))
