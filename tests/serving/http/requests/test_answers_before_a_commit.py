"""With hot commits, which may leave answers again, an answer is as fresh as asked for, at once, and under a tag of its own."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import httpx
import pytest

from tandem.ledger.hot.feed import HotFeed
from tandem.serving.http.answer_cache.lane import Lane
from tandem.serving.http.protocol.problem import Problem
from tandem.serving.http.queries.answer_question import ask_fresh
from tandem.serving.read.snapshot import Snapshot
from tests.serving.http.served import Asker, Served
from tests.serving.memory.test_answers_of_hot_commits import Hot
from tests.serving.project_code.coded import coded
from tests.serving.world import World, hit, nine_hits

ROWS = "/views/per_page/rows"


def counted(world: World) -> dict[str, str]:
    """A parameter with which a request waits until all of the log is counted."""
    return {"min_position": json.dumps(world.end.to_json())}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return nine_hits(tmp_path)


@pytest.fixture
def feed() -> HotFeed:
    return HotFeed(time.monotonic)


def test_a_tail_that_folded_the_same_range_again_has_another_tag(world: World, feed: HotFeed) -> None:
    """What it knew of late events and watermarks may differ, and provenance says so."""
    served = Served(world, feed=feed)
    with served.asker() as asker:
        world.append(0, hit("/", 10))
        tags = set()
        for epoch in (1, 2):
            Hot(world, feed, epoch=epoch).read(world.end)
            served.server.lane.cache.store.refresh()
            found = asker.get(ROWS)
            assert found.json()["provenance"]["realtime"] == world.end.to_json()
            tags.add(found.headers["etag"])
        assert len(tags) == 2


def test_views_with_project_code_count_hot_commits_at_once(tmp_path: Path, feed: HotFeed) -> None:
    world = coded(tmp_path)
    served = Served(world, {"poll_ms": 60_000, "wait_s": 60}, feed=feed)
    with served.asker() as asker:
        assert asker.get("/views/coded/rows").status_code == 200
        hot = Hot(world, feed)
        for number in range(2):
            world.append(0, hit("/", number))
            hot.read(world.end)
            found = asker.get("/views/coded/rows", params=counted(world))
            assert found.status_code == 200, found.text


WAYS: Final[dict[str, Callable[[Asker, dict[str, str]], httpx.Response]]] = {
    "rows": lambda asker, params: asker.get("/views/per_page/rows", params=params),
    "row": lambda asker, params: asker.get(
        "/views/per_page/row", params={"key.page": "/", "window": "2026-11-01T12:00", **params}
    ),
    "lookup": lambda asker, params: asker.post("/views/per_page/lookup", json={"keys": [{"page": "/"}]}, params=params),
    "sql": lambda asker, params: asker.post("/sql", json={"statement": "SELECT n FROM per_page"}, params=params),
}


@pytest.mark.each_run("200-row", "200-lookup", "504-rows")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("status", [200, 504])
def test_a_position_that_answers_leave_before_a_question_has_its_turn_is_waited_for_again(
    world: World, feed: HotFeed, monkeypatch: pytest.MonkeyPatch, way: str, status: int
) -> None:
    until, waits = Lane.until, list[bool]()

    async def lost_after(self: Lane, holds: Callable[[Snapshot], bool], *, seconds: float) -> bool:
        if len(waits) == 1 and status == 200:
            world.trigger()
        found = await until(self, holds, seconds=seconds)
        waits.append(found)
        if len(waits) == 1:
            hot.publish(None, lost=True)
            self.cache.store.refresh()
        return found

    # Nothing polls here, so the lane still names the snapshot that answers have left.
    change = {"wait_s": 60} if status == 200 else {"wait_s": 1, "poll_ms": 60_000}
    served, hot = Served(world, change, feed=feed), Hot(world, feed)
    with served.asker() as asker:
        committed = world.end
        world.append(0, hit("/", 10))
        hot.read(world.end)
        monkeypatch.setattr(Lane, "until", lost_after)
        found = WAYS[way](asker, counted(world))
        assert found.status_code == status
        if status == 504:
            stand = "1 offsets below min_position" if way == "sql" else f"answers stand at {json.dumps(committed.to_json())}, "
            assert stand in found.json()["detail"]
        if status == 200:
            row = found.json()["row"] if way == "row" else found.json()["rows"][0]
            assert row["n"] == 10


@pytest.mark.parametrize("way", WAYS)
def test_who_waits_for_a_position_asks_for_hot_commits(world: World, feed: HotFeed, way: str) -> None:
    reports: list[float] = []
    feed.wanted = lambda: reports.append(time.monotonic())
    served = Served(world, {"wait_s": 0.2}, feed=feed)
    with served.asker() as asker:
        world.append(0, hit("/", 10))
        assert reports == []
        assert WAYS[way](asker, counted(world)).status_code == 504
        assert reports


def test_a_source_that_answers_have_left_is_reported(world: World) -> None:
    served = Served(world, {"wait_s": 0})
    with served.asker() as asker:
        view = world.project.views["per_page"]
        asked = ask_fresh(
            served.server,
            served.server.lane,
            replace(view, source=replace(view.source, name="others")),
            lambda cache: cache,
            by="anybody",
            min_position="{}",
            max_age=None,
            at_the_cut=False,
            bound=False,
        )
        with pytest.raises(Problem, match="source 'others' has no answers any more"):
            asker.runner.run(asked)
