"""What every built-in measure says of the rows of a key and window, in plain Python over all of them."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from hashlib import md5
from operator import itemgetter
from typing import Any, NamedTuple

from tandem.views.instant import MICROSECOND
from tandem.views.measures import Measure
from tandem.views.measures.approx_count_distinct import ApproxCountDistinct
from tandem.views.measures.approx_quantiles import ApproxQuantiles
from tandem.views.measures.approx_top_k import ApproxTopK
from tandem.views.measures.comoments import Comoment
from tandem.views.measures.conditions import FilterCondition
from tandem.views.measures.count import Count
from tandem.views.measures.distinct_values import CollectSet, CountDistinct
from tandem.views.measures.extremes import Extreme
from tandem.views.measures.filtered import Filtered
from tandem.views.measures.first_last import NewestVersion, One, Several
from tandem.views.measures.histogram import Histogram
from tandem.views.measures.mean import Mean
from tandem.views.measures.moments import Moment
from tandem.views.measures.of_source import OfSource
from tandem.views.measures.sample import Sample
from tandem.views.measures.sequences.funnel import Funnel
from tandem.views.measures.sequences.matches import Matches
from tandem.views.measures.sequences.navigation import Away, MatchRow, Navigated, Referred, expressions_of
from tandem.views.measures.sequences.pairs import LEFT_TOTAL, EventPairs
from tandem.views.measures.theta_sketch import ThetaSketch
from tandem.views.measures.total import Total
from tandem.views.oracle import estimates, numbers
from tandem.views.oracle.counted_events import CountedRow
from tandem.views.oracle.patterns import Met, Taken, count_matches, row_away
from tandem.views.oracle.terms import derived_values
from tandem.views.source.value_types import ValueType

_INDEXES = 2**31
"""A place in a partition as a number: offset times this, plus the index, where a value holds several events."""


class MeasureInputs(NamedTuple):
    """What a measure looks at of one row: its expressions' values."""

    row: CountedRow
    inputs: tuple[Any, ...]


Answer = Callable[[Sequence[MeasureInputs]], Any]
Near = Callable[[Any, Sequence[MeasureInputs], float], bool]


@dataclass(frozen=True)
class OracleMeaning:
    """`answer` is what a measure says of rows. `near` tells whether a published answer that is not equal to it will do.

    It takes the published answer, the rows, and the error that the measure states (0 where it states none).
    """

    answer: Answer
    near: Near = lambda _published, _seen, _error: False


def meaning(measure: Measure, *, indexed: bool = False, types: Sequence[ValueType] = ()) -> OracleMeaning | None:
    """The measure said plainly; None of a measure of the project's own.

    `indexed`: the source's values hold several events. `types`: those of the measure's inputs, which its answer may need.
    """
    match measure:
        case Filtered():
            return meaning(measure.measure, indexed=indexed, types=types[1:])
        case OfSource():
            return meaning(measure.measure, indexed=indexed, types=types)
        case Count():
            return OracleMeaning(len)
        case Total():
            return OracleMeaning(lambda seen: numbers.added(_values(seen)), _near_total)
        case Mean():
            return OracleMeaning(lambda seen: numbers.averaged(_values(seen)), _near_mean)
        case Moment():
            return _moment(measure)
        case Comoment():
            return _comoment(measure)
        case FilterCondition():
            which = any if measure.which == "or" else all
            return OracleMeaning(lambda seen: which(_values(seen)) if _values(seen) else None)
        case Extreme():
            extreme = min if measure.which == "min" else max
            return OracleMeaning(lambda seen: extreme(_values(seen), default=None))
        case Histogram():
            return OracleMeaning(lambda seen: _histogram(_values(seen), measure.edges))
        case CollectSet():
            return OracleMeaning(lambda seen: _set(_values(seen), measure.limit))
        case CountDistinct():
            return OracleMeaning(lambda seen: _size(_set(_values(seen), measure.limit)))
        case One():
            return OracleMeaning(lambda seen: next((one.inputs[0] for one in _ordered(seen, measure.end, by=None)), None))
        case NewestVersion():
            return OracleMeaning(lambda events: newest(events, measure).inputs[0])
        case Several():
            return OracleMeaning(lambda seen: _several(seen, measure))
        case Funnel():
            return OracleMeaning(lambda rows: _funnel(rows, measure))
        case Matches():
            return OracleMeaning(lambda rows: _matches(rows, measure, types))
        case EventPairs():
            return OracleMeaning(lambda rows: _intervals(rows, measure))
        case Sample():
            return OracleMeaning(lambda seen: _sampled(seen, measure.k, indexed=indexed))
        case ApproxCountDistinct() | ThetaSketch():
            return OracleMeaning(
                _different, lambda published, seen, error: estimates.near_number(published, _different(seen), error)
            )
        case ApproxQuantiles():
            return _quantiles(measure)
        case ApproxTopK():
            return _frequent(measure)
    return None


