"""Requests of a server start in turn: a few in each turn of the event loop, one address after another."""

import asyncio
from collections import deque
from dataclasses import dataclass, field


@dataclass
class Starts:
    """At most `each_turn` starts in one turn of the event loop; the others wait, round robin by address.

    So a request waits for at most one of each other address, however many requests these sent. For one event loop.
    """

    each_turn: int
    _waiting: "dict[str, deque[asyncio.Future[None]]]" = field(
        default_factory=dict, init=False, repr=False
    )  # in the order of turns
    _begun: int = field(default=0, init=False, repr=False)

    async def turn(self, address: str) -> None:
        """Return in this turn of the loop, or in a later one."""
        loop = asyncio.get_running_loop()
        if not self._begun:
            loop.call_soon(self._turn)
        if self._begun < self.each_turn and not self._waiting:
            self._begun += 1
            return
        waits = loop.create_future()
        self._waiting.setdefault(address, deque()).append(waits)
        await waits

    def _turn(self) -> None:
        self._begun = 0
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._turn)
        while self._waiting and self._begun < self.each_turn:
            address = next(iter(self._waiting))
            waits = self._waiting.pop(address)
            first = waits.popleft()
            if waits:
                self._waiting[address] = waits  # behind all others
            if not first.done():  # nobody waits for a request that was cancelled
                self._begun += 1
                first.set_result(None)
