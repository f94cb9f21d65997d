"""The plain oracle of `views/oracle` agrees with the kernel and with the tests' own oracle, and shares no code with them."""

import inspect
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.cli.dev.measures_page import _ARGUMENTS as ARGUMENTS
from tandem.views import oracle as said_plainly
from tandem.views.kernel.kernel import Partial, merge, partial, prepare, present
from tandem.views.measures import (
    Measure,
    approx_count_distinct,
    approx_quantiles,
    approx_top_k,
    correlation,
    count,
    covariance,
    derived,
    first,
    first_k,
    kurtosis,
    last,
    mean,
    measure_registry,
    sample,
    skewness,
    stddev,
    theta_sketch,
    total,
    variance,
)
from tandem.views.source.event import Event
from tandem.views.source.offset_ranges import EMPTY
from tandem.views.source.source import Source, events_schema
from tandem.views.view import View
from tandem.views.windows import all_time, count_window, delta, hopping, punctuation, session, sliding_count_window, tumbling
from tests.agreement.drawn import Log, drawn, logs
from tests.agreement.oracle import plain
from tests.agreement.windows import WINDOWS
from tests.samples import EPOCH, SAMPLES, cases, share, table
from tests.views.measures.test_custom import Range


@pytest.mark.parametrize("kind", WINDOWS)
@share(20, quick=cases(3, bug=5, longer=5))
@given(logs(), st.data())
def test_three_computations_agree(kind: str, log: Log, data: st.DataObject) -> None:
    said = drawn(data, kind)
    view = said.view
    events = table([event for events in log.values() for event in events])

    groups, rejected = said_plainly.grouped(view, events)

    answers, rejected_too = said.oracle(log)
    assert Counter(rejected) == rejected_too
    found = said_plainly.answers(view, groups)
    assert {group: {name: plain(one) for name, one in answer.items()} for group, answer in found.items()} == answers
    published = present(view, merge(view, [partial(view, events, EMPTY)]))
    assert {one.measure: (one.rows, one.differ) for one in said_plainly.compare(view, published, groups)} == {
        name: (len(answers), 0) for name in said.measures
    }


def test_the_oracle_evaluates_every_measure_of_the_platform() -> None:
    made = {name: one for name, one in vars(measure_registry).items() if inspect.isfunction(one)}
    for name, factory in made.items():
        given = [one.name for one in inspect.signature(factory).parameters.values() if one.default is one.empty]
        measure = factory(**{parameter: ARGUMENTS[parameter] for parameter in given})
        assert name == "derived" or said_plainly.meaning(measure) is not None, name
    assert said_plainly.meaning(Range("i")) is None


ESTIMATES: dict[str, Measure] = {
    "total": total("f"),
    "mean": mean("f"),
    "variance": variance("f"),
    "stddev": stddev("f", population=True),
    "skewness": skewness("f"),
    "kurtosis": kurtosis("f"),
    "covariance": covariance("f", "i"),
    "correlation": correlation("i", "f"),
    "ranks": approx_quantiles("i", (0, 0.1, 0.5, 0.99, 1)),
    "few_ranks": approx_quantiles("d", (0.1, 0.5), filter="i < 3000"),
    "different": approx_count_distinct("i"),
    "also_different": theta_sketch("i"),
    "often": approx_top_k("i % 2000 * (i % 2)", 5),
}


def many(number: int) -> pa.Table:
    dice = random.Random(20)
    events = [
        {
            "at": EPOCH + timedelta(seconds=n),
            "i": n * 7919 % 90_007,
            # Far from zero: a mean of these is rounded a good deal.
            "f": 1e6 + dice.gauss(0, 1),
            "d": Decimal(dice.randrange(10_000)) / 100,
        }
        for n in range(number)
    ]
    return table([dict.fromkeys(("flag", "s", "digits", "b", "day", "t")) | event for event in events])


def split(view: View, events: pa.Table, pieces: int) -> pa.Table:
    """What the kernel answers, folded in pieces."""
    size = events.num_rows // pieces
    return present(view, merge(view, [partial(view, events.slice(n * size, size), EMPTY) for n in range(pieces)]))


