"""Exact sets and counts: every value up to the limit, null from the first one beyond it on, and never without a limit."""

from typing import Any

import pyarrow as pa
import pytest

from tandem.views.errors import DefinitionError
from tandem.views.kernel.kernel import merge, present
from tandem.views.kernel.rows import to_rows
from tandem.views.measures import collect_set, count_distinct, derived
from tandem.views.view import View, state_schema
from tests.samples import SAMPLES
from tests.views.kernel.test_fold_edges import answers, folded


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_the_limit_itself_is_within_it(limit: int) -> None:
    view = View(SAMPLES, measures={"m": collect_set("i", limit=limit), "n": count_distinct("i", limit=limit)})
    for number, expected in ((limit, (list(range(limit)), limit)), (limit + 1, (None, None))):
        (row,) = answers(view, *({"i": value} for value in range(number)))
        assert (row["m"], row["n"]) == expected


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


def test_lists_can_be_derived_from() -> None:
    view = View(SAMPLES, measures={"m": collect_set("i"), "largest": derived("m[-1]")})
    (row,) = answers(view, {"i": 1}, {"i": 7})
    assert row["largest"] == 7


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
