"""A keyed 64-bit hash of key values: of whole Arrow columns with numpy, or of one key in Python, with equal results.

The hash only locates rows. A caller that finds a row compares its key, so two keys with one hash cost time and never a wrong
answer. Nobody without the seed can construct such keys.

Each value is words of 64 bits: a number is one word (a decimal two); a text or bytes are their length and eight bytes per word,
the last padded with zeros; NULL is a word of its own. A hash starts as the seed and takes in word after word by the finaliser of
SplitMix64 (Steele, Lea and Flood 2014, Fast splittable pseudorandom number generators, OOPSLA, with Stafford's constants).
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tandem.views.arrow import arrays
from tandem.views.instant import microseconds

Hashes = npt.NDArray[np.uint64]

_ALL: Final = 2**64 - 1
_NULL: Final = 0x9E3779B97F4A7C15
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_PIECE: Final = 1 << 15
"""Rows that are hashed at once: their words stay in a core's cache."""
_LONG: Final = 64
"""Values of more words are taken in one by one, since few are that long."""
_DAY_0: Final = date(1970, 1, 1).toordinal()


@dataclass(frozen=True)
class KeyHash:
    """Hashes of keys whose values have these types, in this order."""

    seed: int
    types: tuple[pa.DataType, ...]

    @cached_property
    def _words(self) -> tuple[Callable[[Any], Sequence[int]], ...]:
        return tuple(map(words_of, self.types))

    def of_columns(self, columns: Sequence[pa.Array]) -> Hashes:
        """The hash of each row of the key columns, which have the types and equal lengths; at least one row."""
        rows = len(columns[0])
        hashes = np.full(rows, self.seed & _ALL, np.uint64)
        for start in range(0, rows, _PIECE):
            piece = hashes[start : start + _PIECE]
            for column in columns:
                _take_in(piece, column.slice(start, _PIECE))
            piece[:] = _mixed(piece)
        return hashes

    def of_key(self, values: Sequence[Any]) -> int:
        """The hash of one key, given as Arrow returns its values in Python; undefined for values that the types cannot hold."""
        found = self.seed & _ALL
        for value, words in zip(values, self._words, strict=True):
            for word in (_NULL,) if value is None else words(value):
                found = _mix(found ^ word)
        return _mix(found)


def words_of(arrow: pa.DataType) -> Callable[[Any], Sequence[int]]:
    """What gives the words of a value of the type."""
    if pa.types.is_string(arrow):
        return _text_words
    if pa.types.is_binary(arrow):
        return _binary_words
    if pa.types.is_decimal(arrow):
        return lambda value: _decimal_words(value, arrow.scale)
    return _NUMBERS[arrow.id]


def _text_words(value: str) -> Sequence[int]:
    return _binary_words(value.encode())


def _binary_words(value: bytes) -> Sequence[int]:
    return [len(value), *(int.from_bytes(value[start : start + 8], "little") for start in range(0, len(value), 8))]


def _decimal_words(value: Decimal, scale: int) -> Sequence[int]:
    sign, digits, exponent = value.as_tuple()
    unscaled = int("".join(map(str, digits))) * 10 ** (int(exponent) + scale)
    unscaled = -unscaled if sign else unscaled
    return (unscaled & _ALL, unscaled >> 64 & _ALL)


_NUMBERS: Final[dict[int, Callable[[Any], Sequence[int]]]] = {
    pa.bool_().id: lambda value: (int(value),),
    pa.int8().id: lambda value: (value & _ALL,),
    pa.int64().id: lambda value: (value & _ALL,),
    pa.float64().id: lambda value: struct.unpack("<Q", struct.pack("<d", value + 0.0)),  # -0.0 + 0.0 is 0.0
    pa.date32().id: lambda value: (value.toordinal() - _DAY_0 & _ALL,),
    pa.timestamp("us", "UTC").id: lambda value: (microseconds(value) & _ALL,),
}


def _mix(word: int) -> int:
    word = (word ^ word >> 30) * _FIRST & _ALL
    word = (word ^ word >> 27) * _SECOND & _ALL
    return word ^ word >> 31


def _mixed(words: Hashes) -> Hashes:
    words = (words ^ words >> np.uint64(30)) * np.uint64(_FIRST)
    words = (words ^ words >> np.uint64(27)) * np.uint64(_SECOND)
    return words ^ words >> np.uint64(31)


def _take_in(hashes: Hashes, column: pa.Array) -> None:
    """Take the words of a column into the hashes of its rows, in place."""
    there = arrays.validity(column)
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        _take_in_bytes(hashes, column, there)
        return
    before = hashes if there.all() else hashes.copy()
    for word in _number_words(column):
        hashes[:] = _mixed(hashes ^ word)
    if before is not hashes:
        hashes[~there] = _mixed(before[~there] ^ np.uint64(_NULL))


def _number_words(column: pa.Array) -> Iterator[Hashes]:
    if pa.types.is_decimal(column.type):
        yield from arrays.decimal_words(column).view(np.uint64).T
    elif pa.types.is_floating(column.type):
        yield (arrays.doubles(column) + 0.0).view(np.uint64)
    elif pa.types.is_boolean(column.type) or pa.types.is_date(column.type) or pa.types.is_int8(column.type):
        narrow = column.cast(pa.int32())
        values = np.frombuffer(narrow.buffers()[1] or b"", np.int32)[narrow.offset : narrow.offset + len(narrow)]
        yield values.astype(np.int64).view(np.uint64)
    else:
        yield arrays.integers(column).view(np.uint64)


def _take_in_bytes(hashes: Hashes, column: pa.Array, there: arrays.Mask) -> None:
    _, places, content = column.buffers()
    offsets = np.frombuffer(places or b"\0\0\0\0", np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
    # Eight bytes more, so that the last word of every value can be read whole; what is beyond the value is masked.
    data = np.zeros(last - first + 8, np.uint8)
    data[: last - first] = np.frombuffer(content or b"", np.uint8)[first:last]
    unaligned = np.ndarray((last - first + 1,), "<u8", data, strides=(1,))
    starts, lengths = offsets[:-1] - first, np.diff(offsets)
    hashes[:] = _mixed(hashes ^ np.where(there, lengths.astype(np.uint64), np.uint64(_NULL)))
    lengths = np.where(there, lengths, 0)
    long = lengths > 8 * _LONG
    for row in np.flatnonzero(long).tolist():
        found = int(hashes[row])
        for word in _binary_words(data[starts[row] : starts[row] + lengths[row]].tobytes())[1:]:
            found = _mix(found ^ word)
        hashes[row] = found
    left = np.where(long, 0, lengths)
    rows = np.flatnonzero(left)
    while len(rows):
        words = unaligned[starts[rows]]
        words &= np.uint64(_ALL) >> (np.uint64(64) - np.minimum(left[rows], 8).astype(np.uint64) * np.uint64(8))
        hashes[rows] = _mixed(hashes[rows] ^ words)
        starts, left = starts + 8, left - 8
        rows = rows[left[rows] > 0]