Change = Callable[[Any], Any]


def each(change: Change) -> Change:
    return lambda struct: {name: change(value) for name, value in struct.items()}


CHANGES: dict[str, Change] = {
    "total": lambda x: x * (1 + 1e-6),
    "mean": lambda x: x * (1 + 1e-6),
    "variance": lambda x: x * 1.01,
    "stddev": lambda x: x * 1.01,
    "skewness": lambda x: x + 0.1,
    "kurtosis": lambda x: x + 0.1,
    "covariance": lambda x: x + 100,
    "correlation": lambda x: x + 0.01,
    "ranks": each(lambda x: min(x + 6000, 89_999)),
    "few_ranks": each(lambda x: x + 0.01),
    "different": lambda n: n * 8 // 10,
    "also_different": lambda n: n * 13 // 10,
    "often": lambda values: [values[0] | {"upper": values[0]["lower"]}, *values[1:]],
}


def test_an_estimate_within_its_error_passes_and_a_wrong_one_fails() -> None:
    view = View(SAMPLES, measures=ESTIMATES)
    events = many(4300)
    groups, _ = said_plainly.grouped(view, events)
    published = wrong = split(view, events, 5)
    for number, field in enumerate(published.schema):
        if field.name in ESTIMATES:
            changed = [CHANGES[field.name](value) for value in published[field.name].to_pylist()]
            wrong = wrong.set_column(number, field, pa.array(changed, field.type))

    right = said_plainly.compare(view, published, groups)
    found = said_plainly.compare(view, wrong, groups)

    assert {one.measure: one.differ for one in right} == dict.fromkeys(ESTIMATES, 0)
    assert sum(one.unequal for one in right) > 5
    assert {one.measure: one.differ for one in found} == dict.fromkeys(ESTIMATES, 1)


def differing(view: View, published: pa.Table, events: pa.Table) -> dict[str, int]:
    differences = said_plainly.compare(view, published, said_plainly.grouped(view, events)[0])
    return {one.measure: one.differ for one in differences}


def test_derived_measures_use_the_published_answers_or_the_oracles() -> None:
    view = View(
        SAMPLES,
        measures={
            "n": count(),
            "total_i": total("i"),
            "total_f": total("f"),
            "different": approx_count_distinct("i"),
            "own": Range("i"),
            "per_event": derived("total_i / n"),
            "share": derived("different / n"),
            "rounded": derived("total_f / 3"),
            "of_own": derived("own + n"),
        },
    )
    events = many(300)
    published = split(view, events, 3)
    assert said_plainly.left_out(view) == ("own", "of_own")
    right = dict.fromkeys((name for name in view.measures if name not in said_plainly.left_out(view)), 0)
    assert differing(view, published, events) == right

    for name, wrong in (("per_event", 1.0), ("share", 0.5)):
        changed = published.set_column(published.column_names.index(name), name, pa.array([wrong]))
        assert differing(view, changed, events) == right | {name: 1}


def test_an_extra_row_and_a_missing_row_are_found() -> None:
    view = View(SAMPLES, keys={"i": "i"}, window=tumbling(minutes=1), measures={"n": count(), "first": first("f")})
    view = replace(view, measures={**view.measures, **ESTIMATES})
    events = table([dict.fromkeys(SAMPLES_FIELDS) | {"at": EPOCH, "i": n, "f": None} for n in range(3)])
    published = split(view, events, 1).sort_by("i")

    assert differing(view, published.slice(1), events) == dict.fromkeys(view.measures, 1)
    assert differing(view, published, events.slice(1)) == dict.fromkeys(view.measures, 1)
    assert differing(view, published, events.slice(0, 0)) == dict.fromkeys(view.measures, 3)
    assert differing(view, present(view, Partial(merge(view, []).states)), events) == dict.fromkeys(view.measures, 3)


SAMPLES_FIELDS = [name for name in events_schema(SAMPLES).names if not name.startswith("_")]


class Sold(Event):
    id: str
    cents: int


