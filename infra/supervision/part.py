"""What the supervisor knows of a part: how it is started, asked and judged."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from infra.process.background import Child, Process


class Sign(NamedTuple):
    """What a part showed of itself, in monotonic seconds.

    `at` is its newest sign of life, `moved` when the slowest of its loops last moved. `looked` is when all of its work was last
    up to date, None if it never was: only then it is ready. `waits` is what it waits for, if it does.
    """

    at: float
    moved: float
    looked: float | None
    waits: str = ""


def answered(at: float) -> Sign:
    """The sign of a part whose work it is to answer, and which answered what was asked at that time."""
    return Sign(at, at, at)


@dataclass(frozen=True)
class Part:
    """A part that can be supervised.

    `begin` starts it and returns at once, in the thread of the supervisor; it raises TandemError. `ask` may block and returns the
    part's newest sign, None if it shows nothing; it is called in another thread, every `every_s`. It is started once all that it
    `needs` run. After `ready_s` without being ready, `silent_s` without a sign of life or `moving_s` without moving it is killed.
    """

    name: str
    begin: Callable[[], Child]
    ask: Callable[[Process], Sign | None]
    ready_s: float
    silent_s: float
    moving_s: float
    every_s: float = 1.0
    needs: tuple[str, ...] = ()


@dataclass
class Watch:
    """Asks one process of a part from now on, in a thread; a question that hangs or fails leaves the sign as it was.

    `error` is why the last one failed, empty if it did not.
    """

    part: Part
    process: Process
    sign: Sign | None = None
    error: str = ""
    _ended: threading.Event = field(default_factory=threading.Event, repr=False)

    def __post_init__(self) -> None:
        threading.Thread(target=self._run, name=f"watch of {self.part.name}", daemon=True).start()

    def end(self) -> None:
        """Ask no more; returns at once."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self.sign, self.error = self.part.ask(self.process) or self.sign, ""
            except Exception as error:  # noqa: BLE001 - whatever a hung or broken part answers is not a sign, and is told if it is killed
                self.error = f"{type(error).__name__}: {error}"
            self._ended.wait(self.part.every_s)


def stuck(part: Part, sign: Sign | None, *, since: float, ready: bool, now: float | None = None) -> str:
    """Why a part that lives has to be killed; empty if it has not.

    It is judged from `since` on: when it was started, or became ready and all that it needs ran.
    """
    now = time.monotonic() if now is None else now
    at, moved = (since, since) if sign is None else (max(since, sign.at), max(since, sign.moved))
    if not ready:
        # What it has to catch up with is told by its moving.
        return f"was not ready after {part.ready_s:.0f} s" if now - moved > part.ready_s else ""
    if now - at > part.silent_s:
        return f"runs but gave no sign of life for {now - at:.0f} s"
    if now - moved > part.moving_s:
        return f"runs but made no progress for {now - moved:.0f} s"
    return ""
