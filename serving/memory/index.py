"""An index of rows that are sorted by a hash, and within one hash by the start of their windows.

A table over the top bits of the hash, with about one entry per row, bounds the rows that may have a hash: a lookup reads two or
three places of memory, however many rows there are.

A keyed 64-bit hash of key values: of whole Arrow columns with numpy, or of one key in Python, with equal results.

The hash only locates rows. A caller that finds a row compares its key, so two keys with one hash cost time and never a wrong
answer. Nobody without the seed can construct such keys.

Each value is words of 64 bits: a number is one word (a decimal two); a text or bytes are their length and eight bytes per word,
the last padded with zeros; NULL is a word of its own. A hash starts as the seed and takes in word after word by the finaliser of
SplitMix64 (Steele, Lea and Flood 2014, Fast splittable pseudorandom number generators, OOPSLA, with Stafford's constants).
"""

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
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
    elif pa.types.is_boolean(column.type) or pa.types.is_date(column.type):
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


Numbers = npt.NDArray[np.int64]
Ranges = tuple[Numbers, Numbers]
"""Half-open ranges of rows, one per lookup: their firsts and their ends."""


@dataclass(frozen=True, eq=False)
class Index:
    """An index over `hashes` in ascending order; `starts`, in microseconds, ascend within a hash; None without start times.

    At most 2**31 - 1 rows.
    """

    hashes: Hashes = field(repr=False)
    starts: Numbers | None = field(repr=False)
    shift: int = field(init=False)
    buckets: npt.NDArray[np.int32] = field(init=False, repr=False)
    _hashes: memoryview = field(init=False, repr=False)
    _starts: memoryview | None = field(init=False, repr=False)
    _buckets: memoryview = field(init=False, repr=False)

    def __post_init__(self) -> None:
        bits = max(1, len(self.hashes).bit_length() - 1)
        counts = np.bincount((self.hashes >> np.uint64(64 - bits)).astype(np.int64), minlength=1 << bits)
        buckets = np.concatenate((np.zeros(1, np.int32), np.cumsum(counts).astype(np.int32)))
        own = {"shift": 64 - bits, "buckets": buckets, "_buckets": buckets.data, "_hashes": self.hashes.data}
        own["_starts"] = None if self.starts is None else self.starts.data
        for name, value in own.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.hashes)

    @property
    def nbytes(self) -> int:
        """Its bytes besides the rows; `starts` belong to the rows."""
        return int(self.hashes.nbytes + self.buckets.nbytes)

    def rows(self, hash_: int) -> tuple[int, int]:
        """The range of the rows of one hash."""
        bucket = hash_ >> self.shift
        low, high = self._buckets[bucket], self._buckets[bucket + 1]
        low = bisect_left(self._hashes, hash_, low, high)
        return low, bisect_right(self._hashes, hash_, low, high)

    def rows_at(self, hash_: int, start: int | None) -> tuple[int, int]:
        """The range of the rows of one hash whose windows start at this time; of all rows of the hash without starts."""
        low, high = self.rows(hash_)
        if self._starts is None or start is None or low == high:
            return low, high
        low = bisect_left(self._starts, start, low, high)
        return low, bisect_right(self._starts, start, low, high)

    def is_within(self, hash_: int, start: int, end: int) -> bool:
        """Whether a row of one hash has a window that starts in `[start, end)`."""
        if self._starts is None:
            return False
        low, high = self.rows(hash_)
        place = bisect_left(self._starts, start, low, high)
        return place < high and self._starts[place] < end

    def any_within(self, hashes: Hashes, starts: Numbers, ends: Numbers) -> npt.NDArray[np.bool_]:
        """`has` for many hashes, each with its bounds."""
        if self.starts is None or not len(self):
            return np.zeros(len(hashes), dtype=bool)
        bucket = hashes >> np.uint64(self.shift)
        low, most = (self.buckets[place].astype(np.int64) for place in (bucket, bucket + np.uint64(1)))
        place = self._bound(hashes, starts, low, most, after=False)
        within = np.minimum(place, len(self) - 1)
        found: npt.NDArray[np.bool_] = (place < len(self)) & (self.hashes[within] == hashes) & (self.starts[within] < ends)
        return found

    def find(self, hashes: Hashes, starts: Numbers | None = None) -> Ranges:
        """The ranges of the rows of many hashes; with `starts`, one per hash, of the windows that start then."""
        bucket = hashes >> np.uint64(self.shift)
        low, most = (self.buckets[place].astype(np.int64) for place in (bucket, bucket + np.uint64(1)))
        low = self._bound(hashes, starts, low, most, after=False)
        high = low + self._is(low, hashes, starts)
        # Most hashes have one row.
        more = np.flatnonzero(self._is(high, hashes, starts) & (high > low))
        if len(more):
            some = None if starts is None else starts[more]
            high[more] = self._bound(hashes[more], some, high[more], most[more], after=True)
        return low, high

    def _is(self, places: Numbers, hashes: Hashes, starts: Numbers | None) -> npt.NDArray[np.bool_]:
        """Whether these places have the wanted rows."""
        if not len(self):
            return np.zeros(len(places), dtype=bool)
        within = np.minimum(places, len(self) - 1)
        found: npt.NDArray[np.bool_] = (places < len(self)) & (self.hashes[within] == hashes)
        if starts is not None and self.starts is not None:
            found &= self.starts[within] == starts
        return found

    def _bound(self, hashes: Hashes, starts: Numbers | None, low: Numbers, high: Numbers, *, after: bool) -> Numbers:
        """The first row from `low` to `high` that is not before the key, or with `after` the first one past it."""
        low, high = low.copy(), high.copy()
        open_ = np.flatnonzero(low < high)
        while len(open_):
            middle = (low[open_] + high[open_]) >> 1
            there, wanted = self.hashes[middle], hashes[open_]
            before = there < wanted
            same = there == wanted
            if starts is None or self.starts is None:
                before |= same & after
            elif same.any():
                at, start = self.starts[middle], starts[open_]
                before |= same & ((at <= start) if after else (at < start))
            low[open_] = np.where(before, middle + 1, low[open_])
            high[open_] = np.where(before, high[open_], middle)
            open_ = open_[low[open_] < high[open_]]
        return low


def spread(ranges: Ranges) -> Numbers:
    """The rows of the ranges, one after another."""
    low, high = ranges
    lengths = high - low
    ends = np.cumsum(lengths)
    found: Numbers = np.arange(ends[-1] if len(ends) else 0) + np.repeat(low - (ends - lengths), lengths)
    return found
