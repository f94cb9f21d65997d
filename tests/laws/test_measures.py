"""Every measure obeys the laws that make the layers add up: splits, groups and order of events change nothing."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from tandem.views.arrow.arrays import from_ipc, to_ipc
from tandem.views.kernel.kernel import Partial, merge, partial, present
from tandem.views.measures import (
    Measure,
    approx_count_distinct,
    approx_quantiles,
    approx_top_k,
    bool_and,
    bool_or,
    collect_set,
    correlation,
    count,
    count_distinct,
    covariance,
    derived,
    first,
    first_k,
    funnel,
    kurtosis,
    last,
    last_k,
    matches,
    max_by,
    maximum,
    mean,
    min_by,
    minimum,
    pairs,
    sample,
    skewness,
    theta_sketch,
    total,
    variance,
)
from tandem.views.source.offset_ranges import EMPTY, Ranges
from tandem.views.view import View, bind, group_columns, state_schema
from tandem.views.windows import tumbling
from tests.samples import SAMPLES, placed, rows, share, table
from tests.views.measures.test_custom import Range

NUMBERS = {"i": "i", "f": "f", "d": "d", "huge": "i::HUGEINT * i", "small": "CAST(i % 1000 AS DECIMAL(9, 3))"}
EXACT = {name: sql for name, sql in NUMBERS.items() if name != "f"}
VALUES = {**NUMBERS, "flag": "flag", "s": "s", "b": "b", "day": "day", "t": "t"}

MEASURES: dict[str, Measure] = {
    "count": count(),
    **{f"total_{name}": total(sql) for name, sql in NUMBERS.items()},
    **{f"mean_{name}": mean(sql) for name, sql in NUMBERS.items()},
    **{f"quantiles_{name}": approx_quantiles(sql, (0, 0.5, 1)) for name, sql in NUMBERS.items()},
    **{f"variance_{name}": variance(sql) for name, sql in EXACT.items()},
    **{f"skewness_{name}": skewness(sql) for name, sql in EXACT.items()},
    **{f"kurtosis_{name}": kurtosis(sql) for name, sql in EXACT.items()},
    "first": first("i"),
    "last_of_some": last("f", filter="flag"),
    "first_k": first_k("d", 2),
    "last_k": last_k("s", 3),
    "max_by": max_by("s", "i", 2),
    "min_by": min_by("f", "t", 3),
    "ratio": derived("total_i / count"),
    "any": bool_or("i > 0"),
    "all": bool_and("i > 0", filter="flag"),
    "positive": count(filter="i > 0"),
    "total_of_some": total("d", filter="i > 0"),
    "distinct_of_some": approx_count_distinct("i", filter="i > 0"),
    "covariance": covariance("i", "d"),
    "correlation": correlation("d", EXACT["small"]),
    **{f"collect_set_{name}": collect_set(sql, limit=3) for name, sql in VALUES.items()},
    "count_distinct": count_distinct("i", limit=2),
    "collect_set_some": collect_set("s", filter="i > 0"),
    **{f"theta_{name}": theta_sketch(sql) for name, sql in VALUES.items()},
    **{f"frequent_{name}": approx_top_k(sql, 5) for name, sql in VALUES.items()},
    **{f"sample_{name}": sample(sql, 3) for name, sql in VALUES.items()},
    "custom": Range("i"),
    "funnel": funnel(("i > 0", "flag", "f > 0"), within=timedelta(days=9999), by="s", limit=9),
    "funnel_of_some": funnel(("i > 0", "i <= 0"), within=timedelta(seconds=2), by="d", filter="flag IS NOT NULL"),
    "matches": matches("up+? any{,2} big", define={"up": "i > PREV(i)", "big": "flag"}, limit=9),
    "matches_of_matches": matches("a b+? c", define={"b": "i <> a.i", "c": "f > FIRST(f)"}, limit=9),
    "matches_of_some": matches("(a|b){2} a", define={"a": "i > 0", "b": "f > 0"}, by="d", filter="flag IS NOT NULL"),
    "pairs": pairs("i > 0", "flag", within=timedelta(days=999), by="s", limit=9),
    "pairs_of_some": pairs("i > 0", "i <= 0", within=timedelta(seconds=2), first=True, filter="flag IS NOT NULL"),
    "pairs_of_values": pairs("i > 0", "flag", within=timedelta(days=9), left_value="d", right_value="i"),
    "sample_of_some": sample("i", 2, filter="i > 0"),
    **{f"minimum_{name}": minimum(sql) for name, sql in VALUES.items()},
    **{f"maximum_{name}": maximum(sql) for name, sql in VALUES.items()},
    **{f"distinct_{name}": approx_count_distinct(sql) for name, sql in VALUES.items()},
}
VIEW = View(SAMPLES, keys={"flag": "flag", "s": "s"}, window=tumbling(hours=1), measures=MEASURES, name="every_measure")


@pytest.mark.parametrize("name", [one.name for one in bind(VIEW).measures if one.aggregate.approximate is not None])
def test_equal_estimates_have_equal_states(name: str) -> None:
    """Two releases' answers of an estimate are compared by their sketches if their states are equal."""
    one, other = (bind(replace(VIEW, measures={name: MEASURES[name]}, where=where)) for where in (None, "i is not null"))
    assert [each.aggregate.states for each in one.measures] == [each.aggregate.states for each in other.measures]


