"""An index of rows that are sorted by a hash, and within one hash by the start of their windows.

A table over the top bits of the hash, with about one entry per row, bounds the rows that may have a hash: a lookup reads two or
three places of memory, however many rows there are.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tandem.views.arrow.key_hash import Hashes

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
