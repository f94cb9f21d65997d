"""With hot commits, which may leave answers again, an answer is as fresh as asked for, at once, and under a tag of its own."""

import json
import time
from pathlib import Path

import pytest

from serving.memory.hot_feed import HotFeed
from tests.serving.code.coded import coded
from tests.serving.http.served import Served
from tests.serving.memory.test_answers_of_hot_commits import Hot
from tests.serving.world import World, hit, nine_hits

ROWS = "/views/per_page/rows"


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
    (tmp_path / "project").mkdir()
    world = coded(tmp_path)
    served = Served(world, {"poll_ms": 60_000, "wait_s": 5}, feed=feed)
    with served.asker() as asker:
        assert asker.get("/views/coded/rows").status_code == 200
        hot = Hot(world, feed)
        for number in range(2):
            world.append(0, hit("/", number))
            hot.read(world.end)
            found = asker.get("/views/coded/rows", params=counted(world))
            assert found.status_code == 200, found.text


def counted(world: World) -> dict[str, str]:
    """A parameter with which a request waits until all of the log is counted."""
    return {"min_position": json.dumps(world.end.to_json())}
