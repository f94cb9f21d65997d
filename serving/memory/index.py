"""Where rows stand that are sorted by a hash, and within one hash by the start of their windows.

A table over the top bits of the hash, of about one entry a row, says between which rows a hash can be: a look-up reads two or
three places of memory, however many rows there are.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from serving.memory.key_hash import Hashes

Numbers = npt.NDArray[np.int64]
Ranges = tuple[Numbers, Numbers]
"""Half-open ranges of rows, one for each thing looked for: their firsts and their ends."""


@dataclass(frozen=True, eq=False)
class Index:
    """Over `hashes` in ascending order; `starts`, in microseconds, ascend within a hash, None where no time tells rows apart.

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
        own = {"shift": 64 - bits, "buckets": buckets, "_buckets": memoryview(buckets), "_hashes": memoryview(self.hashes)}
        own["_starts"] = None if self.starts is None else memoryview(self.starts)
        for name, value in own.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.hashes)

    @property
    def nbytes(self) -> int:
        """What it holds beside the rows; `starts` are the rows' own."""
        return int(self.hashes.nbytes + self.buckets.nbytes)

    def rows(self, hash_: int) -> tuple[int, int]:
        """The range of the rows of one hash."""
        bucket = hash_ >> self.shift
        low, high = self._buckets[bucket], self._buckets[bucket + 1]
        low = bisect_left(self._hashes, hash_, low, high)
        return low, bisect_right(self._hashes, hash_, low, high)

    def rows_at(self, hash_: int, start: int | None) -> tuple[int, int]:
        """The range of the rows of one hash whose windows start then; where no time tells rows apart, of the hash."""
        low, high = self.rows(hash_)
        if self._starts is None or start is None or low == high:
            return low, high
        low = bisect_left(self._starts, start, low, high)
        return low, bisect_right(self._starts, start, low, high)

    def find(self, hashes: Hashes, starts: Numbers | None = None) -> Ranges:
        """The ranges of the rows of many hashes; with `starts`, which come with each hash, of the windows that start then."""
        return self._bound(hashes, starts, after=False), self._bound(hashes, starts, after=True)

    def _bound(self, hashes: Hashes, starts: Numbers | None, *, after: bool) -> Numbers:
        """The first row that does not come before what is looked for, or with `after` the first that comes after it."""
        bucket = hashes >> np.uint64(self.shift)
        low = self.buckets[bucket].astype(np.int64)
        high = self.buckets[bucket + np.uint64(1)].astype(np.int64)
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
    """The rows of the ranges, one after the other."""
    low, high = ranges
    lengths = high - low
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(low - (ends - lengths), lengths)
