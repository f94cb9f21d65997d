"""Wait for a condition, with a timeout."""

import time
from collections.abc import Callable
from typing import TypeVar

from tandem.views.errors import TandemError

_TICK_S = 0.2
_T = TypeVar("_T")


class TimedOut(TandemError, code="demo-timed-out"):
    """The condition was not met in time."""


def wait_for(what: str, look: Callable[[], _T | None], *, seconds: float, meanwhile: Callable[[], None]) -> _T:
    """Poll until there is a result, and return it; `meanwhile` is called between polls and may raise.

    Raises TimedOut, which names what was waited for, after this many seconds.
    """
    deadline = time.monotonic() + seconds
    while (found := look()) is None:
        meanwhile()
        if time.monotonic() > deadline:
            raise TimedOut(f"timeout: waited {seconds:.0f} s for {what}")
        time.sleep(_TICK_S)
    return found
