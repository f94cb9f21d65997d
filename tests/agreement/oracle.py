"""The expected answer of a view in plain Python, written beside the SQL for the kernel, and sharing nothing with it.

Events are dicts. An expression is a pair: SQL, and a function of the event that gives its value, None for NULL, or raises
Rejected. A measure is the kernel's measure beside a function of the list of values that it is asked about.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal, localcontext
from fractions import Fraction
from hashlib import md5
from typing import Any

from tandem.views.measures import (
    Measure,
    approx_count_distinct,
    approx_quantiles,
    approx_top_k,
    bool_and,
    bool_or,
    collect_set,
    correlation,
    count,
    count_distinct,
    covariance,
    first,
    first_k,
    funnel,
    histogram,
    kurtosis,
    last,
    last_k,
    matches,
    max_by,
    maximum,
    mean,
    min_by,
    minimum,
    pairs,
    sample,
    skewness,
    stddev,
    theta_sketch,
    total,
    variance,
)
from tests.samples import GENERATIONS
from tests.together.sequences import Path, chain, funnel_of, many, matches_by_trying, matches_of, pairs_of, symbol

Event = Mapping[str, Any]
Value = Callable[[Event], Any]
Log = Mapping[tuple[str, int], Sequence[Event]]
"""Events by topic id and partition, in the order of their offsets, which they hold as `_offset`."""


class Rejected(Exception):
    """This event is not for this view."""


@dataclass(frozen=True)
class Said:
    """The same said twice."""

    sql: str
    value: Value


@dataclass(frozen=True)
class Asked:
    """A measure said twice: `answer` takes what `value` gave for the events of a group, NULLs left out."""

    measure: Measure
    value: Value
    answer: Callable[[list[Any]], Any]


@dataclass(frozen=True)
class Placed:
    """An event of one key that counts, where it was in the log, and what its expressions gave."""

    partition: tuple[str, int]
    offset: int
    event: Event
    values: dict[str, Any]


Split = Callable[[list[Placed]], Iterable[tuple[tuple[Any, ...], Placed]]]
"""From the events of a key, in the order of the log, to the columns of the windows that each is in."""


def oracle(
    log: Log,
    *,
    where: Value | None,
    keys: Mapping[str, Value],
    window: Split,
    measures: Mapping[str, Asked],
) -> tuple[dict[tuple[Any, ...], dict[str, Any]], Counter[str]]:
    """The answers by keys and window, and the rejections by reason."""
    groups: dict[tuple[Any, ...], list[Placed]] = defaultdict(list)
    rejected: Counter[str] = Counter()
    for partition, offset, event in ((*place, event) for place, event in _in_order(log)):
        try:
            if where is not None and where(event) is not True:
                continue
            # All of an event's expressions fail before any of them is found not to be finite.
            values: dict[str, Any] = {}
            faults: list[str] = []
            for name, value in [*keys.items(), *((name, asked.value) for name, asked in measures.items())]:
                try:
                    values[name] = value(event)
                except Rejected as fault:
                    faults.append(str(fault))
        except Rejected as fault:
            rejected[str(fault)] += 1
            continue
        if faults:
            rejected["expression" if "expression" in faults else faults[0]] += 1
        else:
            groups[tuple(values[name] for name in keys)].append(Placed(partition, offset, event, values))
    windows = {(*key, *place): members for key, placed in groups.items() for place, members in _together(window(placed)).items()}
    answers = {
        group: {name: asked.answer([v[name] for v in members if v[name] is not None]) for name, asked in measures.items()}
        for group, members in windows.items()
    }
    return answers, rejected


def _in_order(log: Log) -> Iterator[tuple[tuple[tuple[str, int], int], Event]]:
    for partition, events in log.items():
        for event in events:
            yield (partition, event["_offset"]), event


def _together(found: Iterable[tuple[tuple[Any, ...], Placed]]) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    members: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for place, one in found:
        members[place].append(one.values)
    return members


def field(name: str) -> Value:
    return lambda event: event[name]


def known(name: str, function: Callable[[Any], Any]) -> Value:
    """A function of a field that is NULL where the field is, as most of SQL's are."""
    return lambda event: None if event[name] is None else function(event[name])


