"""How often a row pattern matches, row by row: of every way in which a match may go on, the most preferred first, the rest of the
pattern is kept.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tandem.views.measures.sequences.navigation import Away, MatchRow
from tandem.views.measures.sequences.row_pattern import Alternatives, Item, Repeat, Sequel, Symbol, row_pattern

Rest = tuple[Item, ...]
Row = Mapping[Any, Any]

Taken = tuple[int | None, ...]
"""By reference the row that a match took for it."""

Met = Callable[[str, int, Taken], bool]
"""Whether a row can have a symbol, after the match took rows."""


def count_matches(pattern: str, rows: int, references: Sequence[MatchRow], met: Met) -> int:
    """The number of matches among this number of rows."""
    number, start, item = 0, 0, row_pattern(pattern)
    while start < rows:
        end = _end((item,), rows, start, references, met)
        number += end is not None
        start = start + 1 if end is None else end
    return number


def row_away(rows: Sequence[Row], number: int, away: Away) -> Any:
    """The value of an expression in the row so far from the one of a number; None if there is no such row."""
    return rows[number + away.rows][away.expression] if 0 <= number + away.rows < len(rows) else None


def _end(rest: Rest, rows: int, start: int, references: Sequence[MatchRow], met: Met) -> int | None:
    """The row after the preferred match that begins at `start`; None if there is no match."""
    end, at = None, start
    ways: list[tuple[Rest, Taken]] = [(rest, (None,) * len(references))]
    while ways:
        further: dict[tuple[Rest, Taken], None] = {}
        for symbol, after, before in ((*step, before) for way, before in ways for step in _steps(way)):
            if symbol is None:
                end = at
                break
            taken = tuple(_row_of(each, row, symbol, at) for each, row in zip(references, before, strict=True))
            if at < rows and met(symbol, at, taken):
                further.setdefault((after, taken))
        ways, at = [*further], at + 1
    return end


def _row_of(reference: MatchRow, before: int | None, symbol: str, row: int) -> int | None:
    """The row of a reference after a match took a row for a symbol."""
    if reference.symbol not in ("", symbol):
        return before
    return row if before is None or reference.which == "last" else before


def _steps(rest: Rest) -> Iterator[tuple[str | None, Rest]]:
    """The next symbol of each way and what follows it, the preferred first; None for a symbol where nothing is left."""
    if not rest:
        yield None, ()
        return
    item, after = rest[0], rest[1:]
    match item:
        case Symbol(name):
            yield name, after
        case Sequel(items):
            yield from _steps((*items, *after))
        case Alternatives(branches):
            for branch in branches:
                yield from _steps((branch, *after))
        case Repeat(inner, least, most, reluctant):
            again = (inner, Repeat(inner, max(least - 1, 0), None if most is None else most - 1, reluctant), *after)
            ways = [again] if least else [after] if most == 0 else [after, again] if reluctant else [again, after]
            for way in ways:
                yield from _steps(way)
