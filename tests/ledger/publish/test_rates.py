"""The estimate of a run from the last ones: proportional for similar runs, else with a fixed time."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish.rates import Estimate, Rate, RunRates, estimate

ONE = Rate(datetime(2026, 11, 1, tzinfo=UTC), "hits", "full", rows=1000, bytes=50_000, views=1, seconds=10.0)


def test_runs_are_kept_in_order(tmp_path: Path) -> None:
    tables = Tables(str(tmp_path))
    assert RunRates(tables).history() == []
    two = replace(ONE, kind="incremental", seconds=2.5)
    RunRates(tables).record(ONE)
    RunRates(tables).record(two)
    assert RunRates(tables).history() == [ONE, two]


def test_only_runs_of_the_source_and_kind_that_read_something_count() -> None:
    others = [replace(ONE, source="other"), replace(ONE, kind="raw"), replace(ONE, rows=0)]
    assert estimate(others, "hits", "full", rows=1000, views=1) is None
    assert estimate([*others, ONE], "hits", "full", rows=1000, views=1) == Estimate(10.0, 1, 1000)


@pytest.mark.parametrize(("rows", "views", "seconds"), [(1000, 1, 10), (2000, 1, 20), (1000, 3, 20), (10, 1, 10)])
def test_similar_runs_give_a_proportional_estimate(rows: int, views: int, seconds: float) -> None:
    about = estimate([ONE, ONE], "hits", "full", rows=rows, views=views)
    assert about == Estimate(seconds, 2, 1000)


@given(st.floats(0, 60), st.floats(1e-6, 1e-2), st.integers(0, 10**9))
def test_a_fixed_time_and_a_rate_are_found(fixed: float, each: float, rows: int) -> None:
    """Of runs that take exactly so long, beyond the shortest of them."""
    sizes = (1000, 50_000, 4000, 700_000)
    runs = [replace(ONE, rows=size, seconds=fixed + each * size * 2) for size in sizes]
    about = estimate(runs, "hits", "full", rows=rows, views=1)
    assert about is not None
    assert about.seconds == pytest.approx(fixed + each * max(rows, 1000) * 2)
    assert (about.runs, about.largest) == (4, 700_000)


@given(st.lists(st.builds(replace, st.just(ONE), rows=st.integers(0, 10**6), seconds=st.floats(0, 1e4)), max_size=8))
def test_more_work_is_never_estimated_shorter(runs: list[Rate]) -> None:
    about = [estimate(runs, "hits", "full", rows=rows, views=2) for rows in (0, 10, 1000, 10**6, 10**9)]
    found = [each.seconds for each in about if each is not None]
    assert len(found) in (0, len(about))
    assert found == sorted(found)


def test_only_the_last_runs_count() -> None:
    """What the machine was long ago does not matter."""
    slow = [replace(ONE, seconds=1000.0)] * 9
    assert estimate([*slow, *[ONE] * 5], "hits", "full", rows=1000, views=1) == Estimate(10.0, 5, 1000)
