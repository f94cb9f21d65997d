"""Hash slots: which file of a batch version has the states of a key.

A slot is the first 16 bits of a hash of columns by which states can be split (`slot_columns`). The states of a version are
divided into files by slot, and the name of a file says which slots it may have: a look-up of a key opens one file, however many
there are. A file with another name, of an earlier version of Tandem, may have any slot.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tandem.views.arrow import arrays
from tandem.views.arrow.key_hash import KeyHash
from tandem.views.composite.dated import PIECE
from tandem.views.view import View, shared_columns

SLOTS: Final = 1 << 16
EVERY: Final = range(SLOTS)
_SEED: Final = 0
"""Names of files depend on it, so it never changes."""
_SHIFT: Final = 48
_NAME: Final = re.compile(r"(?:.*/)?slots-([0-9a-f]{4})-([0-9a-f]{4})-[^/]*")

Slots = npt.NDArray[np.int64]


def slot_columns(view: View) -> list[str]:
    """The columns of a view's states that decide on slots.

    Not which definition of a dated view they are of: files that are older than this column have the same slots.
    """
    return [name for name in shared_columns(view) if name != PIECE.name]


def slots_of(states: pa.Table, columns: Sequence[str]) -> Slots:
    """The slot of each row by the values of these columns; slot 0 without columns."""
    if not columns or not states.num_rows:
        return np.zeros(states.num_rows, np.int64)
    key_hash = KeyHash(_SEED, tuple(states.schema.field(name).type for name in columns))
    hashes = key_hash.of_columns([arrays.whole(states[name]) for name in columns])
    return (hashes >> np.uint64(_SHIFT)).astype(np.int64)


def slot_of(types: Sequence[pa.DataType], values: Sequence[Any]) -> int:
    """The slot of one row: the values of the columns as Arrow returns them in Python, and the columns' types."""
    return KeyHash(_SEED, tuple(types)).of_key(values) >> _SHIFT if types else 0


def by_slot(states: pa.Table, columns: Sequence[str], buckets: int) -> Iterator[tuple[int, pa.Table]]:
    """The states by bucket, each a range of slots: states that agree in these columns go to the same of N buckets."""
    bucket_of = slots_of(states, columns) * buckets // SLOTS
    for bucket in np.unique(bucket_of).tolist():
        yield bucket, states.filter(arrays.booleans(bucket_of == bucket))


def file_name(slots: range) -> str:
    """How the name of a file with states of these slots begins."""
    return f"slots-{slots[0]:04x}-{slots[-1]:04x}"


def slots_in(path: str) -> range:
    """The slots that a file may have."""
    name = _NAME.fullmatch(path)
    return EVERY if name is None else range(int(name[1], 16), int(name[2], 16) + 1)