def _values(seen: Sequence[MeasureInputs]) -> list[Any]:
    """The values of a measure with one input, NULLs left out."""
    return [one.inputs[0] for one in seen if one.inputs[0] is not None]


def _pairs(seen: Sequence[MeasureInputs]) -> list[tuple[Any, Any]]:
    return [(first, second) for first, second in (one.inputs for one in seen) if first is not None and second is not None]


def _doubles(values: Sequence[Any]) -> bool:
    return bool(values) and isinstance(values[0], float)


def _near_total(published: Any, seen: Sequence[MeasureInputs], _error: float) -> bool:
    values = _values(seen)
    return _doubles(values) and numbers.near_sum(published, values)


def _near_mean(published: Any, seen: Sequence[MeasureInputs], _error: float) -> bool:
    values = _values(seen)
    return _doubles(values) and numbers.near_sum(published, values, of=len(values))


def _moment(measure: Moment) -> OracleMeaning:
    def near(published: Any, seen: Sequence[MeasureInputs], _error: float) -> bool:
        values = _values(seen)
        return _doubles(values) and numbers.near_spread(published, values, measure.statistic, population=measure.population)

    return OracleMeaning(lambda seen: numbers.spread(_values(seen), measure.statistic, population=measure.population), near)


def _comoment(measure: Comoment) -> OracleMeaning:
    def near(published: Any, seen: Sequence[MeasureInputs], _error: float) -> bool:
        pairs = _pairs(seen)
        doubles = bool(pairs) and any(isinstance(value, float) for value in pairs[0])
        return doubles and numbers.near_together(published, pairs, measure.statistic, population=measure.population)

    return OracleMeaning(lambda seen: numbers.together(_pairs(seen), measure.statistic, population=measure.population), near)


def _histogram(values: Sequence[Any], edges: Sequence[Any]) -> dict[str, int]:
    """Edges are meant as they are written, 0.1 a tenth; of doubles they are doubles."""
    exact = [Fraction(float(edge)) if _doubles(values) else Fraction(str(edge)) for edge in edges]
    at = Counter(sum(Fraction(value) >= edge for edge in exact) for value in values)
    return {name: at[number] for number, name in enumerate([f"<{edges[0]}", *map(str, edges)])}


def _set(values: Sequence[Any], limit: int) -> list[Any] | None:
    different = sorted(set(values))
    return None if len(different) > limit else different


def _size(values: list[Any] | None) -> int | None:
    return None if values is None else len(values)


def _ordered(seen: Sequence[MeasureInputs], end: str, *, by: int | None) -> list[MeasureInputs]:
    """In order of what decides, NULLs of it left out: an input and then, or else, when and where the event was."""

    def place(one: MeasureInputs) -> tuple[Any, ...]:
        decisive = () if by is None else (one.inputs[by],)
        # The rows that a source makes of one event are at one place; a missing value comes last.
        return (*decisive, one.row.at, one.row.generation, *one.row.place[1:], one.inputs[0] is None, *one.inputs[:1])

    held = [one for one in seen if one.inputs[by or 0] is not None]
    return sorted(held, key=place, reverse=end == "max")


