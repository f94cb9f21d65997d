"""The benchmark of growth recomputes each size, checks its answers, and names where an axis bends."""

import os
from pathlib import Path

import pytest

from tandem.bench.growth import report, why
from tandem.bench.growth.measuring import Grown, GrowthScale, Size, measure, scale


@pytest.mark.slow
@pytest.mark.spark
def test_every_size_is_recomputed_and_right(tmp_path: Path) -> None:
    axes = GrowthScale({"events": (Size(2_000, keys=10), Size(4_000, keys=10)), "views": (Size(2_000, 3, 10),)}, 1)
    found = list(measure(tmp_path, axes, cores=2, memory="1g", environ=os.environ, say=lambda _: None))
    assert [(one.axis, one.size) for one in found] == [(axis, size) for axis, sizes in axes.axes.items() for size in sizes]
    assert all(one.right and one.seconds > 0 and one.peak_bytes > 0 for one in found)
    assert [one.duckdb_s is not None for one in found] == [True, True, False]
    assert report.document(found)["right"]


@pytest.mark.slow
@pytest.mark.spark
def test_a_row_of_a_history_is_explained(tmp_path: Path) -> None:
    cost = why.measure(tmp_path, 30_000, cores=2, memory="1g", environ=os.environ, say=lambda _: None)
    assert (cost.agrees, len(cost.read.groups) > 0, cost.read.bytes >= cost.scan_bytes > 0) == (True, True, True)
    assert 9_000 < cost.behind < 11_000
    assert cost.to_json()["right"]
    assert len([*cost.lines()]) == 5


def test_sizes_grow_along_one_axis_at_a_time() -> None:
    for axis, sizes in scale(1_000_000, 1).axes.items():
        grown = [vars(size)[axis] for size in sizes]
        assert grown == sorted(set(grown))
        assert len({tuple(value for name, value in vars(size).items() if name != axis) for size in sizes}) == 1
    assert [size.keys for size in scale(1_000_000, 1).axes["keys"]] == [1_000, 10_000, 100_000, 1_000_000]


def test_a_steep_rise_of_the_cost_is_a_bend() -> None:
    found = [
        Grown("keys", Size(1_000_000, keys=keys), s, s, 1, right=keys != 100) for keys, s in ((10, 1.0), (100, 1.4), (1_000, 2.8))
    ]
    told = report.document([*found, Grown("views", Size(1_000_000, views=3), 3.0, 3.0, 1, right=True)])
    assert told["bends"] == [
        "keys: bends at 1,000, where an event and view cost 2.0 times what they cost at 100",
        "views: the cost of an event and view nowhere rises 1.5 times from one size to the next",
    ]
    assert not told["right"]
    assert [size["each_us"] for size in told["sizes"]] == [1.0, 1.4, 2.8, 1.0]
    assert report.table(found).row_count == 3


def test_a_further_event_is_compared_with_duckdb() -> None:
    found = [
        Grown("events", Size(events), s, s, 1, right=True, duckdb_s=duckdb_s)
        for events, s, duckdb_s in ((1_000_000, 2.0, 0.5), (4_000_000, 3.5, 1.5))
    ]
    (told,) = report.document(found)["slopes"]
    assert told == "events: from 1,000,000 to 4,000,000 each further event costs 1.50 times what it costs DuckDB"
