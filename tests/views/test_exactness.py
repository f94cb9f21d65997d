"""How exact a value is, is decided once: by the reasons of every row, of its row and of its column; the weakest one counts."""

from datetime import UTC, datetime, timedelta
from itertools import product
from typing import get_args

import pytest

from tandem.views import exactness
from tandem.views.exactness import (
    COMPACTION,
    COUNTS,
    Exactness,
    Label,
    Reason,
    conflicting_duplicate,
    gap,
    late_duplicate,
    of_measures,
    span,
)
from tandem.views.measures import approx_count_distinct, approx_quantiles, approx_top_k, count, derived, mean, theta_sketch, total
from tandem.views.view import View
from tests.samples import SAMPLES

HOUR = timedelta(hours=1)
ESTIMATE = Reason("estimate", "estimate", "estimate, ±1 %")
REASONS = [late_duplicate(HOUR, 0), conflicting_duplicate(3), gap("g", 2, "lost"), COMPACTION, ESTIMATE]


def test_a_value_is_as_weak_as_the_weakest_of_its_row_and_its_column() -> None:
    order = get_args(Label)
    for every, marked, column in product([None, *REASONS], repeat=3):
        in_every, in_marked, in_column = (() if one is None else (one,) for one in (every, marked, column))
        said = Exactness(in_every, in_marked, {"m": in_column})
        for in_row in (False, True):
            holds = [one.label for one in (every, column, marked if in_row else None) if one is not None]
            expected = max(holds, key=order.index, default="exact")
            assert said.of("m", marked=in_row) == expected
        assert order.index(said.label) >= order.index(said.of("m", marked=True)), "the answer is not stronger than a value of it"
        assert said.unmarked().of("m", marked=True) == said.of("m", marked=False)
        assert (said.label == "exact") == (not [one for one in (every, marked, column) if one])


def test_measures_say_why_they_are_not_exact_and_what_is_derived_says_from_what() -> None:
    view = View(
        source=SAMPLES,
        measures={
            "n": count(),
            "i": total("i"),
            "f": total("f"),
            "usual": mean("f"),
            "all": approx_count_distinct("i"),
            "sketch": theta_sketch("i"),
            "typical": approx_quantiles("f", (0.5,)),
            "top": approx_top_k("i", 3),
            "rate": derived("n / i"),
            "twice": derived("n * 2 - i"),
            "root": derived("sqrt(n)"),
            "rounded": derived("f / n"),
            "guess": derived('"all" / f'),
        },
    )
    said = {name: [reason.label for reason in reasons] for name, reasons in of_measures(view).items()}
    assert said == {
        "f": ["floating_point"],
        "usual": ["floating_point"],
        "all": ["estimate"],
        "sketch": ["estimate"],
        "typical": ["estimate"],
        "top": ["estimate"],
        "rate": ["floating_point"],
        "root": ["floating_point"],
        "rounded": ["floating_point"],
        "guess": ["estimate"],
    }
    (guess,), (f,), (typical,), (rate,), (root,) = (of_measures(view)[name] for name in ("guess", "f", "typical", "rate", "root"))
    assert (rate.says, rate.figures) == ("floating-point: rounded to the nearest double, ±1.11e-14 %", {"error": 2.0**-53})
    assert (root.says, root.figures) == ("floating-point: computed in doubles", {"error": None})
    assert (guess.says, guess.figures) == ("estimate: computed from all, f", {"of": ["all", "f"]})
    assert f.says == "floating-point: the last digits depend on the order of addition"
    assert typical.says.startswith("estimate, ±")
    assert typical.says.endswith(" % of the rank at 99 % confidence")


@pytest.mark.parametrize("every", [(), (COMPACTION,)])
@pytest.mark.parametrize("marked", [(), (late_duplicate(HOUR, 0),)])
def test_rows_are_told_of_only_where_a_measure_is_exact_by_itself(every: tuple[Reason, ...], marked: tuple[Reason, ...]) -> None:
    """An answer of estimates alone has no row that could be called exact."""
    columns = {"all": (ESTIMATE,)}
    assert Exactness(every, marked, columns, whole=False).to_json()["rows"] is None
    assert Exactness(every, marked, columns).rows == exactness.weakest([*every, *marked])
    assert "exact" not in Exactness((), (), columns, whole=False).lines()


def test_the_words_name_the_dedup_window_and_what_the_last_recompute_found() -> None:
    assert late_duplicate(timedelta(minutes=10), 0).says == (
        "exact unless a duplicate arrived later than 10 min after the first copy (the last recompute found 0)"
    )
    assert late_duplicate(HOUR, None).to_json() == {
        "reason": "late_duplicate",
        "label": "exact_unless_duplicate",
        "says": "exact unless a duplicate arrived later than 1 h after the first copy",
        "dedup_window_s": 3600.0,
        "repaired": None,
        "identities_since": None,
    }
    short = late_duplicate(HOUR, None, datetime(2026, 11, 1, 12, 30, tzinfo=UTC))
    assert short.figures["identities_since"] == "2026-11-01T12:30:00Z"
    assert short.says.endswith(
        ", or of an event counted before 2026-11-01T12:30:00Z: speed.identities_mb is too small for dedup_window"
    )
    columns = {"visitors": (ESTIMATE,)}
    assert Exactness().says == "exact"
    assert Exactness(columns=columns).says == "exact; visitors: estimate, ±1 %"
    assert Exactness(columns=columns, whole=False).says == "visitors: estimate, ±1 %"
    assert (
        Exactness((gap("g", 2, "lost"),), columns=columns).says
        == "incomplete: gap g lost 2 offsets (lost); visitors: estimate, ±1 %"
    )


def test_who_sees_some_rows_only_is_told_no_count_of_all() -> None:
    for reason in (gap("g", 2, "lost"), late_duplicate(HOUR, None), late_duplicate(HOUR, 3)):
        told = reason.without_counts()
        assert (told.name, told.label, told.counted) == (reason.name, reason.label, "")
        assert told.figures == {name: None if name in COUNTS else value for name, value in reason.figures.items()}
        assert reason.counted not in told.says or not reason.counted
    assert late_duplicate(HOUR, 3).without_counts().figures["dedup_window_s"] == 3600.0


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (timedelta(seconds=90), "90 s"),
        (timedelta(minutes=10), "10 min"),
        (timedelta(hours=36), "36 h"),
        (timedelta(days=7), "7 d"),
        (timedelta(milliseconds=1500), "1.5 s"),
        (timedelta(0), "0 s"),
    ],
)
def test_a_length_of_time_is_in_the_largest_unit_that_divides_it(length: timedelta, text: str) -> None:
    assert span(length) == text


def test_together_the_weakest_view_counts_and_only_what_is_not_exact_has_words() -> None:
    views = {"a": Exactness(), "b": Exactness(marked=(late_duplicate(HOUR, None),))}
    label = "exact_unless_duplicate"
    says = "b: exact unless a duplicate arrived later than 1 h after the first copy"
    assert exactness.together(views) == {"label": label, "says": says}
    assert exactness.together({}) == exactness.together({"a": Exactness()}) == {"label": "exact", "says": "exact"}
