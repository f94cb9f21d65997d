"""Conditions that a view expects of its rows say of every row what plain Python says, however the keys are split."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import inf, nan
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem import Event, Scale, Source, View, all_time, count, derived, maximum, mean, rollup, total, tumbling
from tandem.testing import check_expectations
from tandem.views.errors import DefinitionError
from tandem.views.expectation import conditions
from tandem.views.kernel.rows import to_rows
from tandem.views.testing import answer_table
from tandem.views.verify.expectations import check_numbers, check_rows, plus


class Sold(Event):
    at: datetime
    shop: str | None
    cents: int
    price: Annotated[Decimal, Scale(2)]


sold = Source(topic="sold", event=Sold, event_time="at", name="sold")
HOURS = View(
    source=sold,
    keys={"shop": "shop"},
    window=tumbling(hours=1),
    measures={
        "n": count(),
        "cents": total("cents"),
        "most": maximum("cents"),
        "usual": mean("cents"),
        "paid": total("price"),
        "share": derived("cents / nullif(n - 1, 0)"),
    },
    name="hours",
)
Row = Mapping[str, Any]
OF_ROWS: dict[str, Callable[[Row, Row | None], bool | None]] = {
    "n > 1": lambda row, _: row["n"] > 1,
    "CENTS between -5 AND 20": lambda row, _: -5 <= row["cents"] <= 20,
    "share < 7": lambda row, _: None if row["share"] is None else row["share"] < 7,
    "shop IS NOT NULL": lambda row, _: row["shop"] is not None,
    "shop <> 'b' OR most = 3": lambda row, _: row["most"] == 3 or (None if row["shop"] is None else row["shop"] != "b"),
    "paid >= 1.50": lambda row, _: Decimal(row["paid"]) >= Decimal("1.50"),
    "n >= before.n": lambda row, old: None if old is None else row["n"] >= old["n"],
    "cents * 2 <= Before.cents + 10": lambda row, old: None if old is None else row["cents"] * 2 <= old["cents"] + 10,
    "window_start < '2026-03-01T02:00:00Z'::TIMESTAMPTZ": lambda row, _: row["window_start"] < "2026-03-01T02:00:00Z",
}

EVENTS = st.lists(
    st.builds(
        Sold,
        at=st.integers(0, 239).map(lambda minute: datetime(2026, 3, 1, tzinfo=UTC) + timedelta(minutes=minute)),
        shop=st.sampled_from(["a", "b", None]),
        cents=st.integers(-9, 30),
        price=st.decimals("-1", "5", places=2),
    ),
    max_size=25,
)


@given(EVENTS, EVENTS, st.sets(st.sampled_from([*OF_ROWS])))
def test_each_condition_is_what_python_says_of_every_row(before: list[Sold], after: list[Sold], texts: set[str]) -> None:
    view = replace(HOURS, expect=dict.fromkeys(sorted(texts), "stop"))
    old, new = answer_table(HOURS, before), answer_table(view, after)
    published = {(row["shop"], row["window_start"]): row for row in to_rows(HOURS, old)}
    rows = to_rows(view, new)
    of_shops = [pc.equal(table["shop"], "a") for table in (old, new)]
    split = []
    for chosen in (True, False):
        some = [
            table.filter(pc.equal(pc.fill_null(mask, False), chosen)) for table, mask in zip((old, new), of_shops, strict=True)
        ]
        split += check_rows(view, some[1], (HOURS, some[0]))
    whole = check_rows(view, new, (HOURS, old))
    assert plus(split) == plus(whole)
    for check in whole:
        wrong = [row for row in rows if OF_ROWS[check.condition](row, published.get((row["shop"], row["window_start"]))) is False]
        assert (check.rows, check.unmet) == (len(rows), len(wrong))
        places = [{name: row[name] for name in ("shop", "window_start", "window_end")} for row in wrong]
        assert all(worst["row"] in places for worst in check.worst)
        assert len(check.worst) == min(5, len(wrong))


def test_the_worst_rows_are_those_furthest_from_meeting_it() -> None:
    view = replace(HOURS, expect={"cents BETWEEN 0 AND 10": "warn"})
    at = datetime(2026, 3, 1, tzinfo=UTC)
    events = [
        Sold(at + timedelta(hours=hour), "a", cents, Decimal(1)) for hour, cents in enumerate((4, 90, -7, 13, 0, 11, 12, 14))
    ]
    (result,) = check_rows(view, answer_table(view, events), None)
    assert [(check["values"]["cents"], check["far"]) for check in result.worst] == [
        (90, 80),
        (-7, 7),
        (14, 4),
        (13, 3),
        (12, 2),
    ]
    assert result.worst[0]["row"]["window_start"] == "2026-03-01T01:00:00Z"


@pytest.mark.parametrize(("rows", "before", "unmet"), [(5, 10, 0), (4, 10, 1), (0, None, 0), (0, 0, 0), (1, 3, 1)])
def test_numbers_of_rows_have_conditions_too(rows: int, before: int | None, unmet: int) -> None:
    view = replace(HOURS, expect={"rows >= 0.5 * before.rows": "stop"})
    (result,) = check_numbers(view, rows, before)
    assert (result.unmet, result.rows) == (unmet, None)
    assert [worst["values"] for worst in result.worst] == ([{"rows": rows, "before.rows": before}] if unmet else [])


@pytest.mark.parametrize("value", [inf, nan])
def test_no_distance_is_infinite_in_a_report(value: float) -> None:
    """JSON has no such numbers. The row is further away than any that has a distance."""
    view = replace(HOURS, expect={"share < 7": "stop"})
    hour = datetime(2026, 3, 1, tzinfo=UTC)
    rows = answer_table(view, [Sold(hour, shop, 9 * number, Decimal(1)) for number, shop in enumerate("aabbcc", 1)])
    shares = pa.array([100.0, value, 50.0])
    number = rows.column_names.index("share")
    (outcome,) = check_rows(view, rows.set_column(number, rows.schema.field("share"), shares), None)
    assert (outcome.unmet, [each["far"] for each in outcome.worst]) == (3, [None, 93.0, 43.0])
    json.dumps([*map(dict, outcome.worst)], allow_nan=False)


def test_a_condition_that_fails_for_a_row_is_not_met_there() -> None:
    view = replace(HOURS, expect={"CAST(shop AS INTEGER) > 0": "stop"})
    at = datetime(2026, 3, 1, tzinfo=UTC)
    events = [Sold(at, shop, 1, Decimal(1)) for shop in ("1", "x", None)]
    (result,) = check_rows(view, answer_table(view, events), None)
    assert [worst["row"]["shop"] for worst in result.worst] == ["x"]


def test_a_row_of_another_definition_is_compared_by_the_measures_of_one_type() -> None:
    old = replace(HOURS, measures={"n": count(), "cents": mean("cents")})
    view = replace(HOURS, expect={"n = before.n": "stop", "cents = before.cents": "stop", "before.most IS NULL": "stop"})
    events = [Sold(datetime(2026, 3, 1, tzinfo=UTC), "a", 5, Decimal(1))]
    assert [check.unmet for check in check_rows(view, answer_table(view, events), (old, answer_table(old, events)))] == [
        0,
        0,
        0,
    ]
    assert [
        check.unmet for check in check_rows(view, answer_table(view, [*events, *events]), (old, answer_table(old, events)))
    ] == [
        1,
        0,
        0,
    ]
    other_keys = replace(old, keys={})
    assert [
        check.unmet for check in check_rows(view, answer_table(view, events), (other_keys, answer_table(other_keys, events)))
    ] == [0] * 3


@pytest.mark.parametrize(
    ("text", "severity", "why"),
    [
        ("n > 0", "fail", "'fail' is not 'stop' or 'warn'"),
        ("m > 0", "stop", "names a field 'm' that a row of view 'hours' does not have"),
        ("n + 1", "stop", "is of type BIGINT; expected a condition, such as 'n > 0'"),
        ("n > rows", "stop", "reads both a number of rows and columns of a row; write two conditions"),
        ("before IS NULL", "stop", "reads 'before', which is a row; write before.rows, or before. and a measure"),
        ("before.nothing > 1", "stop", "does not fit its event"),
        ("TRUE", "warn", "reads no column; columns: "),
        ("n > (SELECT 1)", "stop", "a subquery reads tables"),
        ("n >", "stop", "is not SQL"),
    ],
)
def test_a_wrong_condition_is_refused_with_its_place(text: str, severity: str, why: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        conditions(replace(HOURS, expect={text: severity}))
    assert f"view 'hours', expect {text!r}" in str(refused.value)
    assert why in str(refused.value)


def test_no_column_may_have_the_name_rows() -> None:
    view = replace(HOURS, measures={"Rows": count()}, expect={"rows > 0": "stop"})
    with pytest.raises(DefinitionError, match=r"has a column 'Rows', and conditions read 'rows' as the number of rows"):
        conditions(view)


def test_a_project_checks_each_prefix_of_its_events() -> None:
    at = datetime(2026, 3, 1, tzinfo=UTC)
    events = [Sold(at + timedelta(hours=hour), "a", cents, Decimal(1)) for hour, cents in enumerate((4, 5, -20, 30))]
    view = replace(HOURS, expect={"cents > 0": "warn", "rows >= before.rows": "stop"})
    warned = check_expectations(view, events)
    assert [(check.condition, check.unmet, check.rows) for check in warned] == [("cents > 0", 1, 3), ("cents > 0", 1, 4)]
    everything = rollup(view, keys=(), window=all_time(), name="everything", expect={"cents >= before.cents": "stop"})
    with pytest.raises(AssertionError, match=r"after 3 of 4 events: 1 of 1 row does not meet 'cents >= before.cents'"):
        check_expectations(everything, events)