def newest(events: Sequence[MeasureInputs], measure: NewestVersion) -> MeasureInputs:
    """The latest of some rows, at least one, as a table orders them."""

    def place(event: MeasureInputs) -> tuple[Any, ...]:
        where = (event.row.generation, *event.row.place[1:])
        return (event.row.at, *where) if measure.order == "time" else where

    return max(events, key=place)


def _several(seen: Sequence[MeasureInputs], measure: Several) -> list[Any]:
    if measure.by is None:
        return [one.inputs[0] for one in _ordered(seen, measure.end, by=None)[: measure.k]]
    held = _ordered(seen, measure.end, by=1)[: measure.k]
    return [{"by": one.inputs[1], "value": one.inputs[0]} for one in held]


def _by_user(
    met: Sequence[tuple[CountedRow, Any, Sequence[Any]]], limit: int
) -> dict[Any, dict[tuple[Any, ...], list[bool]]] | None:
    """By user and place which conditions an event meets, if it meets one; None if more than `limit` rows do.

    The rows that a source makes of one event are one event.
    """
    users: dict[Any, dict[tuple[Any, ...], list[bool]]] = {}
    rows = set()
    for row, user, conditions in met:
        if user is not None and any(conditions):
            place = (row.at, row.generation, *row.place[1:])
            event = users.setdefault(user, {}).setdefault(place, [False] * len(conditions))
            event[:] = [bool(old or new) for old, new in zip(event, conditions, strict=True)]
            rows.add((user, place, *map(bool, conditions)))
    return None if len(rows) > limit else users


def _funnel(inputs: Sequence[MeasureInputs], measure: Funnel) -> list[int] | None:
    """By step the users that reached it: of each user, for every event of step 1, the furthest step from there on.

    From one start on, the earliest event of each step leaves the most room for the next.
    """
    users = _by_user([(each.row, each.inputs[0], each.inputs[1:]) for each in inputs], measure.limit)
    if users is None:
        return None
    furthest = []
    for events in users.values():
        ordered, reached = sorted(events), [0]
        for number, first in enumerate(ordered):
            step = 1 if events[first][0] else 0
            for place in ordered[number + 1 :]:
                if 0 < step < len(measure.steps) and events[place][step] and place[0] - first[0] <= measure.within:
                    step += 1
            reached.append(step)
        furthest.append(max(reached))
    return [sum(each > step for each in furthest) for step in range(len(measure.steps))]


def _matches(inputs: Sequence[MeasureInputs], measure: Matches, types: Sequence[ValueType]) -> int | None:
    """The number of matches in the sequences of all values of `by`."""
    others, alone = measure.navigations, measure.own_rows
    names = expressions_of([*others.values()])
    typed = dict(zip(names, types[len(types) - len(names) :], strict=True))
    free = frozenset(measure.pattern.symbols) - {*measure.pattern.defined}
    sequences: dict[Any, dict[tuple[Any, ...], dict[Any, Any]]] = {}
    distinct = set()
    for each in inputs:
        user, *values = each.inputs if measure.by is not None else (0, *each.inputs)
        place = (each.row.at, each.row.generation, *each.row.place[1:])
        met = frozenset(name for name, value in zip(alone, values, strict=False) if value)
        if user is not None:
            row = sequences.setdefault(user, {}).setdefault(place, {"symbols": free})
            row["symbols"] |= met
            row.update(zip(names, values[len(alone) :], strict=True))
            distinct.add((user, place, met, *values[len(alone) :]))
    if len(distinct) > measure.limit:
        return None
    references = [*dict.fromkeys(other.reference for other in others.values() if other.reference is not None)]
    ordered = [[by_place[place] for place in sorted(by_place)] for by_place in sequences.values()]
    return sum(
        count_matches(measure.pattern.text, len(rows), references, _met(rows, others, references, typed)) for rows in ordered
    )


