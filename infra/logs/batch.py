"""Lines of a log that are written together: a write for each line would cost a server as much as the answer that it is about."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from tandem.infra.logs.files import LogFile

T = TypeVar("T")
WAIT_S: Final = 0.2
"""The longest time for which a line waits. A process that is killed loses at most the lines of this time."""
_MOST: Final = 256
"""This many lines are written at once, by whoever adds the last of them: well within a millisecond."""


@dataclass
class LogBatch(Generic[T]):
    """Lines for a file, from any number of threads, written after at most `wait_s` seconds; `close` writes the rest.

    `render` makes a line of what was added. A thread writes what waits; it starts with the first line. Lines that follow `close`
    are written one by one.
    """

    file: LogFile
    render: Callable[[T], str]
    wait_s: float = WAIT_S
    _waiting: list[T] = field(default_factory=list, init=False, repr=False)
    _closed: bool = field(default=False, init=False, repr=False)
    _thread: threading.Thread | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._some, self._over = threading.Event(), threading.Event()

    def add(self, line: T) -> None:
        """Add a line."""
        with self._lock:
            self._waiting.append(line)
            waiting = len(self._waiting)
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="log", daemon=True)
                self._thread.start()
        if waiting >= _MOST or self._closed:
            self._write()
        elif waiting == 1:
            self._some.set()

    def close(self) -> None:
        """Write all lines that were added."""
        with self._lock:
            self._closed = True
        self._over.set()
        self._some.set()
        if self._thread is not None:
            self._thread.join()
        self._write()

    def _run(self) -> None:
        while not self._over.is_set():
            self._some.wait()
            self._some.clear()
            self._over.wait(self.wait_s)
            self._write()

    def _write(self) -> None:
        with self._writing:  # lines stay in the order in which they were added
            with self._lock:
                waiting, self._waiting = self._waiting, []
            if waiting:
                self.file.write("\n".join(map(self.render, waiting)))
