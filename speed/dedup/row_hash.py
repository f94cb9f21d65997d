"""Hash the rows of a table by columns: equal rows have equal hashes, and without the secret nobody finds different rows that do.

A row's message is injective: a word with a bit for each null, then each column's value. Fixed-width values are one word, decimals
two, text and bytes their length and their bytes in words, of which the last is padded with zeros.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tandem.speed.dedup.siphash import SipHash, Words
from tandem.views.arrow.arrays import decimal_words, validity, whole

_ROWS: Final = 16_384
"""Rows that are hashed at once: their states stay in the processor's cache."""
_WORD: Final = 8
_LONGEST: Final = 16 * _WORD
"""Longer values are replaced by their own hash: otherwise one long value would need many passes over few rows."""
_HASHED: Final = np.uint64(1 << 63)
"""Marks the length of such a value."""


def row_hashes(table: pa.Table, columns: Sequence[str], secret: bytes) -> npt.NDArray[np.uint64]:
    """Two words for each row, with shape (rows, 2); the columns are flat, and `secret` has 16 bytes."""
    found = np.empty((table.num_rows, 2), np.uint64)
    arrays = [whole(table[name]) for name in columns]
    for start in range(0, table.num_rows, _ROWS):
        some = [array.slice(start, _ROWS) for array in arrays]
        found[start : start + _ROWS] = _hashes(some, secret)
    return found


def _hashes(columns: Sequence[pa.Array], secret: bytes) -> npt.NDArray[np.uint64]:
    state = SipHash(len(columns[0]), secret)
    for start in range(0, len(columns), 64):
        nulls = np.zeros(len(columns[0]), np.uint64)
        for bit, column in enumerate(columns[start : start + 64]):
            if column.null_count:
                nulls |= (~validity(column)).astype(np.uint64) << np.uint64(bit)
        state.update(nulls)
    for column in columns:
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            _add_bytes(state, column, secret)
        elif pa.types.is_decimal128(column.type):
            halves = np.where(validity(column)[:, None], decimal_words(column), 0).view(np.uint64)
            state.update(halves[:, 0])
            state.update(halves[:, 1])
        else:
            state.update(_fixed(column))
    return state.digest()


def _fixed(column: pa.Array) -> Words:
    """The values of a fixed-width column as words; 0 for null."""
    kind = column.type
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
    filled = pc.fill_null(column, 0) if column.null_count else column
    words: Words = filled.to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64)
    return words


def _add_bytes(state: SipHash, column: pa.Array, secret: bytes) -> None:
    """Add text or bytes to each row's message."""
    _, offsets, data = column.cast(pa.binary()).buffers()
    bounds = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    starts, lengths = bounds[:-1], np.diff(bounds)
    if column.null_count:
        lengths = np.where(validity(column), lengths, 0)
    first, last = int(bounds[0]), int(bounds[-1])
    # Every eight bytes of the data as a word, wherever they begin.
    padded = np.zeros(last - first + _WORD, np.uint8)
    padded[: last - first] = np.frombuffer(data or b"", np.uint8)[first:last]
    at_byte = np.ndarray((last - first + 1,), "<u8", padded, strides=(1,))
    long = lengths > _LONGEST
    rows = np.flatnonzero(long)
    state.update(np.where(long, lengths.astype(np.uint64) | _HASHED, lengths.astype(np.uint64)))
    if len(rows):
        digests = [
            hashlib.blake2b(padded[at : at + size].tobytes(), digest_size=2 * _WORD, key=secret).digest()
            for at, size in zip((starts[rows] - first).tolist(), lengths[rows].tolist(), strict=True)
        ]
        halves = np.frombuffer(b"".join(digests), "<u8").astype(np.uint64).reshape(-1, 2)
        state.update(halves[:, 0], rows)
        state.update(halves[:, 1], rows)
        lengths = np.where(long, 0, lengths)
    for word in range(-(-int(lengths.max(initial=0)) // _WORD)):
        left = lengths - word * _WORD
        going = None if left.min() > 0 else np.flatnonzero(left > 0)
        some = left if going is None else left[going]
        places = (starts if going is None else starts[going]) - first + word * _WORD
        spare = np.maximum(_WORD - some, 0).astype(np.uint64) * np.uint64(8)
        # Shift out what belongs to the next value.
        state.update((at_byte[places].astype(np.uint64) << spare) >> spare, going)
