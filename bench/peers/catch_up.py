"""Catch-up: a contestant starts on a topic that is filled already, and is done when its view equals the truth."""

import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from bench.commands import environ
from bench.peers.contestant import Contestant, Setting, ready_line
from bench.peers.events import Answers, differing
from bench.process_tree import Sampler, stop

_POLL_S: Final = 0.25
_QUIET_S: Final = 3.0


@dataclass(frozen=True)
class CaughtUp:
    """One run. Seconds are from the start of the process until it reads (`start_s`), and from there to its last publication.

    `cpu_s` is what its processes used in the latter, `broker_cpu_s` what the broker used for it. `peak_bytes` is the largest
    proportional set size of its processes. A figure that was not reached is None, and `problem` gives the reason.
    """

    contestant: str
    round: int
    events: int
    start_s: float | None = None
    seconds: float | None = None
    cpu_s: float | None = None
    start_cpu_s: float | None = None
    broker_cpu_s: float | None = None
    peak_bytes: int | None = None
    rows: int = 0
    differ: int | None = None
    problem: str = ""

    @property
    def whole_s(self) -> float | None:
        """Seconds from the start of the process to its last publication."""
        return None if self.start_s is None or self.seconds is None else self.start_s + self.seconds

    @property
    def per_second(self) -> float | None:
        """Events a second."""
        return self.events / self.seconds if self.seconds else None


def catch_up(
    contestant: Contestant, setting: Setting, truth: Answers, *, events: int, number: int, broker: int, limit_s: float
) -> CaughtUp:
    """Run a contestant until its view equals the truth, at most `limit_s` seconds; `broker` is the broker's process id."""
    setting.folder.mkdir(parents=True)
    command, output, log = contestant.command(setting), contestant.output(setting), setting.folder / "log"
    began = time.time()
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command.words,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            cwd=setting.folder,
            env=environ(dict(command.environ)),
            start_new_session=True,
        )
    try:
        with Sampler(lambda: [process.pid]) as own, Sampler(lambda: [broker], memory=False) as beside:
            quiet = Quiet(output.version, began)
            found: Answers = {}
            last = began
            while differing(truth, found):
                if not _settled(quiet, process, began + limit_s):
                    why = f"exit code {process.returncode}" if process.poll() is not None else f"not within {limit_s:.0f} s"
                    return CaughtUp(
                        contestant.name,
                        number,
                        events,
                        rows=len(truth),
                        differ=differing(truth, found),
                        problem=f"{why}; its log is {log}",
                    )
                found, last = output.read()
        ready = contestant.ready(setting) if contestant.ready else ready_line(log)
        assert ready is not None, f"{contestant.name} published before it was ready; its log is {log}"
        return CaughtUp(
            contestant.name,
            number,
            events,
            start_s=ready - began,
            seconds=last - ready,
            cpu_s=own.cpu_at(last) - own.cpu_at(ready),
            start_cpu_s=own.cpu_at(ready),
            broker_cpu_s=beside.cpu_at(last) - beside.cpu_at(ready),
            peak_bytes=own.peak_bytes,
            rows=len(truth),
            differ=0,
        )
    finally:
        stop(process)


class Quiet:
    """Notices that a contestant has published nothing for a while: at least 3 s, and twice as long as it ever took before.

    Its view is read only then, so that reading burdens no contestant that still works.
    """

    def __init__(self, version: Callable[[], object], now: float) -> None:
        self._version = version
        self._last: object = None
        self._since = now
        self._longest = 0.0
        self._read = True

    def reached(self, now: float) -> bool:
        """Whether the view may be read; true once until something is published again."""
        if (version := self._version()) is None:
            return False
        if version != self._last:
            if self._last is not None:
                self._longest = max(self._longest, now - self._since)
            self._last, self._since, self._read = version, now, False
        elif not self._read and now - self._since > max(_QUIET_S, 2 * self._longest):
            self._read = True
            return True
        return False


def _settled(quiet: Quiet, process: "subprocess.Popen[bytes]", deadline: float) -> bool:
    """Wait until the view may be read; false if the process ended or time is up."""
    while time.time() < deadline and process.poll() is None:
        if quiet.reached(time.time()):
            return True
        with suppress(subprocess.TimeoutExpired):
            process.wait(_POLL_S)
    return False
