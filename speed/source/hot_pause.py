"""Rarer micro-batches while a hot tail answers before they commit: each costs a Spark job and a commit, however small it is."""

import time
from collections.abc import Callable
from threading import Event
from typing import Final

_LOOK_S: Final = 0.1


def pause(longest_s: float, *, healthy: Callable[[], bool], ended: Event, clock: Callable[[], float] = time.monotonic) -> None:
    """Wait after a commit, for at most this many seconds: only as long as the hot tail is healthy, and until `ended` is set."""
    until = clock() + longest_s
    while (left := until - clock()) > 0 and healthy():
        if ended.wait(min(left, _LOOK_S)):
            return
