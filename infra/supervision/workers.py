"""Equal processes that share the work of one part: started again when they end or hang, and ended together.

The thread that calls `keep` starts them all, so that the kernel kills them when it ends (`infra/process/pdeathsig.py`).
"""

import os
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from infra.process.background import outcome
from infra.supervision import restarts
from infra.supervision.pauses import Pauses
from infra.supervision.restarts import Standing, Terms
from views.errors import TandemError

_ROUND_S: Final = 0.1
_PULSES: Final = 4096


class NotKept(TandemError):
    """Workers that did not start, or that failed too often."""


@dataclass
class _Worker:
    """One of the workers, and its process while it has one; `pulse` is where that writes its signs of life."""

    number: int
    standing: Standing = field(default_factory=Standing)
    process: "subprocess.Popen[bytes] | None" = None
    pulse: int = -1
    heard: float = 0.0


@dataclass
class Workers:
    """Keeps `count` workers running.

    * `begin` starts a worker by its number, which writes to the given descriptor several times a second once it works, and
      returns at once; raises OSError.
    * A worker is killed if it has not written within `ready_s`, then if it is silent for `silent_s`; a pause of the machine does
      not count. At the end each has `grace_s`.
    * `heard` is called with what a worker wrote.
    * `ended` is called with the number of each worker whose process has ended, before it is started again.
    """

    count: int
    begin: Callable[[int, int], "subprocess.Popen[bytes]"]
    terms: Terms
    ready_s: float
    silent_s: float
    grace_s: float
    say: Callable[[str], object]
    warn: Callable[[str], object]
    heard: Callable[[bytes], object] = lambda _: None
    ended: Callable[[int], object] = lambda _: None
    clock: Callable[[], float] = time.monotonic
    _workers: list[_Worker] = field(init=False, repr=False)
    _pauses: Pauses = field(default_factory=Pauses, init=False, repr=False)
    _works: bool = field(default=False, init=False, repr=False)

    def keep(self, ready: Callable[[], object], stop: threading.Event) -> None:
        """Keep them running until `stop`, then end them. `ready` is called once all work.

        Raises NotKept if one ends before that, or fails too often in a row.
        """
        self._workers = [_Worker(number) for number in range(self.count)]
        try:
            while not stop.is_set():
                self._pauses.comes_round(self.clock())
                for worker in self._workers:
                    self._look(worker)
                if not self._works and all(worker.standing.state == "running" for worker in self._workers):
                    self._works = True
                    ready()
                stop.wait(_ROUND_S)
        finally:
            self._end()

    def _look(self, worker: _Worker) -> None:
        now = self.clock()
        if worker.process is None:
            if restarts.may_start(worker.standing, now=now):
                self._start(worker)
            return
        with suppress(BlockingIOError):
            if signs := os.read(worker.pulse, _PULSES):
                worker.heard = now
                self.heard(signs)
                if worker.standing.state == "starting":
                    worker.standing = restarts.ready(worker.standing, now=now)
                    self.say(f"worker {worker.number} answers (process {worker.process.pid})")
        starting = worker.standing.state == "starting"
        bound = self.ready_s if starting else self.silent_s
        if (code := worker.process.poll()) is not None:
            self._fails(worker, f"ended{' while starting' if starting else ''} ({outcome(code)})")
        elif now - max(worker.heard, self._pauses.resumed) > bound:
            self._fails(worker, f"was not ready after {bound:.0f} s" if starting else f"gave no sign of life for {bound:.0f} s")
        else:
            worker.standing = restarts.settled(worker.standing, self.terms, now=now)

    def _start(self, worker: _Worker) -> None:
        now = self.clock()
        worker.standing, worker.heard = restarts.started(worker.standing, now=now), now
        worker.pulse, theirs = os.pipe()
        os.set_blocking(worker.pulse, False)
        try:
            worker.process = self.begin(worker.number, theirs)
        except OSError as error:
            self._fails(worker, f"could not be started: {error.strerror}")
        finally:
            os.close(theirs)

    def _fails(self, worker: _Worker, why: str) -> None:
        self._bury(worker)
        worker.standing = restarts.failed(worker.standing, self.terms, now=self.clock())
        said = f"worker {worker.number} {why}"
        if not self._works:
            raise NotKept(f"{said}; see the lines before this one in `tandem logs serve`")
        if worker.standing.state == "given up":
            raise NotKept(f"{said}, {worker.standing.failures} failures in a row")
        self.warn(f"{said}; starting it again in {restarts.pause(worker.standing.failures, self.terms):.0f} s")

    def _bury(self, worker: _Worker) -> None:
        if worker.process is not None:
            worker.process.kill()
            worker.process.wait()
            worker.process = None
            self.ended(worker.number)
        os.close(worker.pulse)

    def _end(self) -> None:
        left = [worker for worker in self._workers if worker.process is not None]
        for worker in left:
            assert worker.process is not None
            worker.process.terminate()
        deadline = self.clock() + self.grace_s
        for worker in left:
            assert worker.process is not None
            with suppress(subprocess.TimeoutExpired):
                worker.process.wait(max(0.0, deadline - self.clock()))
            if worker.process.poll() is None:
                self.warn(f"worker {worker.number} did not end within {self.grace_s:.0f} s; killing it")
            self._bury(worker)
