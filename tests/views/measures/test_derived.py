"""Derived measures: computed from answers alone, the same however the events were split, null where they mean nothing."""

from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import fingerprint
from tandem.views.kernel.kernel import merge, present
from tandem.views.kernel.rows import to_rows
from tandem.views.measures import approx_count_distinct, approx_quantiles, count, derived, maximum, total
from tandem.views.view import View, approximations, bind, state_schema
from tests.samples import SAMPLES, integers, rows, share
from tests.views.kernel.test_fold_edges import answers, folded

RATES = View(
    SAMPLES,
    keys={"s": "s"},
    measures={
        "rate": derived("errors / hits"),
        "hits": count(),
        "errors": count(filter="i < 0"),
        "latest": maximum("t"),
        "next_day": derived("latest + INTERVAL 1 DAY"),
        "label": derived("CASE WHEN errors > 0 THEN 'bad' ELSE 'good' END"),
    },
)


@share(30)
@given(st.lists(rows, min_size=1, max_size=20), st.integers(1, 7))
def test_it_is_what_its_measures_say_in_any_split(events: list[dict[str, object]], size: int) -> None:
    folds = [folded(RATES, *events[start : start + size]) for start in range(0, len(events), size)]
    for row in present(RATES, merge(RATES, folds)).to_pylist():
        assert row["rate"] == row["errors"] / row["hits"]
        assert row["label"] == ("bad" if row["errors"] else "good")
        if row["latest"] is not None and row["latest"].year < 9999:
            assert row["next_day"] == row["latest"] + timedelta(days=1)


@share(30)
@given(st.lists(integers, min_size=1, max_size=5))
def test_where_it_fails_or_is_no_number_there_is_null(values: list[int]) -> None:
    measures = {
        "n": count(),
        "sum": total("i"),
        "whole": derived("CAST(sum AS BIGINT)"),
        "ratio": derived("n / (n - n)"),
        "large": derived("power(1e300, n + 1)"),
    }
    (row,) = answers(View(SAMPLES, measures=measures), *({"i": value} for value in values))
    assert row["whole"] == (sum(values) if -(2**63) <= sum(values) < 2**63 else None)
    assert (row["ratio"], row["large"]) == (None, None)


def test_totals_beyond_38_digits_can_be_read() -> None:
    view = View(SAMPLES, measures={"sum": total("d"), "n": count(), "mean": derived("sum / n")})
    (row,) = answers(view, *({"d": Decimal("9" * 36 + ".99")} for _ in range(200)))
    assert row["mean"] == pytest.approx(1e36)


def test_it_keeps_no_state_and_stands_where_it_was_declared() -> None:
    assert "rate" not in state_schema(RATES).names
    (row,) = to_rows(RATES, present(RATES, folded(RATES, {"i": -1}, {"i": 1})))
    assert list(row)[4:] == list(RATES.measures)
    assert (row["rate"], row["latest"], row["next_day"]) == (0.5, None, None)


def test_of_approximate_measures_it_is_approximate() -> None:
    measures = {"n": count(), "users": approx_count_distinct("s"), "each": derived("n / users"), "twice": derived("n * 2")}
    kinds = {name: how.kind for name, how in approximations(View(SAMPLES, measures=measures)).items()}
    assert kinds == {"users": "hll", "each": "derived"}


def test_a_quantile_can_be_named() -> None:
    view = View(SAMPLES, measures={"ms": approx_quantiles("i", (0.5, 0.9)), "spread": derived('ms."0.9" - ms."0.5"')})
    (row,) = answers(view, *({"i": value} for value in range(1, 11)))
    assert row["spread"] == 4.0


def test_its_expression_is_part_of_the_meaning_and_its_spelling_is_not() -> None:
    def meaning(text: str) -> str:
        return fingerprint(View(SAMPLES, measures={"n": count(), "m": total("i"), "x": derived(text)}))

    assert meaning("m / n") == meaning("M/(n) -- the mean")
    assert len({meaning("m / n"), meaning("n / m"), meaning("m")}) == 3


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("hitz / n", "measure 'x': 'hitz / n' names a field 'hitz' that this view does not have; fields: n"),
        ("x + 1", "names a field 'x' that this view does not have"),
        ("1", "reads no other measure; measures: n"),
        ("sum(n)", "sum is an aggregate"),
        ("n +", "is not SQL"),
        ("now()", "is refused"),
    ],
)
def test_what_it_cannot_read_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        bind(View(SAMPLES, measures={"n": count(), "x": derived(text)}))
    assert sentence in str(raised.value)
