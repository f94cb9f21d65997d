"""Which offsets of a log a partial counts: half-open intervals per partition.

Ranges make merging safe: two partials merge only if no offset is in both. So repeating a task, a trigger or a job counts nothing
twice.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Self

from tandem.views.errors import TandemError

Partition = tuple[str, int]
"""Topic id and partition number. The id, not the name: a topic created again under an old name is another log."""

Offsets = Mapping[Partition, int]
"""One offset per partition."""

Interval = tuple[int, int]
"""Half-open `[from, to)`."""


class Overlap(TandemError, code="ranges-overlap"):
    """Two ranges cannot be united, because both hold an offset."""


@dataclass(frozen=True)
class Ranges:
    """A set of offsets, in its one normal form, so that equal sets are equal values with equal hashes.

    `intervals` is sorted by partition; the intervals of one partition are sorted, disjoint, not empty and coalesced.
    Make one with `of`, `union` or `from_json`.
    """

    intervals: tuple[tuple[Partition, tuple[Interval, ...]], ...] = ()

    @classmethod
    def of(cls, ranges: Mapping[Partition, Interval]) -> Self:
        """One interval per partition; empty ones vanish. Raises TandemError if `to` is below `from` or `from` is negative."""
        return cls._normal((partition, interval) for partition, interval in ranges.items())

    @classmethod
    def from_json(cls, document: Mapping[str, Mapping[str, Iterable[Iterable[int]]]]) -> Self:
        """Inverse of `to_json`."""
        return cls._normal(
            ((topic, int(partition)), _pair(interval))
            for topic, partitions in document.items()
            for partition, intervals in partitions.items()
            for interval in intervals
        )

    def to_json(self) -> dict[str, dict[str, list[list[int]]]]:
        """A JSON document `{topic id: {partition: [[from, to], ...]}}`, in order of topic id and partition."""
        document: dict[str, dict[str, list[list[int]]]] = {}
        for (topic, partition), intervals in self.intervals:
            document.setdefault(topic, {})[str(partition)] = [list(interval) for interval in intervals]
        return document

    def union(self, *others: "Ranges") -> "Ranges":
        """All offsets of `self` and `others`. Raises Overlap, naming the first shared offsets, if any offset is in two."""
        return Ranges._normal(
            (partition, interval)
            for ranges in (self, *others)
            for partition, intervals in ranges.intervals
            for interval in intervals
        )

    def within(self, other: "Ranges") -> "Ranges":
        """The offsets that are in both."""
        return Ranges._normal(
            (partition, (max(low, start), min(high, to)))
            for partition, low, high, intervals in _beside(self, other)
            for start, to in intervals
        )

    def without(self, other: "Ranges") -> "Ranges":
        """The offsets that `other` lacks."""
        return Ranges._normal(
            (partition, (start, to))
            for partition, low, high, intervals in _beside(self, other)
            for start, to in zip([low, *(to for _, to in intervals)], [*(start for start, _ in intervals), high], strict=True)
            if start < to
        )

    @property
    def length(self) -> int:
        """How many offsets the ranges hold."""
        return sum(to - start for _, intervals in self.intervals for start, to in intervals)

    @classmethod
    def _normal(cls, pieces: Iterable[tuple[Partition, Interval]]) -> Self:
        by_partition: dict[Partition, list[Interval]] = {}
        for partition, (start, to) in pieces:
            if not 0 <= start <= to:
                raise TandemError(f"[{start}, {to}) of {_name(partition)} is not a range of offsets: 0 <= from <= to is")
            if start < to:
                by_partition.setdefault(partition, []).append((start, to))
        return cls(tuple((partition, _coalesce(partition, by_partition[partition])) for partition in sorted(by_partition)))


EMPTY: Final = Ranges()


def _beside(ranges: Ranges, other: Ranges) -> Iterator[tuple[Partition, int, int, tuple[Interval, ...]]]:
    """Each interval of `ranges`, with the intervals of `other` that share offsets with it."""
    there = dict(other.intervals)
    for partition, intervals in ranges.intervals:
        others = there.get(partition, ())
        for low, high in intervals:
            first = bisect_right(others, low, key=lambda interval: interval[1])
            last = bisect_left(others, high, key=lambda interval: interval[0])
            yield partition, low, high, others[first:last]


def _coalesce(partition: Partition, intervals: list[Interval]) -> tuple[Interval, ...]:
    intervals.sort()
    joined = [intervals[0]]
    for start, to in intervals[1:]:
        last_start, last_to = joined[-1]
        if start < last_to:
            raise Overlap(
                f"offsets [{start}, {min(to, last_to)}) of {_name(partition)} are in two ranges, which cannot be united"
            )
        if start == last_to:
            joined[-1] = (last_start, to)
        else:
            joined.append((start, to))
    return tuple(joined)


def _pair(interval: Iterable[int]) -> Interval:
    start, to = interval
    return start, to


def _name(partition: Partition) -> str:
    return f"partition {partition[1]} of topic {partition[0]}"
