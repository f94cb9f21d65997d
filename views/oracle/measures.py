"""What every built-in measure says of the rows of a key and window, in plain Python over all of them."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import md5
from typing import Any, NamedTuple

from tandem.views.measures import Measure
from tandem.views.measures.approx_count_distinct import ApproxCountDistinct
from tandem.views.measures.approx_quantiles import ApproxQuantiles
from tandem.views.measures.approx_top_k import ApproxTopK
from tandem.views.measures.collect_set import CollectSet
from tandem.views.measures.comoments import Comoment
from tandem.views.measures.conditions import Condition
from tandem.views.measures.count import Count
from tandem.views.measures.count_distinct import CountDistinct
from tandem.views.measures.extremes import Extreme
from tandem.views.measures.filtered import Filtered
from tandem.views.measures.first_last import One, Several
from tandem.views.measures.histogram import Histogram
from tandem.views.measures.mean import Mean
from tandem.views.measures.moments import Moment
from tandem.views.measures.sample import Sample
from tandem.views.measures.theta_sketch import ThetaSketch
from tandem.views.measures.total import Total
from tandem.views.oracle import estimates, numbers
from tandem.views.oracle.counted_events import Row

_INDEXES = 2**31
"""A place in a partition as a number: offset times this, plus the index, where a value holds several events."""


class Seen(NamedTuple):
    """What a measure looks at of one row: its expressions' values."""

    row: Row
    inputs: tuple[Any, ...]


Answer = Callable[[Sequence[Seen]], Any]
Near = Callable[[Any, Sequence[Seen], float], bool]


@dataclass(frozen=True)
class Meaning:
    """`answer` is what a measure says of rows. `near` tells whether a published answer that is not equal to it will do.

    It takes the published answer, the rows, and the error that the measure states (0 where it states none).
    """

    answer: Answer
    near: Near = lambda _published, _seen, _error: False


def meaning(measure: Measure, *, indexed: bool = False) -> Meaning | None:
    """The measure said plainly; None of a measure of the project's own. `indexed`: the source's values hold several events."""
    match measure:
        case Filtered():
            return meaning(measure.measure, indexed=indexed)
        case Count():
            return Meaning(len)
        case Total():
            return Meaning(lambda seen: numbers.added(_values(seen)), _near_total)
        case Mean():
            return Meaning(lambda seen: numbers.averaged(_values(seen)), _near_mean)
        case Moment():
            return _moment(measure)
        case Comoment():
            return _comoment(measure)
        case Condition():
            which = any if measure.which == "or" else all
            return Meaning(lambda seen: which(_values(seen)) if _values(seen) else None)
        case Extreme():
            extreme = min if measure.which == "min" else max
            return Meaning(lambda seen: extreme(_values(seen), default=None))
        case Histogram():
            return Meaning(lambda seen: _histogram(_values(seen), measure.edges))
        case CollectSet():
            return Meaning(lambda seen: _set(_values(seen), measure.limit))
        case CountDistinct():
            return Meaning(lambda seen: _size(_set(_values(seen), measure.limit)))
        case One():
            return Meaning(lambda seen: next((one.inputs[0] for one in _ordered(seen, measure.end, by=None)), None))
        case Several():
            return Meaning(lambda seen: _several(seen, measure))
        case Sample():
            return Meaning(lambda seen: _sampled(seen, measure.k, indexed=indexed))
        case ApproxCountDistinct() | ThetaSketch():
            return Meaning(_different, lambda published, seen, error: estimates.near_number(published, _different(seen), error))
        case ApproxQuantiles():
            return _quantiles(measure)
        case ApproxTopK():
            return _frequent(measure)
    return None


def _values(seen: Sequence[Seen]) -> list[Any]:
    """The values of a measure with one input, NULLs left out."""
    return [one.inputs[0] for one in seen if one.inputs[0] is not None]


def _pairs(seen: Sequence[Seen]) -> list[tuple[Any, Any]]:
    return [(first, second) for first, second in (one.inputs for one in seen) if first is not None and second is not None]


def _doubles(values: Sequence[Any]) -> bool:
    return bool(values) and isinstance(values[0], float)


def _near_total(published: Any, seen: Sequence[Seen], _error: float) -> bool:
    values = _values(seen)
    return _doubles(values) and numbers.near_sum(published, values)


def _near_mean(published: Any, seen: Sequence[Seen], _error: float) -> bool:
    values = _values(seen)
    return _doubles(values) and numbers.near_sum(published, values, of=len(values))


def _moment(measure: Moment) -> Meaning:
    def near(published: Any, seen: Sequence[Seen], _error: float) -> bool:
        values = _values(seen)
        return _doubles(values) and numbers.near_spread(published, values, measure.statistic, population=measure.population)

    return Meaning(lambda seen: numbers.spread(_values(seen), measure.statistic, population=measure.population), near)


def _comoment(measure: Comoment) -> Meaning:
    def near(published: Any, seen: Sequence[Seen], _error: float) -> bool:
        pairs = _pairs(seen)
        doubles = bool(pairs) and any(isinstance(value, float) for value in pairs[0])
        return doubles and numbers.near_together(published, pairs, measure.statistic, population=measure.population)

    return Meaning(lambda seen: numbers.together(_pairs(seen), measure.statistic, population=measure.population), near)


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


def _ordered(seen: Sequence[Seen], end: str, *, by: int | None) -> list[Seen]:
    """In order of what decides, NULLs of it left out: an input and then, or else, when and where the event was."""

    def place(one: Seen) -> tuple[Any, ...]:
        decisive = () if by is None else (one.inputs[by],)
        # The rows that a source makes of one event are at one place; a missing value comes last.
        return (*decisive, one.row.at, one.row.generation, *one.row.place[1:], one.inputs[0] is None, *one.inputs[:1])

    held = [one for one in seen if one.inputs[by or 0] is not None]
    return sorted(held, key=place, reverse=end == "max")


def _several(seen: Sequence[Seen], measure: Several) -> list[Any]:
    if measure.by is None:
        return [one.inputs[0] for one in _ordered(seen, measure.end, by=None)[: measure.k]]
    held = _ordered(seen, measure.end, by=1)[: measure.k]
    return [{"by": one.inputs[1], "value": one.inputs[0]} for one in held]


def _sampled(seen: Sequence[Seen], k: int, *, indexed: bool) -> list[Any]:
    """The values whose places have the smallest hashes: the first 60 bits of the MD5 of `topic id/partition/place`."""

    def dice(one: Seen) -> int:
        topic, partition, offset, index = one.row.place
        place = offset * _INDEXES + index if indexed else offset
        return int(md5(f"{topic}/{partition}/{place}".encode(), usedforsecurity=False).hexdigest()[:15], 16)

    drawn = sorted((dice(one), one.inputs[0]) for one in seen if one.inputs[0] is not None)
    return [value for _, value in drawn[:k]]


def _different(seen: Sequence[Seen]) -> int:
    return len(set(_values(seen)))


def _quantiles(measure: ApproxQuantiles) -> Meaning:
    return Meaning(
        lambda seen: estimates.ranked(_values(seen), measure.fractions),
        lambda published, seen, error: estimates.near_ranks(published, _values(seen), measure.fractions, error),
    )


def _frequent(measure: ApproxTopK) -> Meaning:
    return Meaning(
        lambda seen: estimates.most_frequent(_values(seen), measure.k),
        lambda published, seen, error: estimates.near_counts(published, _values(seen), measure.k, error),
    )