def _met(
    rows: Sequence[dict[Any, Any]],
    others: Mapping[str, Navigated],
    references: Sequence[MatchRow],
    types: Mapping[str, ValueType],
) -> Met:
    """Whether a row has a symbol, by a condition of its own row, or of others."""

    @cache
    def conditions(symbol: str, read: int | None) -> list[Any]:
        """The condition of a symbol for each row, if it reads that one of the match."""
        other = others[symbol]

        def value(at: int, column: Away | Referred) -> Any:
            if isinstance(column, Away):
                return row_away(rows, at, column)
            return None if read is None else rows[read][column.expression]

        cells = [{name: value(at, column) for name, column in other.columns.items()} for at in range(len(rows))]
        return derived_values(
            other.term(types), cells, {name: types[each.expression].arrow for name, each in other.columns.items()}
        )

    def met(symbol: str, at: int, taken: Taken) -> bool:
        if symbol not in others:
            return symbol in rows[at]["symbols"]
        reference = others[symbol].reference
        return bool(conditions(symbol, None if reference is None else taken[references.index(reference)])[at])

    return met


def _intervals(inputs: Sequence[MeasureInputs], measure: EventPairs) -> dict[str, Any] | None:
    """Of each left event the times of right ones after it; of one user after the other."""
    users = _by_user([(each.row, each.inputs[2] if measure.by else 0, each.inputs[:2]) for each in inputs], measure.limit)
    if users is None:
        return None
    waits: list[Sequence[int]] = []
    values = {(each.row.at, each.row.generation, *each.row.place[1:]): each.inputs[2 + bool(measure.by) :] for each in inputs}
    totals = dict.fromkeys(measure.values, Decimal(0))
    for events in users.values():
        right = sorted(place for place, sides in events.items() if sides[1])
        for place in (place for place, sides in events.items() if sides[0]):
            later = right[bisect_right(right, place) : bisect_right(right, place[0] + measure.within, key=itemgetter(0))]
            joined = later[: 1 if measure.first else None]
            waits.append([(each[0] - place[0]) // MICROSECOND for each in joined])
            for number, name in enumerate(totals):
                added = [values[place if name == LEFT_TOTAL else each][number] or 0 for each in joined]
                with localcontext(prec=100):
                    totals[name] += sum(map(Decimal, added), Decimal(0))
    every = [wait for some in waits for wait in some]
    times = {"wait": sum(every), "shortest": min(every, default=None), "longest": max(every, default=None)}
    seconds = {name: None if time is None else Decimal(time).scaleb(-6) for name, time in times.items()}
    return {"count": len(every), "matched": sum(map(bool, waits)), **seconds, **totals}


def _sampled(seen: Sequence[MeasureInputs], k: int, *, indexed: bool) -> list[Any]:
    """The values whose places have the smallest hashes: the first 60 bits of the MD5 of `topic id/partition/place`."""

    def dice(one: MeasureInputs) -> int:
        topic, partition, offset, index = one.row.place
        place = offset * _INDEXES + index if indexed else offset
        return int(md5(f"{topic}/{partition}/{place}".encode(), usedforsecurity=False).hexdigest()[:15], 16)

    drawn = sorted((dice(one), one.inputs[0]) for one in seen if one.inputs[0] is not None)
    return [value for _, value in drawn[:k]]


def _different(seen: Sequence[MeasureInputs]) -> int:
    return len(set(_values(seen)))


def _quantiles(measure: ApproxQuantiles) -> OracleMeaning:
    return OracleMeaning(
        lambda seen: estimates.ranked(_values(seen), measure.fractions),
        lambda published, seen, error: estimates.near_ranks(published, _values(seen), measure.fractions, error),
    )


def _frequent(measure: ApproxTopK) -> OracleMeaning:
    return OracleMeaning(
        lambda seen: estimates.most_frequent(_values(seen), measure.k),
        lambda published, seen, error: estimates.near_counts(published, _values(seen), measure.k, error),
    )
