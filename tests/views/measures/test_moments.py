"""Moments: exact of integers and decimals at any size, stable of doubles, defined as in Spark."""

import math
import statistics
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.views.errors import DefinitionError
from tandem.views.kernel.kernel import Partial, merge, present
from tandem.views.measures import correlation, covariance, kurtosis, skewness, stddev, variance
from tandem.views.view import View, approximations, bind
from tests.samples import SAMPLES, share
from tests.views.kernel.test_fold_edges import answers, folded

DOUBLES = View(
    SAMPLES,
    measures={
        "variance": variance("f"),
        "stddev": stddev("f", population=True),
        "skewness": skewness("f"),
        "kurtosis": kurtosis("f"),
        "covariance": covariance("f", "i"),
        "correlation": correlation("i", "f"),
    },
)
INTEGERS = View(
    SAMPLES,
    measures={
        "variance": variance("i"),
        "stddev": stddev("i"),
        "skewness": skewness("i"),
        "kurtosis": kurtosis("i"),
        "covariance": covariance("i", "i"),
        "correlation": correlation("i", "-i"),
    },
)
# Thousandths: no power of a deviation falls below the smallest double.
thousandths = st.floats(-1e6, 1e6).map(lambda number: round(number, 3))
pairs = st.lists(st.tuples(thousandths, st.integers(-1000, 1000)), min_size=2, max_size=40)


def in_pieces(events: Sequence[dict[str, Any]], size: int) -> dict[str, Any]:
    """The one answer row over the events, folded so many at a time."""
    folds = [folded(DOUBLES, *events[start : start + size]) for start in range(0, len(events), size)]
    (row,) = present(DOUBLES, merge(DOUBLES, folds)).to_pylist()
    return row


@share(50)
@given(pairs, st.integers(1, 10))
def test_doubles_in_any_pieces_are_what_exact_arithmetic_gives(rows: list[tuple[float, int]], size: int) -> None:
    row = in_pieces([{"f": f, "i": i} for f, i in rows], size)
    xs, ys = [Fraction(f) for f, _ in rows], [Fraction(i) for _, i in rows]
    n, mean, other = len(rows), sum(xs) / len(rows), sum(ys) / len(rows)
    m2, m3, m4 = (sum((x - mean) ** power for x in xs) / n for power in (2, 3, 4))
    spread = float(max(abs(x) for x in xs)) ** 2
    assert row["variance"] == pytest.approx(float(m2 * n / (n - 1)), rel=1e-9, abs=spread * 1e-14)
    assert row["stddev"] == pytest.approx(math.sqrt(m2), rel=1e-9, abs=math.sqrt(spread * 1e-14))
    covered = sum((x - mean) * (y - other) for x, y in zip(xs, ys, strict=True)) / (n - 1)
    assert row["covariance"] == pytest.approx(float(covered), rel=1e-9, abs=math.sqrt(spread) * 1e-10)
    if float(m2) > spread * 1e-6:
        assert row["skewness"] == pytest.approx(float(m3) / float(m2) ** 1.5, rel=1e-6, abs=1e-6)
        assert row["kurtosis"] == pytest.approx(float(m4 / m2**2) - 3, rel=1e-6, abs=1e-6)


def one_by_one(view: View, events: Sequence[dict[str, Any]]) -> Partial:
    """The events, each folded by itself and merged with those before it."""
    merged = folded(view, events[0])
    for event in events[1:]:
        merged = merge(view, [merged, folded(view, event)])
    return merged


@share(30)
@given(st.lists(st.none() | thousandths, min_size=1, max_size=8))
def test_events_without_a_value_are_never_seen(values: list[float | None]) -> None:
    """Of a group without any value the states are null, however often they are merged; then they change no later value."""
    every = one_by_one(DOUBLES, [{"f": value, "i": number} for number, value in enumerate(values)])
    (row,) = present(DOUBLES, every).to_pylist()
    valued = [{"f": value, "i": number} for number, value in enumerate(values) if value is not None]
    if not valued:
        assert [column.null_count for column in every.states.columns[2:]] == [1] * (every.states.num_columns - 2)
        assert [row[name] for name in DOUBLES.measures] == [None] * len(DOUBLES.measures)
        return
    expected, spread = in_pieces(valued, len(valued)), max(abs(event["f"]) for event in valued) ** 2
    for name, least in (("variance", spread * 1e-14), ("covariance", math.sqrt(spread) * 1e-10)):
        known = expected[name]
        assert row[name] == (None if known is None else pytest.approx(known, rel=1e-9, abs=least)), name


