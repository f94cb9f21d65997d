"""Samples: drawn by position alone, the same for every split and order, and every event with the same chance."""

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from tandem.views.errors import DefinitionError
from tandem.views.kernel.kernel import merge, partial, present
from tandem.views.kernel.rows import to_rows
from tandem.views.measures import sample
from tandem.views.source.offset_ranges import EMPTY
from tandem.views.testing import answer
from tandem.views.view import View, approximations, state_schema
from tests.samples import SAMPLES, placed, table
from tests.views.kernel.test_fold_edges import NOON
from tests.views.kernel.test_rows import READINGS, reading
from tests.views.logged import decoded

VIEW = View(SAMPLES, measures={"m": sample("i", 5)})


def rows(number: int, **more: Any) -> list[dict[str, Any]]:
    return placed([{"at": NOON, "i": i, **more} for i in range(number)])


def answered(view: View, *pieces: list[dict[str, Any]]) -> Any:
    merged = merge(view, [partial(view, table(piece), EMPTY) for piece in pieces])
    (row,) = present(view, merged).to_pylist()
    return row["m"]


def test_every_event_has_the_same_chance() -> None:
    view = View(SAMPLES, keys={"k": "i // 20"}, measures={"m": sample("i % 20", 5)})
    folded = partial(view, table(rows(40_000)), EMPTY)
    drawn = Counter(value for row in present(view, folded).to_pylist() for value in row["m"])
    # 2000 keys draw 5 of 20 each: 500 times each value, with a deviation of 19.
    assert sum(drawn.values()) == 10_000
    assert all(abs(drawn[value] - 500) < 100 for value in range(20))


def test_decoded_events_and_events_of_a_users_test_have_positions() -> None:
    view = View(READINGS, measures={"m": sample("wh", 3)})
    logged = decoded(READINGS, *(reading("2026-11-01T00:00:00Z", "OSLO", wh) for wh in range(10))).events
    (row,) = to_rows(view, present(view, partial(view, logged, EMPTY)))
    assert len(row["m"]) == 3
    event = READINGS.event(at=NOON, site=None, wh=7, price=1)
    assert answer(view, [event])[0]["m"] == [7]


def test_it_is_exact_and_its_state_is_plain() -> None:
    assert approximations(VIEW) == {}
    assert state_schema(VIEW).field("m").type == pa.list_(pa.struct([("hash", pa.int64()), ("value", pa.int64())]))


@pytest.mark.parametrize("k", [1, 10_000])
def test_the_least_and_the_most_values_are_drawn(k: int) -> None:
    assert len(answered(View(SAMPLES, measures={"m": sample("i", k)}), rows(12))) == min(k, 12)


@pytest.mark.parametrize("k", [0, -1, 10_001, 1.0, "3", True])
def test_k_is_an_integer_within_bounds(k: Any) -> None:
    with pytest.raises(DefinitionError, match=f"k {k!r} is not an integer from 1 to 10000"):
        sample("i", k)
