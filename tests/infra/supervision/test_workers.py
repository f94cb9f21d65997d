"""Workers as small programs: who ends or hangs is started again, who never works or fails too often ends them all."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from infra.supervision.restarts import Terms
from infra.supervision.workers import NotKept, Workers

BEATS = "import os, sys, time\nwhile True: os.write(int(sys.argv[1]), b'.'); time.sleep(0.05)"
BEATS_ONCE = "import os, sys, time\nos.write(int(sys.argv[1]), b'.'); time.sleep(99)"
BEATS_AND_ENDS = "import os, sys, time\nos.write(int(sys.argv[1]), b'.'); time.sleep(1); sys.exit(7)"
STUBBORN = f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{BEATS}"
SILENT = "import time; time.sleep(99)"


@dataclass
class Kept:
    """Two workers; the first start of a worker runs `first`, all later ones `later`."""

    first: str = BEATS
    later: str = BEATS
    failures: int = 5
    said: list[str] = field(default_factory=list)
    started: list[tuple[int, "subprocess.Popen[bytes]"]] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    heard: list[bytes] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def begin(self, number: int, pulse: int) -> "subprocess.Popen[bytes]":
        program = self.first if len(self.started) < 2 else self.later
        process = subprocess.Popen([sys.executable, "-c", program, str(pulse)], pass_fds=[pulse])
        self.started.append((number, process))
        return process

    def keep(
        self,
        until: Callable[[], bool],
        *,
        silent_s: float = 5.0,
        grace_s: float = 30.0,
        ready_s: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Keep them until it holds, then stop."""
        kept = Workers(
            2,
            self.begin,
            Terms(0.1, 0.1, self.failures, 60),
            ready_s=ready_s,
            silent_s=silent_s,
            grace_s=grace_s,
            say=self.said.append,
            warn=self.said.append,
            heard=self.heard.append,
            ended=self.ended.append,
            clock=clock,
        )

        def watch() -> None:
            deadline = time.monotonic() + 60
            while not (self.stop.wait(0.02) or until()) and time.monotonic() < deadline:
                pass
            self.stop.set()

        watching = threading.Thread(target=watch)
        watching.start()
        try:
            kept.keep(lambda: self.said.append("ready"), self.stop)
        finally:
            self.stop.set()
            watching.join()
            assert all(process.returncode is not None for _, process in self.started)
            assert len(self.ended) == len(self.started)


def test_a_worker_that_ends_is_started_again_and_the_other_one_is_not() -> None:
    kept = Kept()

    def again() -> bool:
        if "ready" in kept.said and len(kept.started) == 2:
            kept.started[1][1].kill()
        return len([line for line in kept.said if "answers" in line]) == 3

    kept.keep(again)
    assert [number for number, _ in kept.started] == [0, 1, 1]
    assert "worker 1 ended (killed by SIGKILL); starting it again in 0 s" in kept.said


def test_a_worker_that_hangs_is_killed_and_started_again() -> None:
    kept = Kept(first=BEATS_ONCE)
    kept.keep(lambda: len([line for line in kept.said if "answers" in line]) >= 4, silent_s=2.0)
    assert [line for line in kept.said if "gave no sign of life for 2 s" in line]


def test_a_pause_of_the_machine_is_not_a_failure_of_workers() -> None:
    """Whoever is stopped with its workers finds them as they were, though none has written for a long time."""
    kept = Kept(first=BEATS_ONCE)
    paused: list[float] = []

    def resumed() -> bool:
        if "ready" in kept.said and not paused:
            paused.append(time.monotonic())
        return bool(paused) and time.monotonic() - paused[0] > 1

    kept.keep(resumed, silent_s=60, clock=lambda: time.monotonic() + 1000 * len(paused))
    assert not [line for line in kept.said if "no sign of life" in line]


def test_a_worker_that_never_works_ends_them_all() -> None:
    with pytest.raises(NotKept, match=r"ended while starting \(exit code 3\)"):
        Kept(first="import sys; sys.exit(3)").keep(lambda: False)
    with pytest.raises(NotKept, match="was not ready after 1 s"):
        Kept(first=SILENT).keep(lambda: False, ready_s=1.0)


def test_workers_that_fail_too_often_end_them_all() -> None:
    with pytest.raises(NotKept, match="3 failures in a row"):
        Kept(first=BEATS_AND_ENDS, later=BEATS_AND_ENDS, failures=3).keep(lambda: False)


def test_a_worker_that_does_not_end_is_killed() -> None:
    kept = Kept(first=STUBBORN)
    kept.keep(lambda: "ready" in kept.said, grace_s=0.5)
    assert [line for line in kept.said if "did not end within" in line]
    assert {process.returncode for _, process in kept.started} == {-9}
    assert not [pid for pid in (process.pid for _, process in kept.started) if Path(f"/proc/{pid}").exists()]


def test_what_workers_write_is_passed_on() -> None:
    kept = Kept(first=BEATS.replace("b'.'", "b'?'"))
    kept.keep(lambda: bool(kept.heard))
    assert set(b"".join(kept.heard)) == set(b"?")
