"""The effect of Ctrl-C (SIGINT) and SIGTERM while a command runs."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from types import FrameType

Action = Callable[[int, FrameType | None], object] | signal.Handlers


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


@contextmanager
def _acting(action: Action) -> Iterator[None]:
    before = {number: signal.signal(number, action) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