@share(50)
@given(st.floats(-1e6, 1e6), st.integers(2, 12), st.integers(1, 12), st.booleans())
def test_equal_values_have_no_spread_however_they_are_merged(value: float, n: int, size: int, nulls: bool) -> None:  # noqa: FBT001  drawn
    """So a shape or a correlation is null, in every layer alike, and not what rounding makes of nothing."""
    events = [{"f": each, "i": 3} for each in ([value, None] if nulls else [value]) * n]
    assert in_pieces(events, size) == in_pieces([{"f": value, "i": 3}] * n, n)
    row = in_pieces(events, size)
    assert [row[name] for name in ("variance", "stddev", "covariance")] == [0, 0, 0]
    assert [row[name] for name in ("skewness", "kurtosis", "correlation")] == [None, None, None]


def test_a_small_spread_far_from_zero_does_not_cancel() -> None:
    """The naive sum of squares would lose all digits here."""
    values = [1e9 + offset for offset in (4.0, 7.0, 13.0, 16.0)]
    for size in (1, 2, 4):
        row = in_pieces([{"f": value, "i": n} for n, value in enumerate(values)], size)
        assert row["variance"] == pytest.approx(30.0, rel=1e-12)
        assert row["correlation"] == pytest.approx(statistics.correlation(values, [0, 1, 2, 3]), rel=1e-9)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_correlation_of_doubles_is_never_beyond_1(sign: int) -> None:
    """Rounding takes some of these on a line a little past it."""
    found = []
    for scale in range(1, 60):
        xx, yy = 0.1 * scale, 0.3 * scale
        xy = sign * math.nextafter(math.sqrt(xx) * math.sqrt(yy), math.inf)
        found.append(np.array([3.0, 0, 0, xx, yy, xy]).tobytes())
    (measured,) = (measure for measure in bind(DOUBLES).measures if measure.name == "correlation")
    assert {abs(each) for each in measured.aggregate.present([pa.array(found, pa.binary())]).to_pylist()} <= {1 - 2**-53, 1.0}


def test_a_pair_with_a_null_counts_nothing() -> None:
    view = View(SAMPLES, measures={"covariance": covariance("i", "d", population=True), "doubles": covariance("i", "f")})
    rows: list[dict[str, Any]] = [
        {"i": 1, "d": Decimal(2), "f": 2.0},
        {"i": 3, "d": Decimal(6), "f": 6.0},
        {"i": 100, "d": None},
        {"d": Decimal(100), "f": 100.0},
    ]
    (row,) = answers(view, *rows)
    assert (row["covariance"], row["doubles"]) == (2.0, 4.0)


def test_beyond_the_doubles_there_is_null() -> None:
    row = in_pieces([{"f": 1e308, "i": 1}, {"f": -1e308, "i": 2}], 1)
    assert row["variance"] is None


def test_only_doubles_are_approximate_and_only_numbers_are_taken() -> None:
    assert approximations(INTEGERS) == {}
    assert {name: how.kind for name, how in approximations(DOUBLES).items()} == dict.fromkeys(DOUBLES.measures, "order")
    for measure in (variance("s"), correlation("i", "s")):
        with pytest.raises(DefinitionError, match="is of type VARCHAR; this measure takes numbers"):
            bind(View(SAMPLES, measures={"m": measure}))


@pytest.mark.parametrize("field", ["f", "i", "d"])
def test_of_one_event_there_is_a_spread_of_all_and_none_of_a_sample(field: str) -> None:
    """Of doubles as of exact numbers; a lean and a weight of tails have no value where nothing spreads."""
    measures = {
        name: measure(field, population=population)
        for population, part in ((True, "all"), (False, "sample"))
        for name, measure in ((f"variance_{part}", variance), (f"stddev_{part}", stddev))
    }
    pairs = {"covariance": covariance(field, field), "correlation": correlation(field, field)}
    view = View(SAMPLES, measures={**measures, "skewness": skewness(field), "kurtosis": kurtosis(field), **pairs})
    value = Decimal("1.25") if field == "d" else 3
    one, nothing, two = (answers(view, *rows)[0] for rows in ([{field: value}], [{}], [{field: value}] * 2))
    assert (one["variance_all"], one["stddev_all"]) == (0.0, 0.0)
    assert {one[name] for name in ("variance_sample", "stddev_sample", "covariance", "correlation")} == {None}
    assert {nothing[name] for name in view.measures} == {None}
    assert {two[name] for name in ("variance_all", "variance_sample", "stddev_sample", "covariance")} == {0.0}
    assert {two[name] for name in ("skewness", "kurtosis", "correlation")} == {None}
