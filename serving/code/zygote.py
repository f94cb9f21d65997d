"""The zygote that processes of releases' code are forked from: it has imported the kernel, and starts on first use."""

import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from tandem.serving.code.messages import Limits, encode
from tandem.serving.read.outcome import ReadFailed
from tandem.serving.sandbox import frames
from tandem.serving.sandbox.child_processes import CannotStart, Child, Zygote

_TRADE: Final = "tandem.serving.code.child"


@dataclass
class Nursery:
    """Starts processes that import from `paths` first, and ends them; for any number of threads."""

    limits: Limits
    paths: tuple[str, ...]
    _zygote: Zygote | None = field(default=None, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def born(self) -> Child:
        """A new one. Raises ReadFailed."""
        with self._lock:
            try:
                return self._forked()
            except frames.Broken:
                self._zygote = None  # it died since it was last asked: another one does its work
            try:
                return self._forked()
            except frames.Broken:
                raise ReadFailed("the process that runs code of the project cannot be started") from None

    def kill(self, child: Child) -> None:
        """End the process, whatever it is doing; its socket stays with the thread that waits for it."""
        with self._lock, suppress(frames.Broken):
            if self._zygote is not None:
                self._zygote.kill(child)

    def buried(self, child: Child) -> None:
        """End the process, and release its socket."""
        child.end.close()
        self.kill(child)

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            if self._zygote is not None:
                self._zygote.end()
                self._zygote = None

    @property
    def pid(self) -> int | None:
        """The zygote, if there is one."""
        return None if self._zygote is None else self._zygote.process.pid

    def _forked(self) -> Child:
        if self._zygote is None or not self._zygote.lives():
            try:
                self._zygote = Zygote.started(_TRADE, encode(self.limits).decode(), paths=self.paths)
            except CannotStart as error:
                raise ReadFailed(f"the process that runs code of the project cannot be started{error}") from None
        return self._zygote.fork()
