"""Exact sets and counts: every value up to the limit, null from the first one beyond it on, and never without a limit."""

from typing import Any

import pyarrow as pa
import pytest

from tandem.views.errors import DefinitionError
from tandem.views.kernel.kernel import merge, present
from tandem.views.kernel.rows import to_rows
from tandem.views.measures import Measure, collect_set, count_distinct, derived
from tandem.views.source.offset_ranges import EMPTY
from tandem.views.view import View, state_schema
from tests.samples import SAMPLES
from tests.views.kernel.test_fold_edges import answers, folded


def answered(measure: Measure, *values: Any) -> Any:
    """The measure's answer for these values of the field i."""
    (row,) = answers(View(SAMPLES, measures={"m": measure}), *({"i": value} for value in values))
    return row["m"]


def test_values_are_in_order_without_nulls_and_copies() -> None:
    assert answered(collect_set("i"), 3, None, 1, 3, 2) == [1, 2, 3]
    assert answered(count_distinct("i", limit=3), 3, None, 1, 3, 2) == 3


def test_no_value_is_not_too_many_values() -> None:
    for measure, nothing in ((collect_set, []), (count_distinct, 0)):
        assert (answered(measure("i", limit=1), None), answered(measure("i", limit=1), 1, 2)) == (nothing, None)


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_the_limit_itself_is_within_it(limit: int) -> None:
    assert answered(collect_set("i", limit=limit), *range(limit)) == list(range(limit))
    assert answered(count_distinct("i", limit=limit), *range(limit)) == limit
    for measure in (collect_set, count_distinct):
        assert answered(measure("i", limit=limit), *range(limit + 1)) is None


def test_what_is_beyond_the_limit_stays_there_and_keeps_no_value() -> None:
    view = View(SAMPLES, measures={"m": collect_set("i", limit=2)})
    beyond = folded(view, {"i": 1}, {"i": 2}, {"i": 3})
    by_merge = merge(view, [folded(view, {"i": 1}, {"i": 2}), folded(view, {"i": 3})])
    assert beyond.states.equals(by_merge.states)
    assert beyond.states["m"].to_pylist() == [[]]
    for more in (folded(view, {"i": 1}), folded(view, {"i": None}), folded(view), beyond):
        for pieces in ([beyond, more], [more, beyond]):
            assert present(view, merge(view, pieces))["m"].to_pylist() == [None]


def test_a_state_holds_the_values_in_their_own_type() -> None:
    view = View(SAMPLES, measures={"t": collect_set("t"), "d": collect_set("d")})
    assert state_schema(view).field("t").type == pa.list_(pa.timestamp("us", "UTC"))
    assert state_schema(view).field("d").type == pa.list_(pa.decimal128(38, 2))


def test_values_in_rows_are_written_like_any_others() -> None:
    texts = {"huge": "i::HUGEINT * i", "cents": "d", "day": 'CAST("at" AS DATE)', "at": '"at"', "b": "b", "none": "s"}
    view = View(SAMPLES, measures={name: collect_set(text) for name, text in texts.items()})
    (row,) = to_rows(view, present(view, folded(view, {"i": 2**62, "d": 12, "b": b"\xff"}, {"i": 2})))
    assert row["huge"] == [4, 2**124]
    assert row["cents"] == ["12.00"]
    assert row["day"] == ["2026-11-01"]
    assert row["at"] == ["2026-11-01T12:00:00Z"]
    assert row["b"] == ["/w=="]
    assert row["none"] == []


def test_some_rows_may_be_beyond_the_limit_and_others_not() -> None:
    view = View(SAMPLES, keys={"s": "s"}, measures={"m": collect_set("i", limit=2), "n": count_distinct("i", limit=2)})
    rows = [("a", 1), ("a", 2), ("a", 3), ("b", 5), ("b", 4), ("c", None), ("d", 6)]
    states = merge(view, [folded(view, {"s": s, "i": i}) for s, i in rows])
    found = {row["s"]: (row["m"], row["n"]) for row in to_rows(view, present(view, states))}
    assert found == {"a": (None, None), "b": ([4, 5], 2), "c": ([], 0), "d": ([6], 1)}


def test_lists_can_be_derived_from() -> None:
    view = View(SAMPLES, measures={"m": collect_set("i"), "largest": derived("m[-1]")})
    (row,) = answers(view, {"i": 1}, {"i": 7})
    assert row["largest"] == 7


def test_nothing_has_no_rows() -> None:
    view = View(SAMPLES, measures={"m": collect_set("i"), "n": count_distinct("i", limit=9)})
    assert present(view, merge(view, [])).num_rows == 0
    assert merge(view, []).ranges == EMPTY


@pytest.mark.parametrize("limit", [0, -1, 100_001, 2.5, "3", True])
@pytest.mark.parametrize("measure", [collect_set, count_distinct])
def test_a_limit_is_an_integer_within_bounds(measure: Any, limit: Any) -> None:
    with pytest.raises(DefinitionError, match=f"limit {limit!r} is not an integer from 1 to 100000"):
        measure("i", limit=limit)


def test_without_a_limit_the_error_says_what_happens_beyond_one() -> None:
    with pytest.raises(DefinitionError, match="count_distinct needs limit=, an integer from 1 to 100000") as caught:
        count_distinct("i")  # type: ignore[call-arg]
    assert "Beyond the limit the answer is null" in str(caught.value)
    assert "approx_count_distinct has no limit" in str(caught.value)
