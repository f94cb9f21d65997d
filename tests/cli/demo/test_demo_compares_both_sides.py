"""The demo's comparison fails for every kind of wrong answer."""

from pathlib import Path
from typing import Any

import pytest

from tandem.cli.demo.checks.answers import NoTruth, compare
from tandem.views.project.project import load

VIEWS = load(Path(__file__).parents[3] / "examples" / "web").views
STATUS = {"status_counts": VIEWS["status_counts"]}


def row(status: int, requests: int, **other: Any) -> dict[str, Any]:
    return {
        "status": status,
        "window_start": "2026-11-01T00:00:00Z",
        "window_end": "2026-11-01T00:01:00Z",
        "requests": requests,
    } | other


TRUTH = [row(200, 3), row(404, 1)]


def checked(found: list[dict[str, Any]]) -> tuple[int, int]:
    check = compare("tail", STATUS, {"status_counts": TRUTH}, {"status_counts": found})
    assert len(check.examples) == min(check.differ, 5)
    assert check.passed == (check.differ == 0)
    return check.answers, check.differ


def test_equal_rows_in_any_order_agree() -> None:
    assert checked(TRUTH[::-1]) == (2, 0)


def test_labels_without_expected_values_are_not_compared() -> None:
    labelled = [one | {"window_state": "final", "_exactness": ["late_duplicate"]} for one in TRUTH]
    assert checked(labelled) == (2, 0)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([row(200, 3)], (2, 1)),
        ([*TRUTH, row(500, 1)], (3, 1)),
        ([row(200, 4), row(404, 1)], (2, 1)),
        ([*TRUTH, row(404, 1)], (2, 1)),
        ([row(200, 3), row(404, 1, window_start="2026-11-01T00:01:00Z")], (3, 2)),
        ([row(200, 3), row(404, None)], (2, 1)),
        ([], (2, 2)),
    ],
    ids=["missing", "extra", "wrong", "twice", "other window", "null", "nothing"],
)
def test_a_difference_on_either_side_is_counted(found: list[dict[str, Any]], expected: tuple[int, int]) -> None:
    assert checked(found) == expected


def test_without_answers_the_check_fails() -> None:
    assert not compare("tail", STATUS, {"status_counts": []}, {"status_counts": []}).passed


def test_every_exact_measure_is_compared() -> None:
    with pytest.raises(NoTruth, match="measure 'requests' of view 'status_counts'"):
        compare("tail", STATUS, {"status_counts": [{"status": 200}]}, {"status_counts": TRUTH})
    with pytest.raises(NoTruth, match="view 'page_traffic'"):
        compare("tail", VIEWS, {"status_counts": TRUTH}, dict.fromkeys(VIEWS, TRUTH))
