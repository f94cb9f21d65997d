"""A watchdog over the project's code in the threads of a server: no call of it keeps a thread for ever.

Python cannot stop a thread from outside. It can raise an exception there, as soon as the thread runs Python code again. A call
that runs none, such as a regular expression that never ends, can only end with the process, which its supervisor starts again.
"""

import ctypes
import faulthandler
import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Final

from structlog.typing import FilteringBoundLogger

from tandem.views.errors import TooLong
from tandem.views.project.source_location import STORED

_EVERY_S: Final = 1.0


@dataclass
class Watchdog:
    """Interrupts each call of project code that takes more than `seconds`, by TooLong; the log gets its place.

    With `exits`, a call that takes twice as long ends the process, also if it keeps the interpreter from all other threads. The
    stacks of all threads are then on standard error. `clock` returns monotonic seconds.
    """

    seconds: float
    log: FilteringBoundLogger
    exits: bool = False
    clock: Callable[[], float] = time.monotonic
    _calls: dict[int, tuple[FrameType, float]] = field(default_factory=dict, init=False, repr=False)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Watch until the context ends."""
        if self.exits:
            faulthandler.enable()  # code of the project that damages the process leaves its stack
        over = threading.Event()
        watching = threading.Thread(target=self._watch, args=(over,), name="watchdog", daemon=True)
        watching.start()
        try:
            yield
        finally:
            over.set()
            watching.join()

    def _watch(self, over: threading.Event) -> None:
        try:
            self._compare()
            while not over.wait(min(_EVERY_S, self.seconds / 4)):
                self._compare()
        finally:
            self._calls = {}
            if self.exits:
                faulthandler.cancel_dump_traceback_later()

    def _compare(self) -> None:
        now, before = self.clock(), self._calls
        self._calls = {
            thread: before[thread] if thread in before and before[thread][0] is call else (call, now)
            for thread, call in _calls().items()
        }
        longest = max((now - began for _, began in self._calls.values()), default=0.0)
        if self.exits and longest < 2 * self.seconds:
            faulthandler.dump_traceback_later(2 * self.seconds - longest, exit=True)
        for thread, (call, began) in self._calls.items():
            if now - began > self.seconds:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(TooLong))
                place = f"{call.f_code.co_filename.partition('>/')[2]}:{call.f_lineno}"
                self.log.warning(
                    "interrupted a call of project code", function=call.f_code.co_qualname, place=place, seconds=now - began
                )


def _calls() -> dict[int, FrameType]:
    """For each thread that runs code of a stored release: the frame of the call that began first."""
    found = {}
    for thread, newest in _newest_frames().items():
        frame: FrameType | None = newest
        while frame is not None:
            if frame.f_code.co_filename.startswith(STORED):
                found[thread] = frame
            frame = frame.f_back
    return found


def _newest_frames() -> dict[int, FrameType]:
    """The frame of each thread.

    Python 3.11 holds its list of threads meanwhile. A collection of garbage there may give the lock of Python to a thread that
    starts another one and waits for that list: then both wait for ever. So none runs.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames()  # noqa: SLF001  its documented way
    finally:
        if enabled:
            gc.enable()
