"""However often a lane is woken, it polls the tables at most twice in the time between two polls; hot commits need no poll."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tandem.ledger.delta.watched_table import SELDOM_S
from tandem.ledger.hot.chain import LOOK_S
from tandem.ledger.hot.feed import HotFeed
from tandem.serving.http.answer_cache import lane as lanes
from tandem.serving.http.answer_cache.cache import AnswerCache
from tandem.serving.http.answer_cache.lane import Lane
from tandem.serving.memory.store import Store
from tandem.serving.read.outcome import Failed
from tests.serving.memory.test_answers_of_hot_commits import Hot
from tests.serving.world import SOURCE, hit, nine_hits, position

EVERY_S = 0.2
POLLS = 6


@dataclass
class Polls:
    """When polls ended; `after` is called after each.

    The lane counts its first rest from the end of the first poll, and each later rest from the beginning of a poll. So all rests
    pass between the first of these times and a later one. Between two later ones less than a rest passes if the later poll is
    faster.
    """

    after: Callable[[], object] = lambda: None
    times: list[float] = field(default_factory=list)
    enough: asyncio.Event = field(default_factory=asyncio.Event)

    def polled(self, _: object, __: float) -> None:
        self.times.append(time.monotonic())
        if len(self.times) > POLLS:
            self.enough.set()
        self.after()


def test_a_lane_that_is_woken_after_each_poll_keeps_half_the_time_between_polls(tmp_path: Path) -> None:
    async def followed() -> list[float]:
        polls = Polls()
        lane = Lane(AnswerCache(Store(nine_hits(tmp_path).tables, 1), 1 << 20), EVERY_S, time.monotonic, polls.polled)
        polls.after = lane.wake
        async with lane.open():
            await asyncio.wait_for(polls.enough.wait(), 60)
        return polls.times

    times = asyncio.run(followed())
    assert times[POLLS] - times[0] >= POLLS * EVERY_S / 2


def test_a_lane_rests_while_only_a_publication_can_be_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "SELDOM_S", 1.0)
    whole = [True]

    async def followed() -> list[float]:
        polls = Polls()
        rests = lambda pinned: whole[0] and pinned.snapshot.positions[SOURCE] == position(9)  # noqa: E731
        lane = Lane(AnswerCache(Store(nine_hits(tmp_path).tables, 1), 1 << 20), 0.01, time.monotonic, polls.polled, rests)
        polls.after = lambda: whole.__setitem__(0, len(polls.times) < 4)
        async with lane.open():
            await asyncio.wait_for(polls.enough.wait(), 60)
        return polls.times

    times = asyncio.run(followed())
    assert times[3] - times[0] >= 3 * 1.0
    assert times[POLLS] - times[3] < (POLLS - 3) * 1.0, "the log has something that is not counted"


def test_a_lane_that_rests_polls_for_hot_commits_that_do_not_continue_what_it_has(tmp_path: Path) -> None:
    async def followed() -> None:
        polls = Polls()
        tables = nine_hits(tmp_path).tables
        lane = Lane(AnswerCache(Store(tables, 1), 1 << 20), 0.05, time.monotonic, polls.polled, lambda _: True)
        async with lane.open(), asyncio.timeout(60):
            before, began = lane.newest, time.monotonic()
            lane.wake()
            while len(polls.times) < 2:
                await lane.another(before, seconds=0.05)
            assert time.monotonic() - began < SELDOM_S

    asyncio.run(followed())


def test_hot_commits_are_answered_at_once_and_without_a_poll(tmp_path: Path) -> None:
    async def followed() -> None:
        world, polls, feed = nine_hits(tmp_path), Polls(), HotFeed(time.monotonic)
        lane = Lane(AnswerCache(Store(world.tables, 1, hot=feed), 1 << 20), 600.0, time.monotonic, polls.polled)
        feed.woken = lane.wake
        hot = Hot(world, feed)
        async with lane.open():
            for number in (10, 11, 12):
                before = lane.newest
                world.append(0, hit("/", number))
                await asyncio.to_thread(hot.read, world.end)
                assert await lane.another(before, seconds=60)
                assert lane.snapshot().positions[SOURCE] == position(number)
        assert len(polls.times) == 1

    asyncio.run(followed())


@pytest.mark.parametrize("aside", [False, True])
def test_while_all_answers_count_hot_commits_polls_are_seldom(*, aside: bool, tmp_path: Path) -> None:
    async def followed() -> list[float]:
        world, polls, feed = nine_hits(tmp_path), Polls(), HotFeed(time.monotonic)
        lane = Lane(AnswerCache(Store(world.tables, 1, hot=feed), 1 << 20), 0.01, time.monotonic, polls.polled)
        world.append(0, hit("/", 10))
        live = [view.fingerprint for view in world.live.views.values()]
        Hot(world, feed, aside=frozenset(live[:1]) if aside else frozenset()).read(world.end)
        async with lane.open():
            await asyncio.wait_for(polls.enough.wait(), 60)
        return polls.times

    times = asyncio.run(followed())
    seldom = times[POLLS] - times[0] >= POLLS * LOOK_S
    assert seldom is not aside, "a commit may be ahead of a view that stands aside, and of no other"


def test_an_error_of_any_kind_is_the_answer_until_a_poll_succeeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def followed() -> None:
        world, polls = nine_hits(tmp_path), Polls()
        lane = Lane(AnswerCache(Store(world.tables, 1), 1 << 20), EVERY_S, time.monotonic, polls.polled)
        with monkeypatch.context() as patch:
            patch.setattr(Store, "refresh", lambda _: 1 // 0)
            async with lane.open(), asyncio.timeout(60):
                failed = lane.newest
                assert isinstance(failed, Failed)
                assert failed.reason == (
                    "the published tables cannot be read: ZeroDivisionError: integer division or modulo by zero"
                )
                patch.undo()
                while isinstance(lane.newest, Failed):
                    await lane.another(lane.newest, seconds=1)
                assert lane.snapshot().positions[SOURCE] == position(9)

    asyncio.run(followed())


def test_after_an_error_of_hot_commits_the_tables_are_polled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def followed() -> None:
        world, polls = nine_hits(tmp_path), Polls()
        lane = Lane(AnswerCache(Store(world.tables, 1), 1 << 20), 30.0, time.monotonic, polls.polled)
        monkeypatch.setattr(Store, "refresh_hot", lambda _: 1 // 0)
        async with lane.open(), asyncio.timeout(60):
            before, began = lane.newest, time.monotonic()
            lane.wake()
            while len(polls.times) < 2:
                assert lane.newest is before
                await asyncio.sleep(0.01)
            assert time.monotonic() - began < 30.0
            assert lane.snapshot().positions[SOURCE] == position(9)

    asyncio.run(followed())


def test_a_lane_that_is_always_woken_still_polls(tmp_path: Path) -> None:
    async def followed() -> None:
        world, polls, feed = nine_hits(tmp_path), Polls(), HotFeed(time.monotonic)
        lane = Lane(AnswerCache(Store(world.tables, 1, hot=feed), 1 << 20), EVERY_S, time.monotonic, polls.polled)
        world.append(0, hit("/", 10))
        Hot(world, feed).read(world.end)
        async with lane.open():

            async def waken() -> None:
                while True:
                    lane.wake()
                    await asyncio.sleep(0)

            waking = asyncio.create_task(waken())
            await asyncio.wait_for(polls.enough.wait(), 60)
            waking.cancel()

    asyncio.run(followed())
