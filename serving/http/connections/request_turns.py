"""Requests of a server start in turn: a few in each turn of the event loop, one address after another."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Starts:
    """At most `each_turn` starts in one turn of the event loop; the others wait, round robin by address.

    So a request waits for at most one of each other address, however many requests these sent. For one event loop.
    """

    each_turn: int
    _waiting: dict[str, deque[Callable[[], None]]] = field(default_factory=dict, init=False, repr=False)  # in the order of turns
    _begun: int = field(default=0, init=False, repr=False)

    def begin(self, address: str, start: Callable[[], None]) -> None:
        """Call `start` in this turn of the loop, or in a later one."""
        if not self._begun:
            asyncio.get_running_loop().call_soon(self._turn)
        if self._begun < self.each_turn and not self._waiting:
            self._begun += 1
            start()
        else:
            self._waiting.setdefault(address, deque()).append(start)

    def _turn(self) -> None:
        self._begun = 0
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._turn)
        while self._waiting and self._begun < self.each_turn:
            self._begun += 1
            address = next(iter(self._waiting))
            starts = self._waiting.pop(address)
            start = starts.popleft()
            if starts:
                self._waiting[address] = starts  # behind all others
            start()
