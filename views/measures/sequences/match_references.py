"""How often a row pattern matches if conditions read rows that the match took: FIRST(a.x), LAST(a.x).

Whether a row can have a symbol then depends on which rows the match took before. Every way is tried, the preferred first, but
none twice: what follows depends on the place in the pattern, the row, and the rows that conditions read, so a way that failed is
not tried again from there. The tries are at most places * rows ** (1 + references).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tandem.views.measures.sequences.row_matcher import END, Automaton, Places

Integers = npt.NDArray[np.int64]

Rows = tuple[int, ...]
"""By reference the row that it reads, -1 for none."""

PAIRS_AT_ONCE: Final = 1 << 20
"""How many pairs of rows have their conditions computed together."""


@dataclass(frozen=True)
class Tracked:
    """A row of the match that conditions read: the first or the last of the symbol with a bit, of any symbol if that is None."""

    first: bool
    bit: int | None

    def after(self, row: int, bit: int, before: int) -> int:
        """The row that it is once the match took a row for a symbol."""
        return before if (self.bit is not None and self.bit != bit) or (self.first and before >= 0) else row


@dataclass(frozen=True)
class PairConditions:
    """For each row, and each row up to it that a condition may read, the bits of the symbols whose conditions are true.

    Of a sequence's row at place n, those for no row, and for the rows at places 0 to n.
    """

    bits: Sequence[int]
    starts: Sequence[int]

    def met(self, row: int, read: int, bit: int) -> bool:
        """Whether the symbol's condition is true for a row of the sequence, if it reads another one, or none."""
        return bool(self.bits[self.starts[row] + read + 1] >> bit & 1)


def pairs_of(first: int, length: int) -> tuple[Integers, Integers]:
    """Each row of a sequence with no row (-1) and with each row up to it, by their numbers among all rows."""
    rows = np.repeat(np.arange(length), np.arange(length) + 2)
    read = np.arange(len(rows)) - np.repeat(starts_of(length), np.arange(length) + 2) - 1
    return first + rows, np.where(read < 0, -1, first + read)


def starts_of(length: int) -> Integers:
    """Where in `pairs_of` the pairs of each row begin."""
    rows = np.arange(length)
    return rows * (rows + 3) // 2


def pieces(pairs: Integers) -> Iterator[slice]:
    """Sequences with these numbers of pairs, some at a time: together at most PAIRS_AT_ONCE, or one sequence."""
    start, number = 0, 0
    for at, more in enumerate(pairs.tolist()):
        if number and number + more > PAIRS_AT_ONCE:
            yield slice(start, at)
            start, number = at, 0
        number += more
    yield slice(start, len(pairs))


def count_dependent(
    pattern: Automaton, bits: Sequence[int], pairs: PairConditions, tracked: Sequence[Tracked], reads: dict[int, int]
) -> int:
    """The number of matches in a sequence of rows, each with the symbols as bits that need no other row of the match.

    `reads` has by bit the number of the reference in `tracked` that its symbol's condition reads.
    """
    tried: set[tuple[int, int, Rows]] = set()

    def end(start: int) -> int | None:
        """The row after the preferred match that begins at a row."""
        ways: list[tuple[Places, int, int, Rows]] = [(pattern.start, 0, start, (-1,) * len(tracked))]
        while ways:
            targets, number, row, rows = ways.pop()
            for next_ in range(number, len(targets)):
                place = targets[next_]
                if place == END:
                    return row
                taken = take(place, row, rows)
                if taken is None or (place, row, taken) in tried:
                    continue
                tried.add((place, row, taken))
                ways += [(targets, next_ + 1, row, rows), (pattern.follow[place], 0, row + 1, taken)]
                break
        return None

    def take(place: int, row: int, rows: Rows) -> Rows | None:
        """The rows that conditions read next if a row is taken at a place; None if it cannot be."""
        if row == len(bits):
            return None
        bit = pattern.bits[place]
        after = tuple(each.after(row, bit, before) for each, before in zip(tracked, rows, strict=True))
        if bit in reads:
            return after if pairs.met(row, after[reads[bit]], bit) else None
        return after if bits[row] >> bit & 1 else None

    return count_of(end, len(bits))


def count_of(end: Callable[[int], int | None], rows: int) -> int:
    """How many matches there are, each after the last row of the one before."""
    number = start = 0
    while start < rows:
        after = end(start)
        number += after is not None
        start = start + 1 if after is None else after
    return number
