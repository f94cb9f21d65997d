"""Who asks while a look or a question is at work waits for it, so that they do not hold each other up; but never for long."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tandem.serving.http.answer_cache import lane
from tandem.serving.http.answer_cache.lane import Lane
from tests.serving.http.served import Asker, Served
from tests.serving.world import World, hit

ROW = "/views/per_page/row?key.page=/a&window=2026-11-01T12:00"


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    grow(made)
    return made


@pytest.fixture
def served(world: World) -> Served:
    return Served(world)


@pytest.fixture
def asker(served: Served) -> Iterator[Asker]:
    with served.asker() as found:
        assert found.get("/views/per_page/rows").status_code == 200  # in memory from now on
        yield found


class Held:
    """Calls of a function that go on only once they may."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, of: object, name: str) -> None:
        self._at_work, self.may = threading.Event(), threading.Event()
        real = getattr(of, name)

        def held(*given: object, **named: object) -> object:
            self._at_work.set()
            assert self.may.wait(60)
            return real(*given, **named)

        monkeypatch.setattr(of, name, held)

    async def at_work(self) -> None:
        """Wait until there is one."""
        assert await asyncio.to_thread(self._at_work.wait, 60)


def grow(world: World) -> None:
    world.append(0, hit("/a", 1))
    world.trigger()


async def counted(asker: Asker) -> int:
    return int((await asker.client.get(ROW)).json()["row"]["n"])


def test_a_question_during_a_poll_counts_its_result(
    served: Served, world: World, asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    came, settled = asyncio.Event(), Lane.settled

    async def noted(self: Lane) -> None:
        came.set()
        await settled(self)

    async def asked() -> int:
        await looks.at_work()
        grow(world)
        answer = asyncio.create_task(counted(asker))
        await came.wait()
        looks.may.set()
        return await answer

    monkeypatch.setattr(lane, "_TURN_S", 60)
    monkeypatch.setattr(Lane, "settled", noted)
    looks = Held(monkeypatch, served.server.lane.cache.store, "refresh")
    assert asker.runner.run(asked()) == 2


def test_a_slow_poll_delays_no_question(served: Served, asker: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    async def asked() -> list[int]:
        await looks.at_work()
        found = [await counted(asker) for _ in range(3)]
        looks.may.set()
        return found

    looks = Held(monkeypatch, served.server.lane.cache.store, "refresh")
    assert asker.runner.run(asked()) == [1, 1, 1]


def test_a_slow_question_delays_no_row(served: Served, asker: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    async def asked() -> int:
        rows = asyncio.create_task(asker.client.get("/views/per_page/rows"))
        await questions.at_work()
        found = await counted(asker)
        assert not rows.done()
        questions.may.set()
        assert (await rows).status_code == 200
        return found

    questions = Held(monkeypatch, served.server.lane.cache, "answer")
    assert asker.runner.run(asked()) == 1


def test_a_server_is_open_once_at_a_time(served: Served) -> None:
    async def twice() -> None:
        async with served.server.open(), served.server.open():
            pytest.fail("it is open twice")

    with pytest.raises(AssertionError, match="open already"):
        asyncio.run(twice())
    with served.asker() as first, served.asker() as second:
        assert first.runner is second.runner
        assert second.get(ROW).status_code == 200
