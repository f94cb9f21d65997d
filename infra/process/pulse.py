"""The pulse of a part: `run/<part>.pulse` in the state folder, written by the very loop that does the part's work.

Times are seconds of the machine's monotonic clock (`time.monotonic`), which all of its processes share until it restarts.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Final

import msgspec

from tandem.infra.files import atomic_files
from tandem.infra.process import background

_EVERY_S: Final = 0.5


class SourceLoop(msgspec.Struct, frozen=True):
    """One source of one release in the speed layer, or the one loop of another part.

    * `looked`: when it last reached the end of the log or committed; None before the first time.
    * `moved`: the newest time at which it did either, began, or polled the broker or registry that it waits for.
    * `waits`: the error while it waits for a broker or a schema registry, else empty.
    """

    release: int
    source: str
    moved: float
    looked: float | None = None
    waits: str = ""


class Pulse(msgspec.Struct, frozen=True):
    """The pulse of the process `pid` that started at `began`: `at` is when its main loop last ran, `loops` are its other loops.

    `live` is the release that was live then, 0 before the first time.
    """

    pid: int
    began: str
    at: float
    live: int = 0
    loops: tuple[SourceLoop, ...] = ()

    @property
    def lives(self) -> bool:
        """Whether the process still exists; it may be stopped or hung."""
        return background.start_time(self.pid) == self.began


def file(state: Path, part: str) -> Path:
    """The path of a part's pulse."""
    return state / "run" / f"{part}.pulse"


def read(state: Path, part: str) -> Pulse | None:
    """The last pulse of a part, alive or not; None without a readable one."""
    try:
        return msgspec.json.decode(file(state, part).read_bytes(), type=Pulse)
    except (OSError, msgspec.DecodeError):
        return None


@dataclass
class Heart:
    """Writes the pulse of this process, for any number of threads; for the main loop at most twice a second."""

    state: Path
    part: str
    clock: Callable[[], float] = time.monotonic
    _loops: dict[tuple[int, str], SourceLoop] = field(default_factory=dict, init=False)
    _at: float = field(default=float("-inf"), init=False)
    _live: int = field(default=0, init=False)
    _began: str = field(init=False)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)

    def __post_init__(self) -> None:
        self._began = background.start_time(os.getpid())

    def beat(self, live: int | None = None) -> None:
        """The main loop has run; `live` is the live release, if it is known."""
        now = self.clock()
        with self._lock:
            self._live = self._live if live is None else live
            if now - self._at >= _EVERY_S:
                self._at = now
                self._write()

    def begins(self, release: int, source: str) -> None:
        """A source is followed from now on."""
        self._set(SourceLoop(release, source, self.clock()))

    def looked(self, release: int, source: str) -> None:
        """A source that is followed has seen the end of the log, or committed."""
        now = self.clock()
        if (release, source) in self._loops:  # Spark reports a query's last poll after its end
            self._set(SourceLoop(release, source, now, now))

    def waits(self, release: int, source: str, why: str) -> None:
        """A source that is followed has polled a broker or a schema registry that does not answer."""
        if before := self._loops.get((release, source)):
            self._set(SourceLoop(release, source, self.clock(), before.looked, why))

    def ends(self, release: int, source: str) -> None:
        """A source is followed no longer."""
        with self._lock:
            if self._loops.pop((release, source), None) is not None:
                self._write()

    def _set(self, loop: SourceLoop) -> None:
        with self._lock:
            self._loops[loop.release, loop.source] = loop
            self._write()

    def _write(self) -> None:
        path = file(self.state, self.part)
        with suppress(OSError):  # a full disk is reported where data is written
            path.parent.mkdir(parents=True, exist_ok=True)
            pulse = Pulse(os.getpid(), self._began, max(self._at, 0.0), self._live, tuple(self._loops.values()))
            atomic_files.replace(path, msgspec.json.encode(pulse))
