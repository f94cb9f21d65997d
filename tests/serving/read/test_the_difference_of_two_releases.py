"""Rows in which a release differs from the live one: those of the oracle of both definitions, with reasons that are true."""

from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.ledger.log.positions import LOG_START, Position
from tandem.serving.read import release_comparison
from tandem.serving.read.merged_layers import Reader, UnknownView
from tandem.serving.read.realtime_tail import RealtimeTail
from tandem.serving.read.release_comparison import ReleaseComparison, ViewComparison
from tandem.views.instant import utc_text
from tandem.views.kernel.kernel import decode, prepare
from tandem.views.oracle import answers, grouped
from tandem.views.verify.release_diff import comparable
from tandem.views.verify.row_reasons import DiffGrounds
from tandem.views.view import View, group_columns
from tests.samples import just
from tests.serving.read.test_a_release_before_it_is_live import Side, steps, values
from tests.serving.two_releases import CHANGES, applied, asked, edited
from tests.serving.world import SOURCE, World, hit, position

Groups = dict[tuple[Any, ...], dict[str, Any]]


def told(world: World, view: View, end: Position) -> Groups:
    """The oracle's rows of a view up to a position."""
    source = world.project.sources[SOURCE]
    events = prepare(source, decode(source, world.records(LOG_START, end)).events, (world.places[0][0],)).events
    return {tuple(group): dict(row) for group, row in answers(view, grouped(view, events)[0]).items()}


def compared(live: World, other: World) -> ReleaseComparison:
    return ReleaseComparison(Reader(live.tables), Reader(other.tables, asked=asked(other)))


def differ(one: dict[str, Any], two: dict[str, Any]) -> bool:
    shared = [name for name in two if name in one]
    return any(one[name] != two[name] and (name != "mean" or abs(one[name] - two[name]) > 1e-9) for name in shared)


def check(live: Side, other: Side) -> None:
    """Totals, rows and reasons of every view that both have."""
    comparison = compared(live.world, other.world)
    for name in comparison.views():
        found = comparison.of(name)
        old, new = live.world.project.views[name], other.world.project.views[name]
        ends = live.world.writer.end, other.world.writer.end
        rows = [told(side.world, view, end) for side, view, end in zip((live, other), (old, new), ends, strict=True)]
        if not comparable(old, new):
            assert (found.totals.matched, found.totals.only_old, found.totals.only_new) == (0, *map(len, rows))
            continue
        both = rows[0].keys() & rows[1].keys()
        changed = sum(differ(rows[0][group], rows[1][group]) for group in both)
        alone = len(rows[0]) - len(both), len(rows[1]) - len(both)
        assert (found.totals.matched, found.totals.changed) == (len(both), changed)
        assert (found.totals.only_old, found.totals.only_new) == alone
        assert len(found.rows) == changed + sum(alone)
        assert [row.difference.order for row in found.rows] == sorted(row.difference.order for row in found.rows)
        reasons_hold(found, live, other)


def reasons_hold(found: ViewComparison, live: Side, other: Side) -> None:
    """A certain reason is the oracle's: the definition makes a difference at the common position, late events do not."""
    old, new = live.world.project.views[found.view], other.world.project.views[found.view]
    certain = [row for row in found.rows if row.why.certain]
    assert all(row.why.reasons for row in found.rows)
    if found.common is None:
        return
    before, after = told(live.world, old, found.common), told(other.world, new, found.common)
    for row in certain:
        group = next((group for group in (*before, *after) if named(new, group) == row.difference.row), None)
        same = group is None or (group in before and group in after and not differ(before[group], after[group]))
        assert same == (row.why.reasons == ("late events",))


def named(view: View, group: tuple[Any, ...]) -> dict[str, Any]:
    """Keys and window as rows have them."""
    values = [utc_text(value) if isinstance(value, datetime) else value for value in group]
    return dict(zip(group_columns(view), values, strict=True))


@just(4, quick=2)
@given(
    before=st.lists(values, max_size=3),
    changes=st.lists(st.sampled_from([*CHANGES]), min_size=1, max_size=2, unique=True),
    steps=steps,
)
def test_rows_and_totals_are_the_oracles_of_both_definitions(
    before: list[list[bytes]], changes: list[str], steps: list[tuple[Any, ...]]
) -> None:
    with TemporaryDirectory() as folder:
        live = Side(World(Path(folder)), LOG_START)
        for number, some in enumerate(before):
            live.world.append(number % 2, *some)
            live.trigger()
        live.recompute(0)
        other = Side(applied(live.world, edited(*changes)), live.cut)
        other.recompute(0)
        for step in [*steps, ("live", "trigger", 0), ("next", "trigger", 0)]:
            match step:
                case ("append", int(partition), list(some)):
                    live.world.append(partition, *some)
                case ("live" | "next" as which, "trigger", _):
                    (live if which == "live" else other).trigger()
                case ("live" | "next" as which, "recompute", int(back)):
                    (live if which == "live" else other).recompute(back)
            check(live, other)
        caught_up = live.world.writer.end == other.world.writer.end == live.world.end
        comparison = compared(live.world, other.world)
        reasons = {row.why for name in comparison.views() for row in comparison.of(name).rows}
        assert not caught_up or all(why.certain and why.reasons == ("new definition",) for why in reasons)


@pytest.fixture
def sides(tmp_path: Path) -> tuple[World, World]:
    """Twelve events; the live release counts to 12, release 2, of which `ever` has another filter, to 10."""
    live = World(tmp_path)
    live.append(0, *(hit("/", n) for n in range(12)))
    for end in (4, 8, 10, 12):
        live.trigger(position(end))
    live.recompute(position(4))
    other = applied(live, edited("another filter"))
    for end in (8, 10):
        other.trigger(position(end))
    Side(other, position(4)).recompute(0)
    return live, other


def test_late_events_are_those_that_one_side_counts_alone(sides: tuple[World, World]) -> None:
    comparison = compared(*sides)
    hourly = comparison.of("per_page")
    assert hourly.common == position(10)
    assert [row.why for row in hourly.rows] == [(("late events",), True)]
    ever = comparison.of("ever")
    assert [row.why for row in ever.rows] == [(("new definition", "late events"), False)]
    sides[1].trigger()
    comparison = compared(*sides)
    assert comparison.of("per_page").rows == ()
    assert [row.why for row in comparison.of("ever").rows] == [(("new definition",), True)]


def test_keys_choose_rows_and_an_unshared_view_is_named(sides: tuple[World, World]) -> None:
    comparison = compared(*sides)
    assert comparison.of("per_page", ["page=/none"]).totals.rows == 0
    assert comparison.of("per_page", ["page=/"]).totals.changed == 1
    with pytest.raises(UnknownView, match="no view 'evr'; views of both releases 1 and 2: ever, inverse, per_page"):
        comparison.of("evr")


@pytest.mark.slow
@pytest.mark.parametrize("planted", ["the definition is the reason of each row", "the position is not asked"])
def test_the_law_sees_a_reason_that_is_guessed(sides: tuple[World, World], monkeypatch: pytest.MonkeyPatch, planted: str) -> None:
    live, other = (Side(side, position(4)) for side in sides)
    check(live, other)
    if planted == "the position is not asked":
        monkeypatch.setattr(release_comparison, "last_common", lambda one, _: one.end)
        monkeypatch.setattr(RealtimeTail, "up_to", lambda self, _: self)
    else:
        monkeypatch.setattr(DiffGrounds, "later", lambda self, row, before, *, duplicates: (("new definition",), True))
    with pytest.raises((AssertionError, AttributeError)):
        test_late_events_are_those_that_one_side_counts_alone(sides)
