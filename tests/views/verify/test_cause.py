"""Each difference has the one cause that the table in views/verify/cause.py gives it."""

from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest

from tandem.views.measures import count
from tandem.views.verify.cause import Cause, cause
from tandem.views.verify.compare import MeasureDifference
from tandem.views.view import View
from tandem.views.windows import hopping, session
from tests.samples import SAMPLES
from tests.views.verify.test_compare import VIEW


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
        ("half", 1, 0, 0, {}, "sketch"),
        ("half", 1, 1, 0, {}, "unexplained"),
        ("half", 1, 1, 3, {}, "duplicate"),
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


def test_copies_excuse_no_more_than_they_can_have_done() -> None:
    """Each changes the answers that it is in; a count by one, anything else by any amount."""
    far = {"rows": 9, "unequal": 2, "differ": 2, "absolute": 7.0}

    def told(view: View, measure: str, copies: int) -> Cause:
        return cause(view, MeasureDifference(measure, **far), copies=copies)  # type: ignore[arg-type]  # all are numbers

    assert [told(VIEW, "n", copies) for copies in (0, 2, 6, 7)] == ["unexplained"] * 3 + ["duplicate"]
    assert [told(VIEW, "d", copies) for copies in (0, 1, 2)] == ["unexplained"] * 2 + ["duplicate"]
    some = replace(VIEW, measures={**VIEW.measures, "some": count(filter="i > 0")})
    assert [told(some, "some", copies) for copies in (2, 7)] == ["unexplained", "duplicate"]
    hops = replace(VIEW, window=hopping(timedelta(hours=3), every=timedelta(hours=1)))
    assert [told(hops, "n", copies) for copies in (2, 3)] == ["unexplained", "duplicate"]
    assert [told(hops, "d", copies) for copies in (0, 1)] == ["unexplained", "duplicate"]


def as_they_are(events: pa.Table) -> pa.Table:
    return events


def test_where_an_event_changes_the_windows_of_others_copies_excuse_anything() -> None:
    sessions = replace(VIEW, window=session(minutes=1))
    assert cause(sessions, MeasureDifference("n", 9, 9, 9, absolute=99), copies=1) == "duplicate"
    made = replace(VIEW, source=replace(SAMPLES, prepare=as_they_are))
    assert cause(made, MeasureDifference("n", 9, 9, 9, absolute=99), copies=1) == "duplicate"
