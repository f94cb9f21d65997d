"""A measure or a window is shown as the definition that makes it: read as Python, it is that measure or window again."""

from datetime import timedelta
from decimal import Decimal
from inspect import isfunction, signature
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tandem
from tandem.views.measures import (
    approx_quantiles,
    approx_top_k,
    count,
    covariance,
    funnel,
    histogram,
    kurtosis,
    matches,
    measure_registry,
    pairs,
    stddev,
    total,
)
from tandem.views.windows import all_time, delta, hopping, punctuation, session, tumbling
from tests.agreement.windows import WINDOWS
from tests.laws.test_measures import MEASURES
from tests.samples import share
from tests.views.measures.test_custom import Range

NAMES = {name: getattr(tandem, name) for name in tandem.__all__} | {"timedelta": timedelta, "Decimal": Decimal, "Range": Range}
PARTS = {
    "count()": count(),
    'count(filter="status >= 500")': count(filter="status >= 500"),
    'total("bytes", filter="page = \'/\'")': total("bytes", filter="page = '/'"),
    "total('\"user\" + 1')": total('"user" + 1'),
    'approx_quantiles("ms", (0.5,))': approx_quantiles("ms", (0.5,)),
    "histogram(\"ms\", (1, 2.5, Decimal('10')))": histogram("ms", (1, 2.5, Decimal(10))),
    'stddev("ms", population=True)': stddev("ms", population=True),
    'kurtosis("ms")': kurtosis("ms"),
    'funnel(("a", "b > 1"), within=timedelta(minutes=5), by="who", limit=10)': funnel(
        ["a", "b > 1"], within=timedelta(minutes=5), by="who", limit=10
    ),
    'matches("a{2,}? (b | c)", define={"a": "x > 1", "c": "y"}, limit=1000, by="who")': matches(
        "a{2,}?  (b | c)", define={"a": "x > 1", "c": "y"}, by="who"
    ),
    'pairs("a", "b > 1", within=timedelta(minutes=5), first=True, limit=10000)': pairs(
        "a", "b > 1", within=timedelta(minutes=5), first=True
    ),
    'covariance("a", "b")': covariance("a", "b"),
    'approx_top_k("path", 10)': approx_top_k("path"),
    'Range("i").filtered("flag")': Range("i").filtered("flag"),
    "tumbling(days=7)": tumbling(days=7),
    "tumbling(minutes=90)": tumbling(hours=1.5),
    "tumbling(seconds=1.5)": tumbling(seconds=1.5),
    "hopping(timedelta(seconds=30), every=timedelta(seconds=10))": hopping(timedelta(seconds=30), every=timedelta(seconds=10)),
    "session(hours=48)": session(hours=48),
    'delta("celsius", by=0.5)': delta("celsius", by=0.5),
    "punctuation(\"kind = 'end'\")": punctuation("kind = 'end'"),
    "all_time()": all_time(),
}


@pytest.mark.parametrize(("text", "part"), PARTS.items())
def test_it_is_shown_as_it_is_written(text: str, part: object) -> None:
    assert str(part) == text


def read(part: object) -> Any:
    return eval(str(part), dict(NAMES))


@pytest.mark.parametrize("part", [*PARTS.values(), *MEASURES.values()], ids=str)
def test_what_is_shown_makes_it(part: object) -> None:
    assert read(part) == part


@pytest.mark.parametrize("kind", WINDOWS)
@share(10)
@given(st.data())
def test_every_window_that_is_shown_makes_it(kind: str, data: st.DataObject) -> None:
    window = data.draw(WINDOWS[kind]).window
    assert read(window) == window


@pytest.mark.parametrize("text", ["", "a'b", 'a"b', "a'\"b", "a\\b", "a\nb", "ä🙂", "a\0b"])
def test_any_text_is_written_so_that_it_can_be_read(text: str) -> None:
    assert read(total(text)) == total(text)
    assert read(total("x", filter=text)) == total("x", filter=text)


@pytest.mark.parametrize("name", [name for name, one in vars(measure_registry).items() if isfunction(one)])
def test_every_measure_that_is_shown_makes_it(name: str) -> None:
    make = getattr(measure_registry, name)
    given = {"fractions": (0.5, 0.99), "edges": (10, 100), "k": 3, "limit": 5, "steps": ("a", "b"), "within": timedelta(hours=1)}
    given |= {"pattern": "a+ b", "define": {"a": "x > PREV(x)"}}
    needed = [one.name for one in signature(make).parameters.values() if one.default is one.empty]
    measure = make(**{parameter: given.get(parameter, f"a {parameter}") for parameter in needed})
    assert str(measure).startswith(f"{name}(")
    assert read(measure) == measure
