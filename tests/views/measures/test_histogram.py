"""Histograms: every value in exactly one interval, edges where they are written."""

from decimal import Decimal
from typing import Any

import pytest

from tests.samples import SAMPLES
from tests.views.kernel.test_fold_edges import answers, folded
from views.errors import DefinitionError
from views.kernel.kernel import present
from views.kernel.rows import to_rows
from views.measures import histogram
from views.view import View, bind


def test_an_edge_belongs_to_the_interval_above_it() -> None:
    view = View(SAMPLES, measures={"i": histogram("i", (0, 10)), "d": histogram("d", (0.1, 0.2)), "f": histogram("f", (0.1,))})
    rows = [{"i": i, "d": Decimal(d), "f": f} for i, d, f in ((-1, "0.09", 0.05), (0, "0.10", 0.1), (10, "0.20", 0.1 + 2**-56))]
    (row,) = to_rows(view, present(view, folded(view, *rows)))
    assert row["i"] == {"<0": 1, "0": 1, "10": 1}
    assert row["d"] == {"<0.1": 1, "0.1": 1, "0.2": 1}
    assert row["f"] == {"<0.1": 1, "0.1": 2}


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
