"""Totals of integers and decimals are exact at any size, means are rounded once, and no sum overflows a state."""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.views.errors import DefinitionError
from tandem.views.kernel.kernel import Partial, merge, present
from tandem.views.measures import mean, minimum, total
from tandem.views.source.offset_ranges import EMPTY
from tandem.views.view import View, answer_schema, state_schema
from tests.samples import SAMPLES, WIDE, share
from tests.views.kernel.test_fold_edges import answers, folded

HUGE = "i::HUGEINT * 5000000000000000000"  # up to 38 digits
LARGEST_DOUBLE = 1.7976931348623157e308


@pytest.mark.parametrize("scale", [0, 1, 18, 19, 20, 21, 37, 38])
def test_decimals_of_every_scale(scale: int) -> None:
    largest = Decimal(10**38 - 1).scaleb(-scale, WIDE)
    view = View(
        SAMPLES, measures={"sum": total(f"CAST(s AS DECIMAL(38, {scale}))"), "mean": mean(f"CAST(s AS DECIMAL(38, {scale}))")}
    )
    least, smallest = largest.copy_negate(), Decimal(1).scaleb(-scale, WIDE)
    for values in ([largest] * 5, [least] * 5 + [smallest], [largest, least], [smallest] * 3, [largest, smallest]):
        (row,) = answers(view, *({"s": f"{value:f}"} for value in values))
        exact = sum(map(Fraction, values))
        assert Fraction(row["sum"]) == exact
        assert row["mean"] == float(exact / len(values))


def test_no_state_overflows_when_states_are_merged_by_the_million() -> None:
    view = View(SAMPLES, measures={"d": total("d"), "i": total("i"), "huge": total(HUGE)})
    largest = Decimal(10**38 - 1).scaleb(-2, WIDE)
    one = folded(
        view, {"d": largest, "i": 2**63 - 1}, {"d": largest.copy_negate(), "i": -(2**63)}, {"d": largest, "i": 2**63 - 1}
    )
    # Merging n copies of a table 60 times stands for n^60 events; the ranges play no part here.
    for _ in range(8):
        one = Partial(merge(view, [Partial(one.states)] * 10).states)
    (row,) = present(view, one).to_pylist()
    assert Fraction(row["d"]) == Fraction(largest) * 10**8
    assert row["i"] == (2**63 - 2) * 10**8
    assert row["huge"] == (2**63 - 2) * 5 * 10**18 * 10**8


@pytest.mark.parametrize("value", [2.0**900, -(2.0**900), math.nextafter(2.0**900, 0), math.nextafter(2.0**900, math.inf)])
def test_doubles_at_the_bound_from_which_on_they_are_added_up_apart(value: float) -> None:
    """Each is in one of the two sums, and none is in neither."""
    (row,) = answers(View(SAMPLES, measures={"sum": total("f"), "mean": mean("f")}), {"f": value}, {"f": 1.0})
    assert (row["sum"], row["mean"]) == (value + 1.0, (value + 1.0) / 2)


def test_doubles_that_are_added_up_apart_are_added_up_across_states() -> None:
    """Of several states with such a sum none is left out, whatever their order."""
    view = View(SAMPLES, measures={"sum": total("f"), "mean": mean("f")})
    values = [2.0**900, 3 * 2.0**901, 1.5 * 2.0**1000, -(2.0**1000), 2.0**899]
    for order in (values, values[::-1]):
        (row,) = present(view, merge(view, [folded(view, {"f": value}) for value in order])).to_pylist()
        exact = sum(map(Fraction, order))
        assert math.isclose(row["sum"], exact, rel_tol=1e-15)
        assert math.isclose(row["mean"], exact / 5, rel_tol=1e-15)


@share(40)
@given(st.sampled_from([17, 18, 23, 30, 38]), st.lists(st.integers(-(2**52), 2**52), min_size=1, max_size=9))
def test_means_of_small_decimals_with_many_digits(scale: int, units: list[int]) -> None:
    """Sums that a double holds, by a count times a power of ten that none may hold: rounded once."""
    values = [Decimal(unit).scaleb(-scale, WIDE) for unit in units]
    view = View(SAMPLES, measures={"mean": mean(f"CAST(s AS DECIMAL(38, {scale}))")})
    (row,) = answers(view, *({"s": f"{value:f}"} for value in values))
    assert row["mean"] == float(Fraction(sum(units), len(units) * 10**scale))


def test_a_mean_of_thousands_with_eighteen_digits() -> None:
    """Their count times 10^18 is no double, though both are."""
    view = View(SAMPLES, measures={"mean": mean("CAST(s AS DECIMAL(18, 18))")})
    for total_ in (1, 7, 2**52 - 1):
        (row,) = answers(view, *({"s": "0"} for _ in range(3000)), {"s": f"{Decimal(total_).scaleb(-18):f}"})
        assert row["mean"] == float(Fraction(total_, 3001 * 10**18))


def test_a_sum_of_doubles_comes_back_from_beyond_the_largest() -> None:
    view = View(SAMPLES, measures={"sum": total("f"), "mean": mean("f")})
    (row,) = answers(view, *({"f": value} for value in (LARGEST_DOUBLE, LARGEST_DOUBLE, -LARGEST_DOUBLE, -LARGEST_DOUBLE, 1.5)))
    assert row == {"window_start": None, "window_end": None, "window_state": "open", "sum": 1.5, "mean": 0.3}
    (row,) = answers(view, {"f": LARGEST_DOUBLE}, {"f": LARGEST_DOUBLE})
    assert row["sum"] is None
    assert row["mean"] == LARGEST_DOUBLE


def test_types_of_totals() -> None:
    measures = {
        "i": total("i"),
        "d": total("d"),
        "small": total("CAST(i AS DECIMAL(18, 3))"),
        "huge": total(HUGE),
        "f": total("f"),
    }
    view = View(SAMPLES, measures=measures)
    types = {field.name: field.type for field in answer_schema(view)}
    assert {name: types[name] for name in measures} == {
        "i": pa.decimal128(38, 0),
        "d": pa.decimal256(76, 2),
        "small": pa.decimal128(38, 3),
        "huge": pa.decimal256(76, 0),
        "f": pa.float64(),
    }
    assert [field.metadata for field in answer_schema(view) if field.name == "huge"] == [{b"kind": b"integer"}]
    huge_states = ["huge__sum", "huge__high", "huge__low"]
    assert state_schema(view).names[2:] == ["i", "d__sum", "d__high", "d__low", "small", *huge_states, "f__sum", "f__excess"]


@pytest.mark.parametrize("make", [total, mean])
@pytest.mark.parametrize("expression", ["s", "flag", "day", "t", "b"])
def test_what_cannot_be_added_is_refused(make: Any, expression: str) -> None:
    view = View(SAMPLES, measures={"m": make(expression)}, name="adding")
    with pytest.raises(DefinitionError, match=rf"view 'adding', measure 'm': '{expression}' is of type .* takes numbers"):
        state_schema(view)
    assert state_schema(View(SAMPLES, measures={"m": minimum(expression)}))
    assert folded(View(SAMPLES, measures={"m": minimum(expression)})).ranges == EMPTY