SKETCHES = tuple(column for measure in bind(VIEW).measures for column, state in measure.states if state.build is not None)

events = st.lists(rows, max_size=12)


def fold(batch: Sequence[dict[str, Any]], first: int = 0) -> Partial:
    """The partial of events at offsets from `first` on."""
    return partial(VIEW, table(batch, first), Ranges.of({("topic", 0): (first, first + len(batch))}))


def assert_same(one: Partial, other: Partial) -> None:
    """Equal ranges, equal rejections, and, key by key, equal exact states and equal answers.

    Sketches are compared by what they answer: their bytes remember the order of updates. These hold few enough values
    for KLL to be exact.
    """
    assert one.ranges == other.ranges
    assert one.rejected == other.rejected
    assert one.states.schema == other.states.schema == state_schema(VIEW)
    assert_equal_tables(one.states.drop_columns(list(SKETCHES)), other.states.drop_columns(list(SKETCHES)))
    assert_equal_tables(present(VIEW, one), present(VIEW, other))


def assert_equal_tables(one: pa.Table, other: pa.Table) -> None:
    ones, others = by_group(one), by_group(other)
    assert ones.keys() == others.keys()
    for group, row in ones.items():
        for column, value in row.items():
            assert value == others[group][column], f"{column} of {group}"


def by_group(answers: pa.Table) -> dict[tuple[Any, ...], dict[str, Any]]:
    found = answers.to_pylist()
    grouped = {tuple(row[name] for name in group_columns(VIEW)): row for row in found}
    assert len(grouped) == len(found), "a key and window stands in two rows"
    return grouped


@share(8, quick=4)
@given(events, events)
def test_merge_is_commutative(left: list[dict[str, Any]], right: list[dict[str, Any]]) -> None:
    one, other = fold(left), fold(right, len(left))
    assert_same(merge(VIEW, [one, other]), merge(VIEW, [other, one]))


@share(8, quick=4)
@given(events, events, events)
def test_merge_is_associative(first: list[dict[str, Any]], second: list[dict[str, Any]], third: list[dict[str, Any]]) -> None:
    a, b, c = fold(first), fold(second, len(first)), fold(third, len(first) + len(second))
    assert_same(merge(VIEW, [merge(VIEW, [a, b]), c]), merge(VIEW, [a, merge(VIEW, [b, c])]))


@share(8, quick=4)
@given(events)
def test_the_empty_state_is_the_identity(batch: list[dict[str, Any]]) -> None:
    nothing, folded = merge(VIEW, []), fold(batch)
    assert nothing.states.num_rows == 0
    assert nothing.ranges == EMPTY
    assert_same(merge(VIEW, [nothing, folded]), folded)
    assert_same(merge(VIEW, [folded, nothing]), folded)
    assert_same(merge(VIEW, [folded]), folded)


@share(12, quick=6)
@given(st.lists(rows, max_size=30), st.data())
def test_any_split_equals_one_fold(batch: list[dict[str, Any]], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(batch)), max_size=5), label="cuts"))
    bounds = [0, *cuts, len(batch)]
    pieces = [fold(batch[start:to], start) for start, to in pairwise(bounds)]
    assert_same(merge(VIEW, data.draw(st.permutations(pieces), label="order")), fold(batch))


@share(8, quick=4)
@given(st.lists(rows, max_size=20), st.randoms(use_true_random=False))
def test_the_order_of_events_does_not_matter(batch: list[dict[str, Any]], random: Any) -> None:
    events = placed(batch)
    assert_same(fold(random.sample(events, len(events))), fold(events))


@share(8, quick=4)
@given(events)
def test_states_survive_serialisation(batch: list[dict[str, Any]]) -> None:
    folded = fold(batch)
    states = from_ipc(to_ipc(folded.states))
    assert states.equals(folded.states, check_metadata=True)


@pytest.mark.slow
def test_states_survive_a_delta_table(tmp_path: Path) -> None:
    numbers = iter(range(1000))

    @share(5)
    @given(events, events)
    def survive(left: list[dict[str, Any]], right: list[dict[str, Any]]) -> None:
        pieces = [fold(left), fold(right, len(left))]
        uri = str(tmp_path / str(next(numbers)))
        for piece in pieces:
            write_deltalake(uri, piece.states, mode="append")
        stored = DeltaTable(uri)
        assert (stored.protocol().min_reader_version, stored.protocol().min_writer_version) == (1, 2)
        read = pa.table(stored.to_pyarrow_table())
        whole = Partial(read, pieces[0].ranges.union(pieces[1].ranges), merge(VIEW, pieces).rejected)
        assert_same(merge(VIEW, [whole]), merge(VIEW, pieces))

    survive()
