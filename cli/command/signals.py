"""What Ctrl-C and a plain kill do while a command is at work."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from types import FrameType

Action = Callable[[int, FrameType | None], object] | signal.Handlers


@contextmanager
def stopping() -> Iterator[Event]:
    """An event that both set, so that what is under way ends in order."""
    stop = Event()
    with _acting(lambda *_: stop.set()):
        yield stop


@contextmanager
def undisturbed() -> Iterator[None]:
    """Neither has an effect: what tidies up is not to be left half done."""
    with _acting(signal.SIG_IGN):
        yield


@contextmanager
def interrupted() -> Iterator[None]:
    """Both raise KeyboardInterrupt, so that whatever was started is stopped on the way out."""

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
