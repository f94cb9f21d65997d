"""Split a part of the log into slices, one per task: disjoint ranges, and the files that may hold their rows.

The log is split by position, so every row belongs to exactly one slice, however the files are laid out. Statistics only save
reads.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

from tandem.ledger.files.file_ranges import FileRange
from tandem.views.source.offset_ranges import EMPTY, Interval, Partition, Ranges


@dataclass(frozen=True)
class Slice:
    """`ranges` of the log, the `files` that may hold their rows, and about how many `rows` they have."""

    ranges: Ranges
    files: tuple[str, ...]
    rows: int


def cut(files: Sequence[FileRange], ranges: Ranges, *, rows: int) -> list[Slice]:
    """Slices of about `rows` rows that together are `ranges`, split between files where possible."""
    pieces = (
        piece
        for partition, intervals in ranges.intervals
        for interval in intervals
        for piece in _pieces(files, partition, interval, rows)
    )
    return list(_bundled(pieces, rows))


def even_rows(total: int, parallelism: int, *, least: int, most: int) -> int:
    """How many rows a slice should have: few enough to keep all cores busy, enough to write files of a useful size."""
    return max(least, min(most, ceil(total / (2 * parallelism))))


def _pieces(files: Sequence[FileRange], partition: Partition, interval: Interval, rows: int) -> Iterator[Slice]:
    """Slices of one interval, split between files, then within files that are too large."""
    start, end = interval
    pending: list[tuple[FileRange, int]] = []
    reach = start
    for span in sorted(files, key=lambda span: span.offsets):
        shared = span.overlap(partition, interval)
        if not shared:
            continue
        if sum(count for _, count in pending) >= rows and span.offsets[0] >= reach:
            yield from _even(partition, (start, span.offsets[0]), pending, rows)
            start, pending = span.offsets[0], []
        pending.append((span, span.within((partition, interval))))
        reach = max(reach, span.offsets[1])
    yield from _even(partition, (start, end), pending, rows)


def _even(partition: Partition, interval: Interval, files_within: list[tuple[FileRange, int]], rows: int) -> Iterator[Slice]:
    """The interval in equal parts of about `rows` rows each."""
    start, end = interval
    count = sum(number for _, number in files_within)
    parts = max(1, min(end - start, round(count / rows)))
    bounds = [start + (end - start) * part // parts for part in range(parts + 1)]
    for low, high in pairwise(bounds):
        files = tuple(span.path for span, _ in files_within if span.overlap(partition, (low, high)))
        yield Slice(Ranges.of({partition: (low, high)}), files, count // parts)


def _bundled(pieces: Iterable[Slice], rows: int) -> Iterator[Slice]:
    """Join neighbouring small slices."""
    bundle = Slice(EMPTY, (), 0)
    for piece in pieces:
        if bundle.rows and bundle.rows + piece.rows > rows * 1.25:
            yield bundle
            bundle = Slice(EMPTY, (), 0)
        files = tuple(dict.fromkeys((*bundle.files, *piece.files)))
        bundle = Slice(bundle.ranges.union(piece.ranges), files, bundle.rows + piece.rows)
    if bundle.ranges != EMPTY:
        yield bundle
