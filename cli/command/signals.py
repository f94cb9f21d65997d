"""The effect of Ctrl-C (SIGINT) and SIGTERM while a command runs."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event
from types import FrameType

from tandem.views.errors import TandemError

Action = Callable[[int, FrameType | None], object] | signal.Handlers


class Interrupted(TandemError, code="interrupted"):
    """Ctrl-C ended the command: exit code 130."""


@contextmanager
def stopping() -> Iterator[Event]:
    """An event that both signals set, so that the command ends cleanly."""
    stop = Event()
    with _acting(lambda *_: stop.set()):
        yield stop


@contextmanager
def undisturbed() -> Iterator[None]:
    """Ignore both signals, so that a clean-up completes."""
    with _acting(signal.SIG_IGN):
        yield


@contextmanager
def interrupted() -> Iterator[None]:
    """Both signals raise KeyboardInterrupt, so that the command stops everything that it has started."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with _acting(interrupt):
        yield


@dataclass
class DeferredInterrupt:
    """Ctrl-C while records are sent: `requested` is set, and KeyboardInterrupt is raised only while `waiting` for input."""

    requested: bool = False
    waiting: bool = False


@contextmanager
def defer_interrupt() -> Iterator[DeferredInterrupt]:
    """Defer Ctrl-C, so that no record is half sent. The second one raises KeyboardInterrupt in any case."""
    state = DeferredInterrupt()

    def interrupt(*_: object) -> None:
        again, state.requested = state.requested, True
        if again or state.waiting:
            raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupt)
    try:
        yield state
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _acting(action: Action) -> Iterator[None]:
    before = {number: signal.signal(number, action) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
