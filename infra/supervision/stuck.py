"""A part for the supervisor: how to start it, poll it and judge it."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from tandem.infra.process.background import BackgroundProcess, Process


class Sign(NamedTuple):
    """A sign of a part; times are monotonic seconds.

    * `at`: its newest sign of life.
    * `moved`: when the slowest of its loops last made progress.
    * `looked`: when all of its work was last up to date; None if it never was, so the part is not ready.
    * `waits`: what it waits for; empty if it does not wait.
    """

    at: float
    moved: float
    looked: float | None
    waits: str = ""


def answered(at: float) -> Sign:
    """The sign of a part that answered a request at that time."""
    return Sign(at, at, at)


@dataclass(frozen=True)
class Part:
    """A part that can be supervised.

    * `begin`: starts the part and returns at once, in the supervisor's thread; raises TandemError.
    * `ask`: returns the part's newest sign, None if there is none. It may block; another thread calls it every `every_s`.
    * `needs`: the parts that must run before this one is started.
    * `ready_s`, `silent_s`, `moving_s`: the part is killed after this time without being ready, without a sign of life, or
      without progress.
    """

    name: str
    begin: Callable[[], BackgroundProcess]
    ask: Callable[[Process], Sign | None]
    ready_s: float
    silent_s: float
    moving_s: float
    every_s: float = 1.0
    needs: tuple[str, ...] = ()


@dataclass
class SignPoll:
    """Polls one process of a part from now on, in a thread; a poll that hangs or fails does not change the sign.

    `error` is why the last poll failed, empty if it did not.
    """

    part: Part
    process: Process
    sign: Sign | None = None
    error: str = ""
    _ended: threading.Event = field(default_factory=threading.Event, repr=False)

    def __post_init__(self) -> None:
        threading.Thread(target=self._run, name=f"watch of {self.part.name}", daemon=True).start()

    def end(self) -> None:
        """Stop polling; returns at once."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self.sign, self.error = self.part.ask(self.process) or self.sign, ""
            except Exception as error:  # noqa: BLE001 - whatever a hung or broken part answers is not a sign; it is reported if the part is killed
                self.error = f"{type(error).__name__}: {error}"
            self._ended.wait(self.part.every_s)


def stuck(part: Part, sign: Sign | None, *, since: float, ready: bool, now: float | None = None) -> str:
    """Why a living part has to be killed; empty if it need not be.

    Times count from `since`: when the part was started, or became ready and all parts that it needs ran.
    """
    now = time.monotonic() if now is None else now
    at, moved = (since, since) if sign is None else (max(since, sign.at), max(since, sign.moved))
    if not ready:
        # Progress shows that it is catching up.
        return f"was not ready after {part.ready_s:.0f} s" if now - moved > part.ready_s else ""
    if now - at > part.silent_s:
        return f"runs but gave no sign of life for {now - at:.0f} s"
    if now - moved > part.moving_s:
        return f"runs but made no progress for {now - moved:.0f} s"
    return ""
