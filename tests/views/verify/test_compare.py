"""A comparison of two computations counts and measures what differs as plain Python does, and adds up over disjoint keys."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.views.errors import DefinitionError
from tandem.views.fingerprint import definition_diff
from tandem.views.fingerprint.hashed_parts import fingerprint
from tandem.views.kernel.kernel import merge, partial, present
from tandem.views.measures import (
    approx_count_distinct,
    approx_quantiles,
    count,
    count_distinct,
    derived,
    max_by,
    maximum,
    mean,
    total,
)
from tandem.views.project.project import Project
from tandem.views.source.offset_ranges import EMPTY
from tandem.views.verify.compare import EXAMPLES, FLOAT_TOLERANCE, MeasureDifference, compare, plus, tolerance
from tandem.views.view import View, bind, group_columns
from tandem.views.windows import tumbling
from tests.laws.test_measures import VIEW as EVERY
from tests.laws.test_measures import fold
from tests.samples import EPOCH, SAMPLES, rows, share, table

VIEW = View(
    SAMPLES,
    keys={"s": "s"},
    window=tumbling(hours=1),
    measures={
        "n": count(),
        "d": total("d"),
        "f": total("f"),
        "text": maximum("s"),
        "flag": maximum("flag"),
        "days": maximum("day"),
        "usual": mean("i"),
        "top": max_by("s", "i", 2),
        "half": approx_quantiles("i", (0.5, 0.9)),
        "about": approx_count_distinct("i"),
        "exact": count_distinct("i", limit=5),
        "rate": derived("n / exact"),
    },
    name="compared",
)

pieces = st.lists(rows, max_size=8)


def answered(view: View, events: list[dict[str, Any]]) -> pa.Table:
    return partial(view, table(events), EMPTY).states


def numbers(value: Any) -> dict[str, Any]:
    """The single values of an answer by their place in it."""
    if isinstance(value, dict):
        return {f"{k}.{place}": leaf for k, inner in value.items() for place, leaf in numbers(inner).items()}
    if isinstance(value, list) and value:
        return {f"{k}.{place}": leaf for k, inner in enumerate(value) for place, leaf in numbers(inner).items()}
    return {"": value}


def apart(one: Any, other: Any, allowed: float) -> tuple[float, float, bool]:
    if one == other:
        return 0, 0, False
    if any(isinstance(each, bool | str | bytes) or not isinstance(each, int | float | Decimal | None) for each in (one, other)):
        return 0, 2, True
    a, b = (Decimal(each or 0) if not isinstance(each, float) else Decimal(each) for each in (one, other))
    size = abs(a) + abs(b)
    beyond = one is None or other is None or float(abs(a - b)) > allowed * float(max(abs(a), abs(b)))
    return float(abs(a - b)), float(2 * abs(a - b) / size) if size else 0, beyond


def oracle(view: View, measure: str, served: pa.Table, found: pa.Table) -> tuple[int, int, int, float, float, float]:
    sides = []
    for states in (served, found):
        answers = present(view, merge(view, [replace(fold([]), states=states)])).to_pylist()
        sides.append({tuple(row[name] for name in group_columns(view)): row[measure] for row in answers})
    unequal = differ = 0
    absolute, symmetric = [0.0], [0.0]
    places = sides[0].keys() | sides[1].keys()
    for place in places:
        one, other = (side.get(place) for side in sides)
        lacking = any(place not in side for side in sides)
        unequal += lacking or one != other
        ours, theirs = numbers(one), numbers(other)
        allowed = 0.0 if measure == "half" else tolerance(view, measure)  # quantiles of few values are exact
        within = {*ours, *theirs}
        within = within - {""} or within  # an empty list beside one that is not has nothing to compare but the latter's elements
        leaves = [apart(ours.get(leaf), theirs.get(leaf), allowed) for leaf in within]
        absolute.append(max((leaf[0] for leaf in leaves), default=0))
        symmetric.append(max((leaf[1] for leaf in leaves), default=0))
        differ += lacking or any(leaf[2] for leaf in leaves)
    return len(places), unequal, differ, max(absolute), sum(absolute), sum(symmetric)


def figures(one: MeasureDifference) -> tuple[int, int, int, float, float, float]:
    return one.rows, one.unequal, one.differ, one.largest, one.absolute, one.symmetric


@share(30, quick=6)
@given(pieces, pieces, pieces)
def test_it_finds_what_plain_python_finds(common: list[Any], ours: list[Any], theirs: list[Any]) -> None:
    served, found = (answered(VIEW, [*common, *rest]) for rest in (ours, theirs))
    for difference in compare(VIEW, served, found):
        expected = oracle(VIEW, difference.measure, served, found)
        assert figures(difference) == pytest.approx(expected, rel=1e-9), difference.measure
        assert len(difference.examples) == min(EXAMPLES, difference.differ)


@share(15, quick=4)
@given(pieces, pieces, st.integers(2, 3))
def test_in_buckets_and_then_added_up_it_is_the_same(ours: list[Any], theirs: list[Any], buckets: int) -> None:
    """Whatever the buckets are, if all states of a key are in one."""
    served, found = answered(VIEW, ours), answered(VIEW, theirs)

    def bucket(states: pa.Table, number: int) -> pa.Table:
        mine = [hash(key) % buckets == number for key in states["s"].to_pylist()]
        return states.filter(pa.array(mine, pa.bool_()))

    whole = compare(VIEW, served, found)
    parts = zip(*(compare(VIEW, bucket(served, number), bucket(found, number)) for number in range(buckets)), strict=True)
    for one, added in zip(whole, (plus(*part) for part in parts), strict=True):
        assert figures(added) == pytest.approx(figures(one), rel=1e-9)
        assert added.examples == one.examples


@share(5, quick=5)
@given(pieces, pieces)
def test_every_measure_agrees_with_itself_however_the_events_were_split(one: list[Any], other: list[Any]) -> None:
    first, second = fold(one), fold(other, len(one))
    whole, merged = fold([*one, *other]), merge(EVERY, [second, first])
    exact = [
        difference for difference in compare(EVERY, merged.states, whole.states) if tolerance(EVERY, difference.measure) == 0
    ]
    assert len(exact) > 40
    assert [difference.measure for difference in exact if difference.unequal] == []


HALVES = View(SAMPLES, keys={"s": "s"}, measures={"half": approx_quantiles("f", (0.1, 0.5, 0.99))}, name="halves")


def sketched(numbers: list[float], *, pieces: int = 1, view: View = HALVES) -> pa.Table:
    """The states of one key over numbers, folded in pieces."""
    folds = [partial(view, table([{"at": EPOCH, "f": each} for each in numbers[n::pieces]]), EMPTY) for n in range(pieces)]
    return merge(view, folds).states


@share(20, quick=5)
@given(st.integers(201, 3000), st.integers(1, 9), st.integers(0, 999))
def test_quantiles_are_compared_by_rank(n: int, pieces: int, seed: int) -> None:
    """However steep the values are: two sketches of the same numbers never differ, those of others by more than the error do."""
    dice = Random(seed)
    numbers = [10.0 ** dice.uniform(-9, 9) for _ in range(n)]
    (same,) = compare(HALVES, sketched(numbers), sketched(dice.sample(numbers, n), pieces=pieces))
    assert same.differ == 0
    moved = [*numbers[n // 5 :], *[10.0**10] * (n // 5)]
    (other,) = compare(HALVES, sketched(numbers), sketched(moved, pieces=pieces))
    assert other.differ == 1


@pytest.mark.parametrize("n", [1, 50, 200])
def test_quantiles_of_few_values_are_exact(n: int) -> None:
    numbers = [float(n) for n in range(n)]
    assert compare(HALVES, sketched(numbers), sketched(numbers[::-1], pieces=min(n, 3)))[0].unequal == 0
    (less,) = compare(HALVES, sketched(numbers), sketched(numbers[1:]))
    assert (less.unequal, less.differ) == (1, 1)


def test_quantiles_of_more_values_or_of_none_differ_whatever_they_are() -> None:
    """How many values a sketch has seen is exact, however small the error of the rank is."""
    numbers = [float(n) for n in range(1000)]
    # Only the answers 0 and 1 are sure to differ: the sketch throws dice for those between, which may come out the same.
    ends = replace(HALVES, measures={"half": approx_quantiles("f", (0.5, 1))})
    (more,) = compare(ends, sketched(numbers, view=ends), sketched([*numbers, 1000.0], view=ends))
    assert (more.rows, more.differ) == (1, 1)
    assert compare(HALVES, sketched(numbers), sketched([]))[0].examples[0].only == "served"
    bare = partial(HALVES, table([{"at": EPOCH, "f": None}]), EMPTY).states
    (one,) = compare(HALVES, sketched(numbers), bare)
    assert (one.differ, one.examples[0].found) == (1, {"0.1": None, "0.5": None, "0.99": None})


def test_a_declared_tolerance_of_quantiles_is_of_their_values() -> None:
    view = replace(HALVES, tolerances={"half": 0.5})
    numbers = [float(n) for n in range(1000)]
    (close,) = compare(view, sketched(numbers), sketched([1.4 * each for each in numbers]))
    (far,) = compare(view, sketched(numbers), sketched([2.5 * each for each in numbers]))
    assert (close.differ, far.differ) == (0, 1)


def test_an_example_has_its_key_its_window_and_both_values() -> None:
    at = {"at": datetime(2026, 3, 1, tzinfo=UTC)}
    served = answered(VIEW, [{**at, "s": "a", "d": Decimal("1.50")}, {**at, "s": None}])
    found = answered(VIEW, [{**at, "s": "a", "d": Decimal("0.50")}, {**at, "s": "a"}])
    by_name = {difference.measure: difference for difference in compare(VIEW, served, found)}
    (lacking, differing) = by_name["n"].examples
    window = {"window_start": "2026-03-01T00:00:00Z", "window_end": "2026-03-01T01:00:00Z"}
    assert (lacking.row, lacking.served, lacking.found, lacking.only) == ({"s": None, **window}, 1, None, "served")
    assert (differing.row, differing.served, differing.found, differing.only) == ({"s": "a", **window}, 1, 2, None)
    assert (by_name["d"].examples[0].served, by_name["d"].examples[0].found) == ("1.50", "0.50")
    assert (by_name["d"].largest, by_name["d"].share, by_name["d"].smape) == (1.0, 1.0, 0.5)
    assert (by_name["n"].mean, by_name["n"].smape) == (1.0, pytest.approx((2 + 2 / 3) / 2))


def test_tolerances_are_what_is_declared_or_stated() -> None:
    found = {name: tolerance(VIEW, name) for name in VIEW.measures}
    assert {found[name] for name in ("n", "d", "text", "usual", "top", "exact", "rate")} == {0.0}
    assert found["f"] == FLOAT_TOLERANCE
    assert 0 < found["about"] < 0.1
    assert found["half"] == pytest.approx(2 * 0.0133)
    loose = replace(VIEW, tolerances={"n": 0.5, "about": 0})
    assert (tolerance(loose, "n"), tolerance(loose, "about"), tolerance(loose, "rate")) == (0.5, 0.0, 0.0)
    assert fingerprint(loose) == fingerprint(VIEW)
    with pytest.raises(DefinitionError, match="no measure 'm'"):
        bind(replace(VIEW, tolerances={"m": 0.5}))
    with pytest.raises(DefinitionError, match="is given 5; it is a part"):
        bind(replace(VIEW, tolerances={"n": 5}))


def test_a_tolerance_is_told_as_a_change_that_changes_no_number() -> None:
    one, other = (Project(None, {"samples": SAMPLES}, {"v": view}, {}) for view in (VIEW, replace(VIEW, tolerances={"n": 0.5})))
    (view,) = definition_diff.compare(one, other).views
    assert (view.status, [change.words for change in view.changes]) == ("unchanged", ["tolerance of measure 'n': none -> 0.5"])
