"""Each difference has the one cause that the table in views/cause.py gives it."""

from dataclasses import replace

import pytest

from tests.views.test_compare import VIEW
from views.cause import Cause, cause
from views.compare import MeasureDifference


@pytest.mark.parametrize(
    ("measure", "unequal", "differ", "copies", "declared", "expected"),
    [
        ("n", 0, 0, 0, {}, "none"),
        ("n", 0, 0, 3, {}, "none"),
        ("n", 1, 1, 0, {}, "unexplained"),
        ("n", 1, 1, 3, {}, "duplicate"),
        ("n", 1, 0, 0, {"n": 0.5}, "none"),
        ("n", 1, 1, 0, {"n": 0.5}, "unexplained"),
        ("rate", 1, 1, 0, {}, "unexplained"),
        ("f", 1, 0, 0, {}, "float order"),
        ("f", 1, 1, 3, {}, "float order"),
        ("f", 1, 1, 0, {"f": 0.1}, "unexplained"),
        ("f", 1, 1, 3, {"f": 0.1}, "duplicate"),
        ("half", 1, 1, 0, {}, "sketch"),
        ("half", 1, 1, 0, {"half": 0.1}, "unexplained"),
        ("about", 1, 0, 0, {}, "sketch"),
        ("about", 1, 1, 0, {}, "unexplained"),
        ("about", 1, 1, 3, {}, "duplicate"),
    ],
)
def test_the_first_that_fits(
    measure: str, *, unequal: int, differ: int, copies: int, declared: dict[str, float], expected: Cause
) -> None:
    view = replace(VIEW, tolerances=declared)
    difference = MeasureDifference(measure, 9, unequal, differ)
    assert cause(view, difference, copies=copies) == expected
    compacted = replace(view, source=replace(view.source, compacted=True))
    assert cause(compacted, difference, copies=copies) == ("compaction" if expected == "unexplained" else expected)
