"""Frequent values: exact and in a total order while they are few, and within their bounds when they are many."""

import random
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.views.errors import DefinitionError
from tandem.views.kernel.kernel import merge, partial, present
from tandem.views.kernel.rows import to_rows
from tandem.views.measures import approx_top_k
from tandem.views.measures.approx_top_k import ROOM
from tandem.views.source.offset_ranges import EMPTY
from tandem.views.view import View, approximations
from tests.samples import SAMPLES, share, table
from tests.samples import rows as sample_rows
from tests.views.kernel.test_fold_edges import answers, folded


def exactly(value: Any, count: int) -> dict[str, Any]:
    return {"value": value, "estimate": count, "lower": count, "upper": count}


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("s", ["", "a", "a\0b", "ä", "🙂", "'; --", "1"]),
        ("b", [b"", b"\0", b"\xff\xfe", b"a"]),
        ("i", [0, -1, 2**63 - 1, -(2**63)]),
        ("day", [date(1, 1, 1), date(9999, 12, 31)]),
        ("t", [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)]),
        ("flag", [True, False]),
        ("f", [0.0, 5e-324, -5e-324, 1.7976931348623157e308, 0.1, 0.1 + 2**-56, 1e22, 1 / 3]),
        ("d", [Decimal("0.01"), Decimal(10**36 - 1), Decimal("-9.99")]),
    ],
)
def test_values_come_back_as_they_went_in(name: str, values: list[Any]) -> None:
    (row,) = answers(View(SAMPLES, measures={"m": approx_top_k(name)}), *({name: value} for value in [*values, *values, None]))
    assert row["m"] == [exactly(value, 2) for value in sorted(values)]


@share(20)
@given(st.lists(sample_rows, max_size=20))
def test_every_double_comes_back(rows: list[dict[str, Any]]) -> None:
    view = View(SAMPLES, measures={"m": approx_top_k("f * 0.1", 100)})
    found = present(view, partial(view, table(rows), EMPTY)).to_pylist()
    expected = Counter(row["f"] * 0.1 + 0.0 for row in rows if row["f"] is not None)
    assert {one["value"]: one["lower"] for row in found for one in row["m"]} == expected


def test_every_split_answers_the_same_up_to_the_room() -> None:
    view = View(SAMPLES, measures={"m": approx_top_k("i", ROOM)})
    values = [n for n in range(ROOM) for _ in range(1 + n % 4)]
    expected = [exactly(n, count) for n, count in sorted(Counter(values).items(), key=lambda one: (-one[1], one[0]))]
    for seed in range(3):
        dice = random.Random(seed)
        dice.shuffle(values)
        cuts = sorted(dice.choices(range(len(values)), k=4))
        pieces = [
            folded(view, *({"i": i} for i in values[start:to]))
            for start, to in zip([0, *cuts], [*cuts, len(values)], strict=True)
        ]
        (row,) = present(view, merge(view, [merge(view, pieces[:3]), *pieces[3:]])).to_pylist()
        assert row["m"] == expected


def test_bounds_hold_and_no_frequent_value_is_missing_when_there_are_many() -> None:
    view = View(SAMPLES, measures={"m": approx_top_k("i", 20)})
    (approximation,) = approximations(view).values()
    assert (approximation.kind, approximation.confidence) == ("frequent", None)
    dice = random.Random(7)
    values = [min(int(dice.paretovariate(0.3)), 10**15) for _ in range(20_000)]
    counts = Counter(values)
    assert len(counts) > 2 * ROOM
    pieces = [folded(view, *({"i": i} for i in values[start : start + 4000])) for start in range(0, len(values), 4000)]
    (row,) = present(view, merge(view, pieces)).to_pylist()
    error = approximation.error * len(values) if approximation.error is not None else 0
    for one in row["m"]:
        assert one["lower"] <= counts[one["value"]] <= one["upper"]
        assert one["upper"] - one["lower"] <= error
        assert one["lower"] <= one["estimate"] <= one["upper"]
    assert any(one["lower"] < one["upper"] for one in row["m"])
    listed = {one["value"] for one in row["m"]}
    least = row["m"][-1]["upper"]
    assert all(count <= max(least, error) for value, count in counts.items() if value not in listed)


def test_rows_write_values_as_their_kind_says() -> None:
    view = View(
        SAMPLES,
        measures={
            "b": approx_top_k("b"),
            "huge": approx_top_k("i::HUGEINT * i"),
            "d": approx_top_k("d"),
            "t": approx_top_k('"at"'),
        },
    )
    (row,) = to_rows(view, present(view, folded(view, {"b": b"\xff", "i": 2**62, "d": Decimal("1.5")})))
    assert row["b"] == [exactly("/w==", 1)]
    assert row["huge"] == [exactly(2**124, 1)]
    assert row["d"] == [exactly("1.50", 1)]
    assert row["t"] == [exactly("2026-11-01T12:00:00Z", 1)]


@pytest.mark.parametrize("k", [0, -1, ROOM + 1, 1.0, "3", True])
def test_k_is_an_integer_within_bounds(k: Any) -> None:
    with pytest.raises(DefinitionError, match=f"k {k!r} is not an integer from 1 to 768"):
        approx_top_k("i", k)