def positive_zero(number: float) -> float:
    return number + 0.0


def bigint(number: int) -> int:
    if not -(2**63) <= number < 2**63:
        raise Rejected("expression")
    return number


def thirty_eight_digits(number: int) -> int:
    if abs(number) >= 10**38:
        raise Rejected("expression")
    return number


def finite(number: float) -> float:
    if not math.isfinite(number):
        raise Rejected("not_finite")
    return number


def remainder(number: int, divisor: int) -> int:
    """With the sign of the number, as in SQL."""
    return int(math.copysign(abs(number) % divisor, number)) if abs(number) < 2**53 else _large_remainder(number, divisor)


def _large_remainder(number: int, divisor: int) -> int:
    return (abs(number) % divisor) * (1 if number >= 0 else -1)


def quotient(number: int, divisor: int) -> int:
    """Towards zero, as in SQL; nothing divides by zero."""
    if divisor == 0:
        raise Rejected("expression")
    return abs(number) // abs(divisor) * (1 if (number < 0) == (divisor < 0) else -1)


def parsed(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise Rejected("expression") from None


def added(values: list[Any]) -> Any:
    """The exact sum; for doubles the double nearest to it, None where that is none."""
    if not values:
        return None
    if isinstance(values[0], float):
        return nearest(sum(map(Fraction, values), Fraction(0)))
    with localcontext(prec=100):
        return sum(values[1:], values[0])


def averaged(values: list[Any]) -> float | None:
    return nearest(sum(map(Fraction, values), Fraction(0)) / len(values)) if values else None


def nearest(number: Fraction) -> float | None:
    try:
        return float(number)
    except OverflowError:
        return None


def central(values: list[Any], power: int) -> Fraction:
    """The mean of the deviations from the mean, to a power."""
    exact = [Fraction(value) for value in values]
    middle = sum(exact, Fraction(0)) / len(exact)
    return sum(((value - middle) ** power for value in exact), Fraction(0)) / len(exact)


def sampled(values: list[Any]) -> float | None:
    return nearest(central(values, 2) * len(values) / (len(values) - 1)) if len(values) > 1 else None


def deviation(values: list[Any]) -> float | None:
    spread = nearest(central(values, 2)) if values else None
    return None if spread is None else math.sqrt(spread)


def skew(values: list[Any]) -> float | None:
    if not values or not central(values, 2):
        return None
    third = central(values, 3)
    return math.copysign(math.sqrt(float(third**2 / central(values, 2) ** 3)), third)


def excess(values: list[Any]) -> float | None:
    return float(central(values, 4) / central(values, 2) ** 2 - 3) if values and central(values, 2) else None


def together(pairs: list[Any]) -> Fraction:
    """The mean of the products of both deviations."""
    first, second = ([Fraction(pair[side]) for pair in pairs] for side in (0, 1))
    middles = sum(first, Fraction(0)) / len(pairs), sum(second, Fraction(0)) / len(pairs)
    return sum(((x - middles[0]) * (y - middles[1]) for x, y in zip(first, second, strict=True)), Fraction(0)) / len(pairs)


def covaried(pairs: list[Any]) -> float | None:
    return nearest(together(pairs) * len(pairs) / (len(pairs) - 1)) if len(pairs) > 1 else None


def correlated(pairs: list[Any]) -> float | None:
    if not pairs:
        return None
    spread = central([x for x, _ in pairs], 2) * central([y for _, y in pairs], 2)
    return math.copysign(math.sqrt(float(together(pairs) ** 2 / spread)), together(pairs)) if spread else None


def both(one: Value, other: Value) -> Value:
    """A pair, NULL if either is."""

    def value(event: Event) -> Any:
        pair = one(event), other(event)
        return None if None in pair else pair

    return value


def smallest(values: list[Any]) -> Any:
    return min(values, default=None)


def largest(values: list[Any]) -> Any:
    return max(values, default=None)


def rank(fraction: float) -> Callable[[list[Any]], float | None]:
    """The smallest value that at least the fraction of all values do not exceed."""
    return lambda values: float(sorted(values)[max(0, math.ceil(fraction * len(values)) - 1)]) if values else None


def both_ranks(values: list[Any]) -> dict[str, float | None]:
    return {"0.5": rank(0.5)(values), "0.9": rank(0.9)(values)}


def either(one: Value, other: Value) -> Value:
    """OR with three values."""

    def value(event: Event) -> Any:
        answers = {one(event), other(event)}
        return True if True in answers else None if None in answers else False

    return value


HUGE_I = Said("i::HUGEINT * i", known("i", lambda i: thirty_eight_digits(i * i)))
NEAR_LIMIT = Said("i + 9223372036854775000", known("i", lambda i: bigint(i + 9223372036854775000)))
CENTS = Said("d", field("d"))
DOUBLE = Said("f", known("f", positive_zero))

FILTERS = (
    Said("flag", field("flag")),
    Said("NOT flag OR i > 0", either(known("flag", lambda flag: not flag), known("i", lambda i: i > 0))),
    Said("s <> 'a'", known("s", lambda s: s != "a")),
    Said("10 // i > 2", known("i", lambda i: quotient(10, i) > 2)),
    Said("d IS NOT NULL -- and a comment", lambda e: e["d"] is not None),
    Said("CAST(digits AS INTEGER) > 0", known("digits", lambda text: parsed(text) > 0)),
    Said("map_contains(m, 'b')", known("m", lambda m: "b" in m)),
    Said("m['ä'] > 0", known("m", lambda m: None if m.get("ä") is None else m["ä"] > 0)),
)


def buckets(*edges: Any) -> Callable[[list[Any]], dict[str, int]]:
    """How many values lie below the first edge, and from each edge to below the next."""

    def counted(values: list[Any]) -> dict[str, int]:
        at = Counter(sum(Fraction(value) >= Fraction(edge) for edge in edges) for value in values)
        return {name: at[place] for place, name in enumerate([f"<{edges[0]}", *map(str, edges)])}

    return counted


def different(limit: int) -> Callable[[list[Any]], list[Any] | None]:
    """The different values in order, None if they are more than the limit."""
    return lambda values: sorted(set(values)) if len(set(values)) <= limit else None


def at_most(limit: int) -> Callable[[list[Any]], int | None]:
    """How many different values there are, None if they are more than the limit."""
    return lambda values: len(set(values)) if len(set(values)) <= limit else None


def most_frequent(k: int) -> Callable[[list[Any]], list[dict[str, Any]]]:
    """The k most frequent values, each with its number three times."""

    def counted(values: list[Any]) -> list[dict[str, Any]]:
        found = sorted(Counter(values).items(), key=lambda one: (-one[1], one[0]))
        return [{"value": value, "estimate": n, "lower": n, "upper": n} for value, n in found[:k]]

    return counted


def located(value: Value) -> Value:
    """The value after the hash of the event's position, NULL if the value is."""

    def with_hash(event: Event) -> Any:
        found, position = value(event), "/".join(str(event[name]) for name in ("_topic_id", "_partition", "_offset"))
        return None if found is None else (md5(position.encode()).hexdigest()[:15], found)

    return with_hash


def drawn(k: int) -> Callable[[list[Any]], list[Any]]:
    """The values of the k smallest hashes."""
    return lambda values: [value for _, value in sorted(values)[:k]]


def where_not_zero(event: Event) -> Any:
    return None if not event["i"] else quotient(100, event["i"])


def above_one(number: int | None) -> Any:
    return None if number is None or quotient(100, number) <= 1 else 1


def every(values: list[Any]) -> bool | None:
    return all(values) if values else None


KEYS = (
    Said("flag", field("flag")),
    Said("s", field("s")),
    Said("b", field("b")),
    Said("day", field("day")),
    DOUBLE,
    Said("d", field("d")),
    HUGE_I,
    Said("i % 3", known("i", lambda i: remainder(i, 3))),
    Said("100 // i", known("i", lambda i: quotient(100, i))),
    Said("coalesce(s, '?')", lambda e: "?" if e["s"] is None else e["s"]),
    Said("length(s)", known("s", len)),
    Said("CAST(digits AS INTEGER)", known("digits", parsed)),
    Said("CASE WHEN i > 0 THEN 'more' ELSE s END", lambda e: "more" if e["i"] is not None and e["i"] > 0 else e["s"]),
    Said("date_trunc('hour', \"at\")", lambda e: e["at"].replace(minute=0, second=0, microsecond=0)),
    Said("CAST(NULL AS VARCHAR)", lambda e: None),
    Said("m['a']", known("m", lambda m: m.get("a"))),
    Said("array_to_string(map_keys(m), '+')", known("m", "+".join)),
    Said("cardinality(m)", known("m", len)),
)


def ordered(value: Value) -> Value:
    """The value after when and where it was."""

    def place(event: Event) -> Any:
        given = value(event)
        where = (event["at"], GENERATIONS.index(event["_topic_id"]), event["_partition"], event["_offset"])
        return None if given is None else (*where, given)

    return place


def deciding(by: Value, payload: Value) -> Value:
    """What decides, when and where it was, and what comes with it."""

    def place(event: Event) -> Any:
        decisive, with_it = by(event), payload(event)
        where = (event["at"], GENERATIONS.index(event["_topic_id"]), event["_partition"], event["_offset"])
        return None if decisive is None else (decisive, *where, with_it)

    return place


def decided(found: list[Any]) -> list[dict[str, Any]]:
    return [{"by": one[0], "value": one[-1]} for one in found]


FUNNEL = (
    lambda e: e["i"] is not None and e["i"] >= 0,
    lambda e: e["flag"],
    lambda e: e["i"] is not None and e["i"] < 0,
)
VALUES_OF_PAIRS = {"left_total": lambda e: e["i"], "right_total": lambda e: e["i"]}


LOW = {
    "low": lambda rows, at: (
        at + 1 < len(rows) and None not in (rows[at]["i"], rows[at + 1]["i"]) and rows[at]["i"] < rows[at + 1]["i"]
    ),
    "flag": lambda rows, at: rows[at]["flag"],
}


def compare(event: Event, other: Event) -> int:
    """Whether `i` is less (-1), more (1) or the same; 0 if one is missing."""
    left, right = event["i"], other["i"]
    return 0 if left is None or right is None else (left > right) - (left < right)


def rises(rows: Sequence[Event], start: int, path: Path) -> bool:
    last = max(place for place, name in enumerate(path) if name == "low")
    return compare(rows[start + len(path) - 1], rows[start + last]) > 0


def is_low(rows: Sequence[Event], start: int, path: Path) -> bool:
    event = rows[start + len(path) - 1]
    return bool(event["flag"]) or compare(event, rows[start]) < 0


CLIMB = chain(
    symbol("low", is_low),
    many(symbol("any"), 1, reluctant=True),
    symbol("up", rises),
    many(symbol("low", is_low), 0, 1),
)


def in_order(placed: list[Any]) -> list[Event]:
    """The events that `ordered` placed."""
    return [event for *_, event in sorted(placed, key=lambda place: place[:-1])]


MEASURES = {
    "n": Asked(count(), lambda e: 1, len),
    "total_of_a_key": Asked(total("m['a']"), known("m", lambda m: m.get("a")), added),
    "keys_of_maps": Asked(count_distinct("array_to_string(map_keys(m), '+')", limit=3), known("m", "+".join), at_most(3)),
    "total_i": Asked(total("i"), field("i"), added),
    "total_near_limit": Asked(total(NEAR_LIMIT.sql), NEAR_LIMIT.value, added),
    "total_huge": Asked(total(HUGE_I.sql), HUGE_I.value, added),
    "total_d": Asked(total("d"), CENTS.value, added),
    "total_f": Asked(total("f"), DOUBLE.value, added),
    "total_not_finite": Asked(total("f * f"), known("f", lambda f: finite(f * f)), added),
    "mean_i": Asked(mean("i"), field("i"), averaged),
    "mean_huge": Asked(mean(HUGE_I.sql), HUGE_I.value, averaged),
    "mean_d": Asked(mean("d"), CENTS.value, averaged),
    "mean_f": Asked(mean("f"), DOUBLE.value, averaged),
    "variance_i": Asked(variance("i"), field("i"), sampled),
    "variance_huge": Asked(variance(HUGE_I.sql), HUGE_I.value, sampled),
    "variance_d": Asked(variance("d"), CENTS.value, sampled),
    "stddev_d": Asked(stddev("d", population=True), CENTS.value, deviation),
    "skewness_i": Asked(skewness("i"), field("i"), skew),
    "kurtosis_i": Asked(kurtosis("i"), field("i"), excess),
    "kurtosis_d": Asked(kurtosis("d"), CENTS.value, excess),
    "covariance": Asked(covariance("i", "d"), both(field("i"), CENTS.value), covaried),
    "correlation": Asked(correlation("d", "i"), both(CENTS.value, field("i")), correlated),
    "positive": Asked(count(filter="i > 0"), lambda e: 1 if e["i"] is not None and e["i"] > 0 else None, len),
    "flagged": Asked(total("d", filter="flag"), lambda e: e["d"] if e["flag"] else None, added),
    "guarded": Asked(mean("100 // i", filter="i <> 0 -- or it fails"), where_not_zero, averaged),
    "filter_fails": Asked(count(filter="100 // i > 1"), lambda e: above_one(e["i"]), len),
    "spread_of_some": Asked(variance("i", filter="s = 'a'"), lambda e: e["i"] if e["s"] == "a" else None, sampled),
    "ranks_of_some": Asked(
        approx_quantiles("f", (0.5, 0.9), filter="flag"), lambda e: DOUBLE.value(e) if e["flag"] else None, both_ranks
    ),
    "any": Asked(bool_or("i > 0"), known("i", lambda i: i > 0), lambda values: any(values) if values else None),
    "all": Asked(bool_and("i > 0", filter="flag"), lambda e: e["i"] > 0 if e["flag"] and e["i"] is not None else None, every),
    "histogram_i": Asked(histogram("i", (-3, 0, 2.5, 2**62)), field("i"), buckets(-3, 0, 2.5, 2**62)),
    "histogram_d": Asked(histogram("d", (Decimal("-0.005"), 0, 10**40)), CENTS.value, buckets(Decimal("-0.005"), 0, 10**40)),
    "histogram_f": Asked(
        histogram("f", (0, 1.25), filter="flag"), lambda e: DOUBLE.value(e) if e["flag"] else None, buckets(0, 1.25)
    ),
    "first_i": Asked(first("i"), ordered(field("i")), lambda found: min(found)[-1] if found else None),
    "last_s": Asked(last("s"), ordered(field("s")), lambda found: max(found)[-1] if found else None),
    "first_flagged": Asked(
        first("d", filter="flag"),
        ordered(lambda e: e["d"] if e["flag"] else None),
        lambda found: min(found)[-1] if found else None,
    ),
    "first_three": Asked(first_k("i", 3), ordered(field("i")), lambda found: [one[-1] for one in sorted(found)[:3]]),
    "last_two": Asked(last_k("s", 2), ordered(field("s")), lambda found: [one[-1] for one in sorted(found)[::-1][:2]]),
    "top": Asked(
        max_by("s", "i", 3),
        deciding(field("i"), field("s")),
        lambda found: decided(sorted(found, key=lambda one: one[:-1])[::-1][:3]),
    ),
    "bottom": Asked(
        min_by("d", "f", 2, filter="flag"),
        deciding(lambda e: DOUBLE.value(e) if e["flag"] else None, field("d")),
        lambda found: decided(sorted(found, key=lambda one: one[:-1])[:2]),
    ),
    "funnel": Asked(
        funnel(("i >= 0", "flag", "i < 0"), within=timedelta(days=3), by="s", limit=6),
        ordered(lambda e: e),
        lambda events: funnel_of(in_order(events), FUNNEL, timedelta(days=3), lambda e: e["s"], 6),
    ),
    "matches": Asked(
        matches("low+? any? flag", define={"low": "i < NEXT(i)", "flag": "flag"}, by="s", limit=6),
        ordered(lambda e: e),
        lambda events: matches_of(in_order(events), "low+? any? flag", LOW, 6, lambda e: e["s"]),
    ),
    "matches_of_rows": Asked(
        matches("low any+? up low?", define={"up": "i > low.i", "low": "flag OR i < FIRST(i)"}, limit=9),
        ordered(lambda e: e),
        lambda events: matches_by_trying(in_order(events), CLIMB) if len(events) <= 9 else None,
    ),
    "pairs": Asked(
        pairs("i >= 0", "flag", within=timedelta(days=3), by="s", limit=6),
        ordered(lambda e: e),
        lambda events: pairs_of(in_order(events), FUNNEL[:2], timedelta(days=3), lambda e: e["s"], limit=6),
    ),
    "valued_pairs": Asked(
        pairs("i >= 0", "flag", within=timedelta(days=3), first=True, left_value="i", right_value="i"),
        ordered(lambda e: e),
        lambda events: pairs_of(in_order(events), FUNNEL[:2], timedelta(days=3), first=True, values=VALUES_OF_PAIRS),
    ),
    "min_s": Asked(minimum("s"), field("s"), smallest),
    "max_s": Asked(maximum("s"), field("s"), largest),
    "min_b": Asked(minimum("b"), field("b"), smallest),
    "max_f": Asked(maximum("f"), DOUBLE.value, largest),
    "min_d": Asked(minimum("d"), CENTS.value, smallest),
    "max_t": Asked(maximum("t"), field("t"), largest),
    "min_day": Asked(minimum("day"), field("day"), smallest),
    "max_flag": Asked(maximum("flag"), field("flag"), largest),
    "distinct_s": Asked(approx_count_distinct("s"), field("s"), lambda values: len(set(values))),
    "distinct_b": Asked(approx_count_distinct("b"), field("b"), lambda values: len(set(values))),
    "distinct_i": Asked(approx_count_distinct("i"), field("i"), lambda values: len(set(values))),
    "distinct_f": Asked(approx_count_distinct("f"), DOUBLE.value, lambda values: len(set(values))),
    **{
        f"collect_set_{name}": Asked(collect_set(said.sql, limit=3), said.value, different(3))
        for name, said in zip(("flag", "s", "b", "day", "f", "d", "huge"), KEYS, strict=False)
    },
    "collect_set_some": Asked(collect_set("t", filter="flag"), lambda e: e["t"] if e["flag"] else None, different(1000)),
    "count_distinct": Asked(count_distinct("i", limit=2), field("i"), at_most(2)),
    "theta_s": Asked(theta_sketch("s"), field("s"), lambda values: len(set(values))),
    "theta_b": Asked(theta_sketch("b"), field("b"), lambda values: len(set(values))),
    "theta_d": Asked(theta_sketch("d", filter="flag"), lambda e: e["d"] if e["flag"] else None, lambda values: len(set(values))),
    "frequent_s": Asked(approx_top_k("s", 3), field("s"), most_frequent(3)),
    "frequent_b": Asked(approx_top_k("b", 3), field("b"), most_frequent(3)),
    "frequent_f": Asked(approx_top_k("f", 3), DOUBLE.value, most_frequent(3)),
    "frequent_huge": Asked(approx_top_k(HUGE_I.sql, 3), HUGE_I.value, most_frequent(3)),
    "frequent_t": Asked(approx_top_k("t", 3, filter="flag"), lambda e: e["t"] if e["flag"] else None, most_frequent(3)),
    "sample_s": Asked(sample("s", 4), located(field("s")), drawn(4)),
    "sample_d": Asked(sample("d", 2, filter="flag"), located(lambda e: e["d"] if e["flag"] else None), drawn(2)),
    "ranks_i": Asked(approx_quantiles("i", (0.5, 0.9)), field("i"), both_ranks),
    "ranks_f": Asked(approx_quantiles("f", (0.5, 0.9)), DOUBLE.value, both_ranks),
}


def plain(value: Any) -> Any:
    """An answer as the oracle writes it: integers that travel as decimals are integers again."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    return int(value) if isinstance(value, Decimal) and value.as_tuple().exponent == 0 else value
