"""How often a row pattern matches sequences of rows: an automaton of its symbols, and two passes over all rows.

The pass from the end finds, for each row, at which places of the pattern the row can be in a match that is completed. With
that the pass from the start never tries in vain: at each row it takes the most preferred place of those. So the time grows with
rows, not with the choices between them. The sets of places are numbered as they occur, so a step of either pass is a look-up in a
table.

The preferred match is that of SQL:2016 and Perl: an earlier alternative, then more rows, or fewer where a quantifier is
reluctant. The next match begins after the last row of the one before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from tandem.views.measures.sequences.row_pattern import Alternatives, Item, Repeat, Sequel, Symbol, row_pattern

Integers = npt.NDArray[np.int64]
Places = tuple[int, ...]
"""Places of the pattern, the most preferred first."""

END: Final = -1
"""What follows the last place of a match."""

_AGAIN: Final = -2


@dataclass
class Automaton:
    """By place of the pattern, counted out, the bit of its symbol and what may follow it; `start` is what may be first."""

    symbols: Mapping[str, int]
    bits: list[int] = field(default_factory=list)
    follow: list[Places] = field(default_factory=list)
    start: Places = ()

    def link(self, item: Item, after: Places) -> Places:
        """What may be first in an item that `after` follows. It makes places for the item's symbols."""
        match item:
            case Symbol(name):
                self.bits.append(self.symbols[name])
                self.follow.append(after)
                return (len(self.bits) - 1,)
            case Sequel(items):
                for part in reversed(items):
                    after = self.link(part, after)
                return after
            case Alternatives(branches):
                return _different(*(self.link(branch, after) for branch in branches))
            case Repeat(inner, least, None, reluctant):
                before = len(self.follow)
                first = self.link(inner, (_AGAIN,))
                again = _different(after, first) if reluctant else _different(first, after)
                for place in range(before, len(self.follow)):
                    self.follow[place] = _different(*(again if next_ == _AGAIN else (next_,) for next_ in self.follow[place]))
                entry = first if least else again
                return self.copies(inner, least - 1, entry)
            case Repeat(inner, least, most, reluctant):
                assert most is not None
                entry = after
                for _ in range(most - least):
                    first = self.link(inner, entry)
                    entry = _different(after, first) if reluctant else _different(first, after)
                return self.copies(inner, least, entry)

    def copies(self, item: Item, number: int, after: Places) -> Places:
        """What may be first in an item that is there several times, before `after`."""
        for _ in range(number):
            after = self.link(item, after)
        return after


@lru_cache(maxsize=256)
def automaton(text: str, symbols: tuple[str, ...]) -> Automaton:
    """The automaton of a pattern; a symbol's bit is its number in `symbols`."""
    pattern = Automaton({name: number for number, name in enumerate(symbols)})
    pattern.start = pattern.link(row_pattern(text), (END,))
    return pattern


def _different(*targets: Places) -> Places:
    """Each target once, where it is preferred most."""
    return tuple(dict.fromkeys(target for some in targets for target in some))


class _Sets:
    """Sets of places, each an integer with a bit for each place; a set has a number, that of the empty set is 0.

    `ends` are the places that can be the last of a match, `before` those that may come right before each place.
    """

    def __init__(self, pattern: Automaton) -> None:
        self.pattern = pattern
        self.sets = [0]
        self.numbers = {0: 0}
        self.ends = sum(1 << place for place, targets in enumerate(pattern.follow) if END in targets)
        self.before = [0] * len(pattern.bits)
        for place, targets in enumerate(pattern.follow):
            for target in targets:
                if target != END:
                    self.before[target] |= 1 << place

    def completable(self, after: int, bits: int) -> int:
        """The number of the set for a row with these symbols before a row whose set has the number `after`."""
        places = self.ends
        for target in self.places(after):
            places |= self.before[target]
        completed = sum(1 << place for place in _members(places) if bits >> self.pattern.bits[place] & 1)
        if completed not in self.numbers:
            self.numbers[completed] = len(self.sets)
            self.sets.append(completed)
        return self.numbers[completed]

    def places(self, number: int) -> list[int]:
        """The places of a set."""
        return _members(self.sets[number])

    def choose(self, targets: Places, number: int) -> int | None:
        """The target that is the end or in the set; None if there is none."""
        return next((target for target in targets if target == END or self.sets[number] >> target & 1), None)


def first_rows(pattern: Automaton, bits: Integers, last: npt.NDArray[np.bool_]) -> Integers:
    """The first row of each match, of rows with these symbols as bits; `last` is true for the last row of a sequence."""
    sets = _Sets(pattern)
    classes, class_of = np.unique(bits << 1 | last, return_inverse=True)
    symbols, ends = (classes >> 1).tolist(), (classes & 1).astype(bool).tolist()
    rows = class_of.reshape(-1).tolist()
    before: list[dict[int, int]] = [{}]
    completed, after = [0] * len(rows), [0] * len(rows)
    state = 0
    for row in range(len(rows) - 1, -1, -1):
        class_ = rows[row]
        if ends[class_]:
            state = 0
        after[row] = state
        number = before[state].get(class_)
        if number is None:
            number = before[state][class_] = sets.completable(state, symbols[class_])
            before += [{} for _ in range(len(sets.sets) - len(before))]
        completed[row] = state = number
    begins = np.array([sets.choose(pattern.start, number) is not None for number in range(len(sets.sets))])
    return _walk(sets, np.flatnonzero(begins[np.array(completed, np.int64)]).tolist(), completed, after)


def _walk(sets: _Sets, candidates: Sequence[int], completed: Sequence[int], after: Sequence[int]) -> Integers:
    """The rows of the candidates that are not in an earlier match. `after` is the set of the row after each."""
    start, follow = sets.pattern.start, sets.pattern.follow
    next_place: list[dict[int, int | None]] = [{} for _ in follow]
    firsts, free = list[int](), 0
    for first in candidates:
        if first < free:
            continue
        firsts.append(first)
        row, place = first, sets.choose(start, completed[first])
        while place != END:
            assert place is not None
            number = after[row]
            if number not in next_place[place]:
                next_place[place][number] = sets.choose(follow[place], number)
            row, place = row + 1, next_place[place][number]
        free = row
    return np.array(firsts, np.int64)


def _members(set_: int) -> list[int]:
    """The places of a set, the smallest first."""
    members = []
    while set_:
        lowest = set_ & -set_
        members.append(lowest.bit_length() - 1)
        set_ ^= lowest
    return members
