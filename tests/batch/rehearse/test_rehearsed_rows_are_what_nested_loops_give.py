"""At each checkpoint both releases have what nested loops give over the events that were appended before it."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tandem.batch.fold.two_versions import Side
from tandem.batch.rehearse.checkpoints import checkpoints
from tandem.batch.rehearse.fold_checkpoints import AnsweredCheckpoint
from tandem.batch.rehearse.rehearse import Rehearsal, rehearse
from tandem.batch.release.release_plan import Terms
from tandem.ledger.publish.releases import Releases
from tandem.views.errors import TandemError
from tandem.views.instant import microseconds, utc_text
from tandem.views.kernel import kernel
from tandem.views.kernel.kernel import Partial
from tandem.views.kernel.rows import to_rows
from tandem.views.project.project import Project
from tests.batch.points.test_points_are_what_was_known import (
    DEFINITIONS,
    MEASURES,
    Record,
    fill,
    knowledge_at,
    log_of,
    windows_of,
)
from tests.batch.shop import MemoryShop

Answer = tuple[str, Side, int, tuple[dict[str, Any], ...]]
END = 1_772_323_200 + 180 * 109
SINCE, EVERY = timedelta(hours=4), timedelta(minutes=45)


def answers(name: str, _: Mapping[Side, Project], checkpoints: Iterator[AnsweredCheckpoint]) -> Iterator[Answer]:
    for checkpoint in checkpoints:
        for side, there in checkpoint.sides.items():
            answer = kernel.present(there.view, Partial(there.states), there.watermark)
            yield name, side, checkpoint.number, tuple(to_rows(there.view, answer))


@pytest.fixture
def memory_shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MemoryShop:
    return MemoryShop.of(tmp_path, monkeypatch)


def rehearsal_of(memory_shop: MemoryShop, *views: str) -> Rehearsal[Answer]:
    return rehearse(memory_shop.run("rehearse"), memory_shop.project(), Terms(), answers, since=SINCE, every=EVERY, views=views)


def by_side(rehearsal: Rehearsal[Answer]) -> dict[tuple[str, Side, int], list[dict[str, Any]]]:
    rows: dict[tuple[str, Side, int], list[dict[str, Any]]] = {}
    for view in rehearsal.views.values():
        for name, side, number, some in view.results:
            rows.setdefault((name, side, number), []).extend(some)
    return rows


def truth(log: Mapping[int, list[Record]], view: str, time: int, lost: int) -> dict[tuple[Any, ...], dict[str, Any]]:
    """By shop and window start what a view answers; sales of `lost` cents do not count in the views with a filter."""
    records = knowledge_at(log, time, "append")
    if view in ("hours", "days"):
        records = [record for record in records if record.sale["cents"] != lost]
    shops = {None} if view in ("all_shops", "days") else {record.sale["shop"] for record in records}
    rows = {}
    for shop in shops:
        some = records if view in ("all_shops", "days") else [record for record in records if record.sale["shop"] == shop]
        for start, _, sold in windows_of(view, some):
            if sold:
                cents = [record.sale["cents"] for record in sold]
                key = (shop, None if view == "ever" else utc_text(datetime.fromtimestamp(start // 1_000_000, UTC)))
                rows[key] = {"n": len(sold), "cents": sum(cents), "most": max(cents), "each": sum(cents) / len(cents)}
    return rows


VIEWS = ("hours", "ever", "all_shops", "gaps", "days")


@pytest.mark.each_run("another filter")
@pytest.mark.parametrize(
    ("edit", "lost"),
    [
        (("cents <> 13", "cents <> 17"), 17),
        (("paid: Annotated[Decimal, Scale(2)]\n", "paid: Annotated[Decimal, Scale(2)]\n    note: str = ''\n"), 13),
    ],
    ids=["another filter", "another decoder"],
)
def test_rows_at_each_checkpoint_are_those_of_the_events_until_then(
    memory_shop: MemoryShop, edit: tuple[str, str], lost: int
) -> None:
    log = log_of(3, 110)
    fill(memory_shop, log)
    live, releases = memory_shop.run("test").standing.publications.latest(), len(Releases(memory_shop.tables).every())
    memory_shop.define(DEFINITIONS.replace(*edit))
    rehearsal = rehearsal_of(memory_shop, *VIEWS)
    times = rehearsal.checkpoints
    assert [times[-1], len(times)] == [END * 1_000_000, 7]
    assert all(time % microseconds(datetime(1970, 1, 1, 0, 45, tzinfo=UTC)) == 0 for time in times[:-1])
    rows, compared = by_side(rehearsal), 0
    for name in VIEWS:
        for number, time in enumerate(times):
            sides: tuple[tuple[Side, int], ...] = (("old", 13), ("new", lost))
            for side, not_counted in sides:
                wanted = truth(log, name, time, not_counted)
                assert {
                    (row.get("shop"), row["window_start"]): {of: row[of] for of in MEASURES if of != "paid"}
                    for row in rows.get((name, side, number), [])
                } == wanted, (name, side, number)
                compared += len(wanted)
    assert compared > 500
    assert memory_shop.run("test").standing.publications.latest() == live
    assert len(Releases(memory_shop.tables).every()) == releases
    assert not list(memory_shop.tables.storage().list_after("scratch"))


def test_only_views_that_differ_are_in_a_rehearsal(memory_shop: MemoryShop) -> None:
    fill(memory_shop, log_of(3, 20))
    memory_shop.define(
        DEFINITIONS.replace("cents <> 13", "cents <> 17")
        .replace("ever = View(", "more = View(")
        .replace("(hours, ever,", "(hours, more,")
    )
    rehearsal = rehearsal_of(memory_shop)
    assert {name: view.status for name, view in rehearsal.views.items()} == {
        "hours": "changed",
        "days": "changed",
        "more": "added",
        "ever": "removed",
    }
    sides = {(name, side) for name, side, _ in by_side(rehearsal)}
    assert {side for name, side in sides if name == "more"} == {"new"}
    assert {side for name, side in sides if name == "ever"} == {"old"}
    named = rehearsal_of(memory_shop, "gaps").views["gaps"]
    assert (named.status, named.costs["new"]) == ("unchanged", named.costs["old"])
    with pytest.raises(TandemError, match="no view 'hour' in either release; views: hours, "):
        rehearsal_of(memory_shop, "hour")


def test_nothing_is_rehearsed_before_a_publication(memory_shop: MemoryShop) -> None:
    with pytest.raises(TandemError, match="nothing is published yet"):
        rehearsal_of(memory_shop)
    assert not list(memory_shop.tables.storage().list_after(""))


def test_checkpoints_are_multiples_and_the_end() -> None:
    hour = 3_600_000_000
    assert checkpoints(10 * hour + 1, timedelta(hours=3), timedelta(hours=1)) == (8 * hour, 9 * hour, 10 * hour, 10 * hour + 1)
    assert checkpoints(10 * hour, timedelta(0), timedelta(hours=1)) == (10 * hour,)
    with pytest.raises(TandemError, match="makes 25201 checkpoints of 7 h, more than 1000; write a longer --every"):
        checkpoints(10 * hour, timedelta(hours=7), timedelta(seconds=1))
    with pytest.raises(TandemError, match="--since reaches back before the year 1"):
        checkpoints(10 * hour, timedelta(days=999_999_999), timedelta(days=99_999_999))
    with pytest.raises(TandemError, match="makes no checkpoints"):
        checkpoints(10 * hour, timedelta(hours=7), timedelta(0))
