"""Answers about sequences, by trying every choice of events: plain Python over lists of events in order."""

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from itertools import combinations
from typing import Any

Happened = Mapping[str, Any]
Condition = Callable[[Happened], bool | None]


def furthest(events: Sequence[Happened], steps: Sequence[Condition], within: timedelta) -> int:
    """How many steps the events of one user reach at most, in order, each at most `within` after the first one."""

    def reach(number: int, after: int, start: Any) -> int:
        if number == len(steps):
            return number
        choices = [
            place
            for place in range(after, len(events))
            if steps[number](events[place]) and (start is None or events[place]["at"] <= start + within)
        ]
        return max((reach(number + 1, place + 1, start or events[place]["at"]) for place in choices), default=number)

    return reach(0, 0, None)


def funnel_of(
    events: Sequence[Happened], steps: Sequence[Condition], within: timedelta, by: Callable[[Happened], Hashable], limit: int
) -> list[int] | None:
    """By step the number of users that reached it, of events in order; None if more than `limit` match a step."""
    matching = [event for event in events if by(event) is not None and any(step(event) for step in steps)]
    if len(matching) > limit:
        return None
    users = {by(event) for event in matching}
    reached = [furthest([event for event in matching if by(event) == user], steps, within) for user in users]
    return [sum(each >= number for each in reached) for number in range(1, len(steps) + 1)]


def matches_of(
    events: Sequence[Happened],
    pattern: str,
    define: Mapping[str, Callable[[Sequence[Happened], int], bool | None]],
    limit: int,
    by: Callable[[Happened], Hashable] = lambda event: 0,
) -> int | None:
    """How often a regular expression matches the events of each user, in order; None if there are more than `limit` events.

    Each event is a character: which symbols it has. A symbol is any of the characters that have it.
    """
    counted = [event for event in events if by(event) is not None]
    if len(counted) > limit:
        return None
    subsets = [tuple(names) for size in range(len(define) + 1) for names in combinations(define, size)]
    characters = {each: chr(0x4E00 + place) for place, each in enumerate(subsets)}

    def one_of(symbol: re.Match[str]) -> str:
        return f"[{''.join(sign for each, sign in characters.items() if symbol[0] in each or symbol[0] not in define)}]"

    expression = re.sub(r"[A-Za-z]\w*", one_of, pattern.replace("(", "(?:")).replace(" ", "")
    number = 0
    for user in {by(event) for event in counted}:
        whose = [event for event in counted if by(event) == user]
        symbols = [tuple(name for name, met in define.items() if met(whose, at)) for at in range(len(whose))]
        number += len(re.findall(expression, "".join(characters[each] for each in symbols)))
    return number


def pairs_of(
    events: Sequence[Happened],
    sides: tuple[Condition, Condition],
    within: timedelta,
    by: Callable[[Happened], Hashable] = lambda event: 0,
    *,
    first: bool = False,
    limit: int = 10_000,
    values: Mapping[str, Callable[[Happened], Any]] | None = None,
) -> dict[str, Any] | None:
    """The pairs of events in order, by nested loops over their places; None if more than `limit` are left or right ones.

    `values` are what `left_total` and `right_total` add up of the left and of the right event of each pair.
    """
    left, right = sides
    either = [event for event in events if by(event) is not None and (left(event) or right(event))]
    if len(either) > limit:
        return None
    waits: list[list[Decimal]] = []
    totals = dict.fromkeys(values or {}, Decimal(0))
    for place, one in enumerate(either):
        later = [other for other in either[place + 1 :] if by(other) == by(one) and right(other)]
        spans = [Decimal((other["at"] - one["at"]) // timedelta(microseconds=1)).scaleb(-6) for other in later]
        near = [span for span in spans if span <= Decimal(within // timedelta(microseconds=1)).scaleb(-6)] if left(one) else []
        waits.append(near[:1] if first else near)
        for name, value in (values or {}).items():
            for other in later[: len(waits[-1])]:
                totals[name] += Decimal(value(one if name == "left_total" else other) or 0)
    every = [span for near in waits for span in near]
    return {
        "count": len(every),
        "matched": sum(bool(near) for near in waits),
        "wait": sum(every, Decimal(0)).quantize(Decimal("1e-6")),
        "shortest": min(every, default=None),
        "longest": max(every, default=None),
        **totals,
    }


Path = tuple[str, ...]
"""The symbols of the rows of a match so far."""

Way = Callable[[Sequence[Happened], int, Path], Iterator[Path]]
"""From rows, the first of a match and its path the paths that a part of a pattern makes of it, the preferred first."""


def symbol(name: str, met: Callable[[Sequence[Happened], int, Path], bool | None] = lambda rows, start, path: True) -> Way:
    """One row; `met` takes the path with it."""

    def way(rows: Sequence[Happened], start: int, path: Path) -> Iterator[Path]:
        if start + len(path) < len(rows) and met(rows, start, (*path, name)):
            yield (*path, name)

    return way


def chain(*parts: Way) -> Way:
    """One part after the other."""

    def way(rows: Sequence[Happened], start: int, path: Path) -> Iterator[Path]:
        if not parts:
            yield path
            return
        for longer in parts[0](rows, start, path):
            yield from chain(*parts[1:])(rows, start, longer)

    return way


def many(part: Way, least: int, most: int = 99, *, reluctant: bool = False) -> Way:
    """A part several times."""

    def way(rows: Sequence[Happened], start: int, path: Path) -> Iterator[Path]:
        if least == 0 and reluctant:
            yield path
        if most:
            for longer in part(rows, start, path):
                yield from many(part, max(least - 1, 0), most - 1, reluctant=reluctant)(rows, start, longer)
        if least == 0 and not reluctant:
            yield path

    return way


def matches_by_trying(rows: Sequence[Happened], pattern: Way) -> int:
    """How often a pattern matches: the first path of those that begin at a row, and then on after it."""
    number = start = 0
    while start < len(rows):
        path = next(pattern(rows, start, ()), None)
        number += path is not None
        start += 1 if path is None else len(path)
    return number
