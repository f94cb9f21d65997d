"""The demo's comparison turns red for every kind of wrong answer."""

from typing import Any

import pytest

from cli.demo.checks import NoTruth, compare
from examples.web.definitions import status_counts, user_bytes
from views.view import View

VIEWS: dict[str, View] = {"status_counts": status_counts, "user_bytes": user_bytes}


def row(status: int, requests: int, **other: Any) -> dict[str, Any]:
    return {
        "status": status,
        "window_start": "2026-11-01T00:00:00Z",
        "window_end": "2026-11-01T00:01:00Z",
        "requests": requests,
    } | other


TRUTH = [row(200, 3), row(404, 1)]


def checked(found: list[dict[str, Any]]) -> tuple[int, int]:
    check = compare("tail", {"status_counts": status_counts}, {"status_counts": TRUTH}, {"status_counts": found})
    assert len(check.examples) == min(check.differ, 5)
    assert check.passed == (check.differ == 0)
    return check.answers, check.differ


def test_equal_rows_in_any_order_agree() -> None:
    assert checked(TRUTH[::-1]) == (2, 0)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([row(200, 3)], (2, 1)),
        ([*TRUTH, row(500, 1)], (3, 1)),
        ([row(200, 4), row(404, 1)], (2, 1)),
        ([*TRUTH, row(404, 1)], (2, 1)),
        ([row(200, 3), row(404, 1, window_start="2026-11-01T00:01:00Z")], (3, 2)),
        ([row(200, 3), row(404, None)], (2, 1)),  # type: ignore[arg-type]
        ([], (2, 2)),
    ],
    ids=["missing", "extra", "wrong", "twice", "other window", "null", "nothing"],
)
def test_a_difference_on_either_side_is_counted(found: list[dict[str, Any]], expected: tuple[int, int]) -> None:
    assert checked(found) == expected


def test_no_answers_on_either_side_prove_nothing() -> None:
    assert not compare("tail", {"status_counts": status_counts}, {"status_counts": []}, {"status_counts": []}).passed


def test_every_exact_measure_is_compared() -> None:
    with pytest.raises(NoTruth, match="measure 'requests' of view 'status_counts'"):
        compare("tail", {"status_counts": status_counts}, {"status_counts": [{"status": 200}]}, {"status_counts": TRUTH})
    with pytest.raises(NoTruth, match="view 'user_bytes'"):
        compare("tail", VIEWS, {"status_counts": TRUTH}, {"status_counts": TRUTH, "user_bytes": []})
