"""Histograms: every value in exactly one interval, edges where they are written."""

from bisect import bisect_right
from collections import Counter
from decimal import ROUND_FLOOR, Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.views.errors import DefinitionError
from tandem.views.measures import count, histogram
from tandem.views.view import View, bind
from tests.samples import SAMPLES
from tests.views.kernel.test_fold_edges import answers

eighths = st.integers(-2400, 2400).map(lambda n: Decimal(n) / 8)
thousandths = st.integers(-3000, 3000).map(lambda n: Decimal(n).scaleb(-3))
edges = st.lists(eighths | thousandths, min_size=1, max_size=4, unique=True).map(sorted)


@given(edges, st.data())
def test_edges_between_two_numbers_of_a_type_are_meant_as_they_are_written(drawn: list[Decimal], data: st.DataObject) -> None:
    """Also where the type has fewer digits: whole numbers, and decimals of two places, on either side of each edge."""
    near = st.sampled_from([edge + step for edge in drawn for step in map(Decimal, ("-1", "-0.01", "0", "0.01", "1"))])
    wholes = [int(one) for one in data.draw(st.lists(near, max_size=6))]
    cents = [one.quantize(Decimal("0.01"), ROUND_FLOOR) for one in data.draw(st.lists(near, max_size=6))]
    view = View(SAMPLES, measures={"i": histogram("i", drawn), "d": histogram("d", drawn), "n": count()})
    (row,) = answers(view, {}, *({"i": i} for i in wholes), *({"d": d} for d in cents))
    for name, values in (("i", wholes), ("d", cents)):
        places = Counter(bisect_right(drawn, value) for value in values)
        assert list(row[name].values()) == [places[place] for place in range(len(drawn) + 1)]


def test_nulls_are_in_no_interval_and_no_edge_is_out_of_reach() -> None:
    view = View(SAMPLES, measures={"i": histogram("i", (-(10**40), 10**40)), "d": histogram("d", (10**37,))})
    (row,) = answers(view, {}, {"i": 2**63 - 1, "d": Decimal("9" * 36 + ".99")})
    assert row["i"] == {f"<{-(10**40)}": 0, str(-(10**40)): 1, str(10**40): 0}
    assert row["d"] == {f"<{10**37}": 1, str(10**37): 0}


@pytest.mark.parametrize("edges", [(), (2, 1), (1, 1), (1, float("nan")), (float("inf"),), (float("-inf"), 1), ("1",), (True, 2)])
def test_edges_are_numbers_that_rise(edges: tuple[Any, ...]) -> None:
    with pytest.raises(DefinitionError, match="edges"):
        histogram("i", edges)


def test_only_numbers_have_a_histogram() -> None:
    with pytest.raises(DefinitionError, match="'s' is of type VARCHAR; this measure takes numbers"):
        bind(View(SAMPLES, measures={"h": histogram("s", (1,))}))
