"""A caller that is cancelled keeps no place of a fair pool: while it waits, just as its turn comes, or while its work runs."""

import asyncio
import threading
from typing import Literal

import pytest

from tandem.serving.access.fair_pool import FairPool


class Cancelling(FairPool):
    """Cancels a task just as the turn has come for whoever waits."""

    gone: "asyncio.Task[None] | None" = None

    def _leave(self, by: str) -> None:
        super()._leave(by)
        if self.gone is not None:
            self.gone.cancel()


@pytest.mark.parametrize("when", ["waiting", "turn", "working"])
@pytest.mark.parametrize("by", ["same", "other"])
def test_the_place_of_a_cancelled_caller_goes_to_the_next(when: Literal["waiting", "turn", "working"], by: str) -> None:
    async def asked() -> list[bool]:
        may, at_work = threading.Event(), asyncio.Event()
        loop, pool = asyncio.get_running_loop(), Cancelling("pool", 1, 1)

        def held() -> None:
            loop.call_soon_threadsafe(at_work.set)
            may.wait(60)

        with pool.open():
            try:
                first = asyncio.create_task(pool.run("first", held))
                await at_work.wait()
                gone = asyncio.create_task(pool.run("gone", lambda: None))
                await asyncio.sleep(0)  # it waits
                if when == "waiting":
                    gone.cancel()
                elif when == "turn":
                    pool.gone = gone
                else:
                    first.cancel()
                may.set()
                await asyncio.wait([first, gone], timeout=60)
                pool.gone = None
                await asyncio.wait_for(pool.run("gone" if by == "same" else "another", lambda: None), 60)
                assert not pool._queue._held.total()
                return [first.cancelled(), gone.cancelled()]
            finally:
                may.set()

    assert asyncio.run(asked()) == [when == "working", when != "working"]
