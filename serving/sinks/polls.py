"""Polls the tables for the sinks of a process, and takes in hot commits as they come."""

import threading
import time
from dataclasses import dataclass, field
from typing import Final

from tandem.ledger.hot.chain import LOOK_S
from tandem.ledger.hot.feed import HotFeed
from tandem.serving.connection import EVERY_S, Connection

_HALF: Final = 2


@dataclass
class SinkPolls:
    """Keeps the connections of sinks at the newest snapshots: `cold` counts commits, `hot` also the hot commits of `feed`.

    At least one is there. `every_s` is the time between two polls of the tables, for `hot` at least LOOK_S. For one thread, which
    calls `wait` again and again.
    """

    cold: Connection | None = None
    hot: Connection | None = None
    feed: HotFeed | None = None
    every_s: float = EVERY_S
    _woken: threading.Event = field(default_factory=threading.Event, init=False, repr=False)
    _cold_due: float = field(default=0.0, init=False)
    _hot_due: float = field(default=0.0, init=False)
    _hot_polled: float = field(default=float("-inf"), init=False)

    def __post_init__(self) -> None:
        if self.feed is not None:
            self.feed.woken = self._woken.set

    def close(self) -> None:
        """Close the connections: steps end."""
        for connection in (self.cold, self.hot):
            if connection is not None:
                connection.close()

    @property
    def connection(self) -> Connection:
        """The connection of sinks that follow commits, and of alerts."""
        connection = self.cold or self.hot
        assert connection is not None
        return connection

    def wait(self) -> bool:
        """Wait for hot commits, or until a poll of the tables is due, and take in what is new; whether the tables were polled."""
        due = min([self._cold_due] * (self.cold is not None) + [self._hot_due] * (self.hot is not None))
        woken = self._woken.wait(max(0.0, due - time.monotonic()))
        polled = self.hot is not None and self._take_in(self.hot, woken=woken)
        if self.cold is not None and time.monotonic() >= self._cold_due:
            self.cold.refresh()
            self._cold_due, polled = time.monotonic() + self.every_s, True
        return polled

    def _take_in(self, hot: Connection, *, woken: bool) -> bool:
        if self.feed is not None:
            self.feed.asked()
        if woken:
            self._woken.clear()
            if hot.store.refresh_hot() is None:
                # However often it is woken, it polls the tables at most twice in the time of a poll.
                self._hot_due = min(self._hot_due, self._hot_polled + self.every_s / _HALF)
        if time.monotonic() < self._hot_due:
            return False
        hot.refresh()
        self._hot_polled = time.monotonic()
        self._hot_due = self._hot_polled + max(LOOK_S, self.every_s)
        return True
