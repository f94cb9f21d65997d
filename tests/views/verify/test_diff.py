"""The diff of two meanings of a view is what plain Python finds, and adds up over disjoint keys."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from functools import reduce
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from tandem.batch.release.apply import Applied
from tandem.cli.release.apply import lines
from tandem.ledger.publish.diffs import ReleaseDiff
from tandem.ledger.publish.publications import Publication
from tandem.views.kernel.kernel import Partial, merge, present
from tandem.views.measures import approx_count_distinct, approx_quantiles, count, maximum, mean, total
from tandem.views.verify.compare import tolerance
from tandem.views.verify.release_diff import Diff, add, diff, to_json
from tandem.views.view import View, group_columns
from tandem.views.windows import tumbling
from tests.samples import SAMPLES, share
from tests.views.verify.test_compare import answered, pieces

OLD = View(
    SAMPLES,
    keys={"s": "s"},
    window=tumbling(hours=1),
    measures={"n": count(), "d": total("d"), "usual": mean("f"), "gone": maximum("i"), "about": approx_count_distinct("i")},
    name="v",
)
NEW = replace(
    OLD,
    where="i is null or i > 0",
    measures={"n": count(), "d": total("d"), "usual": mean("f"), "about": approx_count_distinct("i"), "most": maximum("f")},
)


def answers(view: View, states: pa.Table) -> dict[tuple[Any, ...], dict[str, Any]]:
    rows = present(view, merge(view, [Partial(states)])).to_pylist()
    return {tuple(row[name] for name in group_columns(view)): row for row in rows}


def differ(one: Any, other: Any, allowed: float) -> bool:
    if one == other:
        return False
    return not allowed or one is None or other is None or abs(one - other) > allowed * max(abs(one), abs(other))


@share(40)
@given(pieces, pieces, pieces)
def test_it_finds_what_plain_python_finds(common: list[Any], before: list[Any], after: list[Any]) -> None:
    sides = answered(OLD, [*common, *before]), answered(NEW, [*common, *after])
    found = diff(OLD, NEW, *sides)
    old, new = answers(OLD, sides[0]), answers(NEW, sides[1])
    both = old.keys() & new.keys()
    shared = ("n", "d", "usual", "about")
    assert (found.matched, found.only_old, found.only_new) == (len(both), len(old) - len(both), len(new) - len(both))
    assert found.changed == sum(
        any(differ(old[place][name], new[place][name], tolerance(NEW, name)) for name in shared) for place in both
    )
    assert set(found.measures) == set(shared)
    for name in shared:
        assert found.measures[name].rows == len(both)
        assert found.measures[name].unequal == sum(old[place][name] != new[place][name] for place in both)
    json.dumps(to_json(found))


def test_errors_of_what_differs_are_those_of_no_other_row() -> None:
    """Of a hundred rows three differ by more than 5 %: the others are no part of their mean, nor of their largest error."""
    old = replace(OLD, keys={"i": "i"}, measures={"usual": mean("f")}, tolerances={"usual": 0.05})
    values = [(10_000.0, 10_400.0), (10.0, 20.0), (30.0, 10.0), (1.0, 2.0), *[(5.0, 5.0)] * 96]
    sides = (
        [{"at": datetime(2026, 1, 1, tzinfo=UTC), "i": n, "f": pair[side]} for n, pair in enumerate(values)] for side in (0, 1)
    )
    found = diff(old, old, *(answered(old, events) for events in sides))
    said = to_json(found)["measures"]["usual"]
    symmetric = [2 * abs(one - other) / (one + other) for one, other in values]
    assert (said["differ"], said["largest_of_differing"], said["largest"]) == (3, 20.0, 400.0)
    assert said["mean_error_of_differing"] == pytest.approx(sum(symmetric[1:4]) / 3)
    assert said["mean_error"] == pytest.approx(sum(symmetric) / 100)
    live = first_publication()
    stored = ReleaseDiff(live.at, 1, 1, {"v": {"status": "changed", **to_json(found)}})
    (line,) = [one for one in lines(Applied(live, 2, diff=stored)) if "usual" in one]
    assert line == "    usual: 3 differ, by at most 20, on average by 77.78%"


def first_publication() -> Publication:
    return Publication(1, 0, datetime(2026, 1, 1, tzinfo=UTC), "test", "initial", 1, {}, {})


@share(15)
@given(pieces, pieces)
def test_of_disjoint_keys_diffs_add_up(before: list[Any], after: list[Any]) -> None:
    sides = answered(OLD, before), answered(NEW, after)

    def bucket(states: pa.Table, number: int) -> pa.Table:
        return states.filter(pa.array([hash(key) % 3 == number for key in states["s"].to_pylist()], pa.bool_()))

    whole = diff(OLD, NEW, *sides)
    added = reduce(add, (diff(OLD, NEW, *(bucket(side, number) for side in sides)) for number in range(3)), Diff())
    counts = ("matched", "changed", "only_old", "only_new")
    assert [getattr(added, name) for name in counts] == [getattr(whole, name) for name in counts]
    if whole.rows:
        assert {name: one.differ for name, one in added.measures.items()} == {
            name: one.differ for name, one in whole.measures.items()
        }


def test_other_keys_have_no_row_in_common() -> None:
    events = [{"at": datetime(2026, 1, 1, 0, n, tzinfo=UTC), "s": "ab"[n % 2], "i": n} for n in range(4)]
    for other in (replace(OLD, keys={"i": "i"}), replace(OLD, keys={}), replace(OLD, keys={"s": "i"})):
        found = diff(OLD, other, answered(OLD, events), answered(other, events))
        assert (found.apart, found.matched, found.only_old) == (True, 0, 2)
        assert not to_json(found)["comparable"]


def test_a_measure_of_another_type_changes_every_row() -> None:
    events = [{"at": datetime(2026, 1, 1, tzinfo=UTC), "s": s, "i": 1, "f": 1.0} for s in "abc"]
    other = replace(OLD, measures={**OLD.measures, "gone": maximum("f")})
    found = diff(OLD, other, answered(OLD, events), answered(other, events))
    assert (found.matched, found.changed, "gone" in found.measures) == (3, 3, False)


def test_quantiles_are_compared_by_their_sketches() -> None:
    """KLL throws dice: of equal events two sketches say otherwise, and differ in no rank by more than they state.

    Around 0 values that are near in rank are far apart relative to each other.
    """
    events = [{"at": datetime(2026, 1, 1, tzinfo=UTC), "s": "a", "i": n} for n in range(-2500, 2500)]
    old = replace(OLD, measures={"half": approx_quantiles("i", (0.5, 0.9))})
    new, shifted = replace(old, where="i is not null"), replace(old, measures={"half": approx_quantiles("i + 2000", (0.5, 0.9))})
    same, other = (diff(old, view, answered(old, events), answered(view, events)) for view in (new, shifted))
    assert (same.matched, same.changed, same.measures["half"].differ) == (1, 0, 0)
    assert (other.matched, other.changed, other.measures["half"].differ) == (1, 1, 1)
