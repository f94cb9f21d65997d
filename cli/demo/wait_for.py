"""Waiting, always for something, never for longer than said."""

import time
from collections.abc import Callable
from typing import TypeVar

from views.errors import TandemError

_TICK_S = 0.2
_T = TypeVar("_T")


class TimedOut(TandemError):
    """What was waited for did not come."""


def wait_for(what: str, look: Callable[[], _T | None], *, seconds: float, meanwhile: Callable[[], None]) -> _T:
    """Look until there is something to give back; `meanwhile` is called between looks and may raise.

    Raises TimedOut, saying what was waited for, after this many seconds.
    """
    deadline = time.monotonic() + seconds
    while (found := look()) is None:
        meanwhile()
        if time.monotonic() > deadline:
            raise TimedOut(f"timeout: waited {seconds:.0f} s for {what}")
        time.sleep(_TICK_S)
    return found
