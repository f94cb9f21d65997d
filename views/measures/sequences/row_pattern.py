"""Row patterns of SQL:2016 (MATCH_RECOGNIZE): `small{3,} big` as a tree.

pattern     := sequence ("|" sequence)*                      the first alternative is preferred
sequence    := repetition+
repetition  := (SYMBOL | "(" pattern ")") [quantifier ["?"]] with "?" the fewest rows are preferred, without it the most
quantifier  := "?" | "*" | "+" | "{n}" | "{n,}" | "{n,m}" | "{,m}"
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NoReturn

from tandem.views.errors import DefinitionError

MOST_PLACES: Final = 1000
"""How many symbols a pattern may have, those that are counted out: `a{3}` has three."""

_DEEPEST: Final = 50
_TOKEN: Final = re.compile(r"\s*(?:([A-Za-z_]\w*)|(\{\s*\d*\s*,?\s*\d*\s*\})|([|()*+?])|(\S)|$)")
_QUANTIFIERS: Final = {"?": (0, 1), "*": (0, None), "+": (1, None)}
_EXAMPLE: Final = "'small{3,} big'"


class PatternError(DefinitionError, code="pattern-invalid"):
    """A pattern that cannot be used: `sentence` says why, and `place` is the offset in the pattern's text."""

    def __init__(self, sentence: str, text: str, place: int) -> None:
        self.sentence, self.place = sentence, place
        line = text[:place].count("\n")
        before = text[:place].rpartition("\n")[2]
        super().__init__(f"pattern: {sentence}\n    {(text.splitlines() or [''])[line]}\n    {' ' * len(before)}^")


@dataclass(frozen=True)
class Symbol:
    """One row for which the symbol's condition is true."""

    name: str


@dataclass(frozen=True)
class Sequel:
    """One item after the other."""

    items: tuple["Item", ...]


@dataclass(frozen=True)
class Alternatives:
    """One of the branches; an earlier one is preferred."""

    branches: tuple["Item", ...]


@dataclass(frozen=True)
class Repeat:
    """The item `least` to `most` times, without end if that is None; the most times are preferred unless it is `reluctant`."""

    item: "Item"
    least: int
    most: int | None
    reluctant: bool = False


Item = Symbol | Sequel | Alternatives | Repeat


@lru_cache(maxsize=256)
def row_pattern(text: str) -> Item:
    """The tree of a pattern. Raises PatternError if it is not one, can match nothing or has too many symbols."""
    parser = _Parser(text)
    item = parser.choice()
    if parser.word:
        parser.fail(
            "')' has no partner" if parser.word == ")" else f"{parser.word!r} is not part of a pattern, such as {_EXAMPLE}"
        )
    if nullable(item):
        parser.fail(f"it matches nothing, too, and a match has at least one row; such as {_EXAMPLE}", 0)
    return item


def symbols_of(item: Item) -> Iterator[str]:
    """The names of the symbols in the order of the text, each as often as it is there."""
    match item:
        case Symbol(name):
            yield name
        case Repeat(inner):
            yield from symbols_of(inner)
        case Sequel(parts) | Alternatives(parts):
            for part in parts:
                yield from symbols_of(part)


def nullable(item: Item) -> bool:
    """Whether it can match without any row."""
    match item:
        case Symbol():
            return False
        case Repeat(inner, least):
            return least == 0 or nullable(inner)
        case Sequel(parts):
            return all(map(nullable, parts))
    return any(map(nullable, item.branches))


def _places(item: Item) -> int:
    match item:
        case Symbol():
            return 1
        case Repeat(inner, least, most):
            return _places(inner) * max(least, 1 if most is None else most)
        case Sequel(parts) | Alternatives(parts):
            return sum(map(_places, parts))


class _Parser:
    """A pattern's text, and the next word, `word`, which begins at `place`; empty at the end."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.end = self.depth = 0
        self.advance()

    def advance(self) -> None:
        match = _TOKEN.match(self.text, self.end)
        assert match is not None
        self.kind = match.lastindex or 0
        self.word = match[self.kind] if self.kind else ""
        self.place = match.start(self.kind) if self.kind else len(self.text)
        self.end = match.end()

    def fail(self, sentence: str, place: int | None = None) -> NoReturn:
        """Raises PatternError at the word, unless another place is named."""
        raise PatternError(sentence, self.text, self.place if place is None else place)

    def choice(self) -> Item:
        branches = [self.sequence()]
        while self.word == "|":
            self.advance()
            branches.append(self.sequence())
            self.refuse_many(Alternatives(tuple(branches)))
        return branches[0] if len(branches) == 1 else Alternatives(tuple(branches))

    def sequence(self) -> Item:
        items: list[Item] = []
        while self.kind == 1 or self.word == "(":
            items.append(self.repetition())
            self.refuse_many(Sequel(tuple(items)))
        if not items:
            what = f"{self.word!r} stands" if self.word else "the pattern ends"
            self.fail(f"{what} where a symbol or '(' is expected, such as in {_EXAMPLE}")
        return items[0] if len(items) == 1 else Sequel(tuple(items))

    def refuse_many(self, item: Item) -> None:
        if _places(item) > MOST_PLACES:
            self.fail(f"counted out it has more than {MOST_PLACES} symbols", 0)

    def repetition(self) -> Item:
        start = self.place
        if self.kind == 1:
            item: Item = Symbol(self.word)
            self.advance()
        else:
            self.advance()
            self.depth += 1
            if self.depth > _DEEPEST:
                self.fail(f"more than {_DEEPEST} brackets are in each other", start)
            item = self.choice()
            self.depth -= 1
            if self.word != ")":
                self.fail(
                    "'(' is not closed" if not self.word else f"{self.word!r} stands where ')' is expected", self._where(start)
                )
            self.advance()
        counts = self.quantifier()
        if counts is None:
            return item
        least, most = counts
        if most != 1 and nullable(item):
            self.fail("a group that matches nothing, too, cannot be repeated: it would be unclear how often", start)
        reluctant = self.word == "?"
        if reluctant:
            self.advance()
        if self.word in ("*", "+", "?") or self.kind == 2:
            self.fail(f"{self.word!r} follows a quantifier; put what is repeated into brackets")
        return item if counts == (1, 1) else Repeat(item, least, most, reluctant)

    def _where(self, start: int) -> int:
        return self.place if self.word else start

    def quantifier(self) -> tuple[int, int | None] | None:
        """How often the item before is repeated; None without a quantifier."""
        if self.kind == 3 and self.word in _QUANTIFIERS:
            counts: tuple[int, int | None] = _QUANTIFIERS[self.word]
        elif self.kind == 2:
            counts = self.counts(self.word[1:-1])
        else:
            return None
        self.advance()
        return counts

    def counts(self, text: str) -> tuple[int, int | None]:
        lower, comma, upper = (part.strip() for part in text.partition(","))
        if not lower and not upper:
            self.fail(f"{self.word!r} has no number; a count is {{2}}, {{2,}}, {{2,5}} or {{,5}}")
        least = int(lower or 0)
        most = least if not comma else int(upper) if upper else None
        if most is not None and most < max(least, 1):
            self.fail(f"the largest number of {self.word!r} is {most}, less than {max(least, 1)}")
        if max(least, most or 0) > MOST_PLACES:
            self.fail(f"{self.word!r} counts to more than {MOST_PLACES}")
        return least, most