def test_the_first_duplicate_in_the_order_of_the_log_counts() -> None:
    source = Source(topic="sold", event=Sold, event_time="_append_time", identity=("id",), max_events_per_record=9, name="sold")
    places = [("new", 0, 0, 0), ("old", 1, 5, 0), ("old", 0, 7, 1), ("old", 0, 7, 0), ("unknown", 0, 0, 0)]
    events = pa.Table.from_pylist(
        [
            {"_topic_id": t, "_partition": p, "_offset": o, "_index": i, "_append_time": EPOCH, "id": "a", "cents": number}
            for number, (t, p, o, i) in enumerate(places)
        ],
        schema=events_schema(source),
    )
    generations = ("old", "new")

    def kept(some: pa.Table) -> list[int]:
        firsts = said_plainly.first_places(source, [some.slice(0, 2), some.slice(2)], generations)
        found: list[int] = said_plainly.counted(source, some, firsts, generations)["cents"].to_pylist()
        return found

    assert kept(events) == [3]
    assert kept(events.slice(0, 3)) == [2]
    assert kept(events.slice(0, 2)) == [1]
    assert kept(pa.concat_tables([events.slice(0, 1), events.slice(4)])) == [0]
    alone = Source(topic="sold", event=Sold, event_time="_append_time", name="sold")
    assert said_plainly.counted(alone, events, {}, generations) is events


def test_the_index_distinguishes_events_of_one_value() -> None:
    source = Source(topic="sold", event=Sold, event_time="_append_time", max_events_per_record=9, name="sold")
    place = {"_topic_id": "t", "_partition": 0, "_append_time": EPOCH}
    rows = [place | {"_offset": n // 3, "_index": n % 3, "id": str(n), "cents": n} for n in range(12)]
    events = prepare(source, pa.Table.from_pylist([*rows[::2], *rows[1::2]], schema=events_schema(source))).events
    measures = {
        "first": first_k("cents", 4),
        "last": last("id"),
        "drawn": sample("cents", 5),
        "different": approx_count_distinct("id"),
    }
    for window in (all_time(), count_window(5), sliding_count_window(4)):
        view = View(source, window=window, measures=measures)
        assert differing(view, split(view, events, 4), events) == dict.fromkeys(measures, 0)


def test_windows_end_where_the_definition_says() -> None:
    """What is exactly a gap later is another session; what has moved by exactly so much begins a window."""
    minutes = (0, 5, 10, 25, 34)
    events = table([dict.fromkeys(SAMPLES_FIELDS) | {"at": EPOCH + timedelta(minutes=m), "i": m, "f": m / 10} for m in minutes])

    def sizes(window: Any) -> list[int]:
        view = View(SAMPLES, window=window, measures={"n": count()})
        groups, _ = said_plainly.grouped(view, events)
        assert differing(view, split(view, events, 5), events) == {"n": 0}
        return [len(rows) for _, rows in sorted(groups.items())]

    assert sizes(session(minutes=10)) == [3, 2]
    assert sizes(session(minutes=5)) == [1] * 5
    assert sizes(delta("i", by=10)) == [2, 1, 2]
    assert sizes(delta("f", by=1)) == [2, 1, 2]
    assert sizes(punctuation("i = 10")) == [3, 2]
    assert sizes(hopping(timedelta(minutes=20), every=timedelta(minutes=10))) == [2, 3, 2, 2, 1]


def test_a_failing_expression_comes_before_a_value_that_is_not_finite() -> None:
    view = View(SAMPLES, keys={"k": "f * f"}, where="i // i = 1", measures={"n": count(filter="CAST(s AS INTEGER) > 0")})
    given = [(1, 1e300, "x"), (1, 1e300, "1"), (1, 2.0, "x"), (1, 2.0, "1"), (0, 1e300, "x"), (None, 1e300, "x")]
    events = table([dict.fromkeys(SAMPLES_FIELDS) | {"at": EPOCH, "i": i, "f": f, "s": s} for i, f, s in given])

    groups, rejected = said_plainly.grouped(view, events)

    assert rejected == partial(view, events, EMPTY).rejected == {"expression": 3, "not_finite": 1}
    assert {group: len(rows) for group, rows in groups.items()} == {(4.0, None, None): 1}
