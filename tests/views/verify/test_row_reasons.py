"""The reasons of a row that differs: certain where figures exclude the others, each that is possible otherwise."""

from dataclasses import replace

import pytest

from tandem.views.measures import count, maximum, mean, total
from tandem.views.verify.compare import answers
from tandem.views.verify.row_diff import RowDifference, differing_rows
from tandem.views.verify.row_reasons import DiffGrounds, DiffReason, grounds, same_meaning
from tandem.views.view import View
from tests.samples import SAMPLES
from tests.views.verify.test_compare import answered

OLD = View(SAMPLES, keys={"s": "s"}, measures={"n": count(), "most": maximum("i"), "sum": total("i")}, name="v")
NEW = replace(OLD, measures={"n": count(), "most": maximum("i + 1"), "sum": total("i")})
BOTH = {"n": (1, 2), "most": (1, 3)}


def row(measures: dict[str, tuple[int | None, int | None]], only: str | None = None) -> RowDifference:
    return RowDifference({"s": "a"}, only, measures, 1.0, 1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("known", "touched", "reasons", "certain"),
    [
        (DiffGrounds(True, {}, 0, True), True, ["new definition"], True),
        (DiffGrounds(True, {}, 3, True), False, ["new definition"], True),
        (DiffGrounds(True, {}, 3, True), True, ["new definition", "repaired duplicates"], False),
        (DiffGrounds(True, {"n": "duplicate"}, 3, True), False, ["new definition", "unexplained"], True),
        (DiffGrounds(False, {"n": "duplicate", "most": "duplicate"}, 3, True), True, ["repaired duplicates"], True),
        (DiffGrounds(False, {"n": "duplicate", "most": "duplicate"}, 3, True), False, ["unexplained"], True),
        (DiffGrounds(False, {"n": "unexplained", "most": "sketch"}, 0, True), True, ["sketch", "unexplained"], True),
        (DiffGrounds(True, {}, 3, False), True, ["new definition", "repaired duplicates", "other records"], False),
        (DiffGrounds(False, {}, 0, False), True, ["other records"], True),
    ],
)
def test_a_row_has_the_reasons_that_are_possible(
    known: DiffGrounds, *, touched: bool, reasons: list[DiffReason], certain: bool
) -> None:
    assert known.of(row(BOTH), touched=touched) == (tuple(reasons), certain)


def test_a_measure_of_the_same_meaning_has_no_new_definition() -> None:
    assert same_meaning(OLD, NEW, ({}, {})) == {"n", "sum"}
    assert same_meaning(OLD, OLD, ({}, {})) == {"n", "most", "sum"}
    # An event that one side rejects for a measure counts in none of its measures.
    assert same_meaning(OLD, NEW, ({}, {"expression": 1})) == frozenset()
    assert same_meaning(OLD, replace(NEW, where="i > 0"), ({}, {})) == frozenset()
    sides = [answers(view, answered(view, events)) for view, events in ((OLD, EVENTS), (NEW, [*EVENTS, EVENTS[0]]))]
    known = grounds(OLD, NEW, (sides[0], sides[1]), ({}, {}), copies=1, same_records=True)
    assert known == DiffGrounds(True, {"n": "duplicate", "sum": "duplicate"}, 1, True)
    (found,) = differing_rows(OLD, NEW, *sides)
    assert known.of(found, touched=True) == (("new definition", "repaired duplicates"), False)
    assert str(known.of(found, touched=True)) == "new definition or repaired duplicates"


def test_a_row_that_changed_after_the_common_position_has_late_events() -> None:
    known, then = DiffGrounds(False, {"n": "duplicate"}, 1, True), row({"n": (1, 2)})
    reasons = known.of(then, touched=True)
    assert known.later(then, (then, reasons), duplicates=False) == reasons
    assert known.later(row({"n": (1, 3)}), (then, reasons), duplicates=False) == (("late events", "repaired duplicates"), True)
    assert known.later(then, None, duplicates=False) == (("late events",), True)
    assert known.later(then, None, duplicates=True) == (("late events", "repaired duplicates"), False)
    assert replace(known, redefined=True).later(then, None, duplicates=False) == (("new definition", "late events"), False)


def test_rows_of_one_side_come_first_and_the_largest_of_them_before() -> None:
    view = replace(OLD, measures={"n": count(), "usual": mean("i")})
    ours = answers(view, answered(view, [{**EVENTS[0], "s": "a"}, {**EVENTS[0], "s": "b", "i": 90}]))
    theirs = answers(view, answered(view, [{**EVENTS[0], "s": "b", "i": 91}, {**EVENTS[0], "s": "c", "i": 500}]))
    found = differing_rows(view, view, ours, theirs)
    assert [(one.row["s"], one.only) for one in found] == [("c", "new"), ("a", "old"), ("b", None)]
    assert found[1].measures == {"n": (1, None), "usual": (3.0, None)}


EVENTS = [{"s": "a", "i": 3}, {"s": "a", "i": 4}]
