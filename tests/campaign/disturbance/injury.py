"""Causes the faults, and waits until the project has recovered without help."""

import random
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import psutil

from tests.campaign.commands import Running, Tandem, signalled, wait_until
from tests.campaign.disturbance.faults import PARTS, Fault
from tests.campaign.disturbance.machine import Clock, Disk
from tests.campaign.messages import calls_it_well
from tests.campaign.server import Server
from tests.campaign.steps import Steps
from tests.campaign.tally import Tally

LONGEST_FREEZE_S: Final = 20.0
SEEN_S: Final = {"broker": 18.0, "serve": 18.0, "speed": 10.0, "speed's JVM": 10.0}
"""After how long `status` has to call a part stuck that does not move; a frozen worker shows once its micro-batch lasts."""
_NOTICED_S: Final = 6.0
"""A part that was killed less than this ago may still be reported as running."""
_FARTHEST_S: Final = 7200.0
_TYPICAL_S: Final = 8.0


@dataclass
class Injury:
    """Injures one project. `disk` and `clock` are None where the machine does not allow to change them."""

    tandem: Tandem
    steps: Steps
    server: Server
    tally: Tally
    random_: random.Random
    disk: Disk | None = None
    clock: Clock | None = None

    def do(self, fault: Fault) -> bool:
        """Do a fault and wait until all is well again; False if there was nothing left to disturb, so that nothing was done."""
        self.tally.note("begins", fault=str(fault))
        if fault.how == "disk":
            return self._full_disk(fault)
        if fault.how == "clock":
            return self._step(fault)
        if fault.what in PARTS:
            return self._part(fault)
        done = self._twice if fault.how == "twice" else self._command
        return done(fault)

    def _part(self, fault: Fault) -> bool:
        process = self._process(fault.what)
        if process is None:
            self.steps.back(f"looking for {fault.what}")
            return False
        with suppress(psutil.NoSuchProcess):
            if fault.how == "kill":
                process.kill()
                self.tally.did(fault)
                noticed = time.monotonic() + _NOTICED_S
                self.steps.back(str(fault), lambda: time.monotonic() > noticed and not lives(process))
            else:
                self._freeze_part(process, fault)
                self.steps.back(str(fault))
            return True
        return False

    def _freeze_part(self, process: psutil.Process, fault: Fault) -> None:
        seconds = self.random_.uniform(1, LONGEST_FREEZE_S)
        process.suspend()
        began = time.monotonic()
        try:
            self.tally.did(fault)
            bound = SEEN_S.get(fault.what)
            if bound is not None and seconds > bound:
                time.sleep(bound)
                # The server is asked in a thread: one that is frozen itself answers nobody.
                code = self.steps.status().code
                ready = self.server.ready() if fault.what.startswith("speed") else None
                if lives(process) and process.status() == psutil.STATUS_STOPPED:
                    for why in calls_it_well(code=code, ready=ready):
                        self.tally.found("misleading messages", why=why, fault=str(fault), after=bound)
            time.sleep(max(0.0, began + seconds - time.monotonic()))
        finally:
            with suppress(psutil.NoSuchProcess):
                process.resume()

    def _process(self, what: str) -> psutil.Process | None:
        name, _, member = what.partition("'s ")
        pids = [one["pid"] for one in self.steps.status().document.get("processes", ()) if one["name"] == name]
        with suppress(psutil.NoSuchProcess, IndexError, StopIteration):
            itself = psutil.Process(pids[0])
            if not member:
                return itself
            children = itself.children(recursive=True)
            if member == "hot tail":
                return next(child for child in children if "tandem.speed.hot" in child.cmdline())
            # Parents first: of Spark's Python processes the last one is a worker and not the daemon that forks workers.
            return [child for child in children if (child.name() == "java") == (member == "JVM")][-1]
        return None

    def _command(self, fault: Fault) -> bool:
        words, finish, reached = self._prepared(fault.what)
        running = self.tandem.start(*words)
        typical = self.tandem.seconds.get(words[0], _TYPICAL_S)
        disturbed = not running.wait_or_end(self.random_.uniform(0.02, 0.7) * typical)
        if disturbed:
            self._disturb(running, fault)
        first = self.tandem.end(running)
        last = first if first.code == 0 else self.steps.done(words, reached)
        finish(last.document)
        return disturbed

    def _disturb(self, running: Running, fault: Fault) -> None:
        family = running.family()
        if fault.how == "kill":
            which = self.random_.choice(("all of it", "itself", "its JVM"))
            java = [process for process in family if _name(process) == "java"]
            chosen = {"itself": family[:1], "its JVM": java[-1:]}.get(which) or family
            running.killed = True
            self.tally.note("kills", words=running.words, which=which)
            signalled(chosen[::-1], signal.SIGKILL)
        else:
            signalled(family, signal.SIGSTOP)
            time.sleep(self.random_.uniform(1, LONGEST_FREEZE_S))
            signalled(family[::-1], signal.SIGCONT)
        self.tally.did(fault)

    def _prepared(self, command: str) -> tuple[tuple[str, ...], Callable[[dict[str, Any]], object], Callable[[], bool] | None]:
        """The words of a command, what follows once it has succeeded, and what shows that it has, if it cannot be typed twice."""
        steps = self.steps
        if command == "recompute":
            return ("recompute", "--archive"), _nothing, None
        if command == "apply":
            steps.retire_others()
            least = steps.another_edition()
            return ("apply",), lambda found: steps.note_edition(found, least), None
        if command == "promote":
            release = steps.ready()
            return ("promote", str(release)), _nothing, lambda: steps.live() == release
        if command == "rollback":
            live = steps.history()[0]
            release = steps.ready()
            steps.done(("promote", str(release)), lambda: steps.live() == release)
            before = str(live["publication"])
            return ("rollback", before), lambda _: steps.resume(), lambda: steps.live() == live["release"]
        return (command,), _nothing, None

    def _twice(self, fault: Fault) -> bool:
        what = fault.what
        if what in {"speed", "serve"}:
            second = self.tandem.start(*(("speed",) if what == "speed" else ("serve", "--port", "0")))
            second.wait_or_end(self.random_.uniform(10, LONGEST_FREEZE_S))
            signalled(second.family()[:1], signal.SIGTERM)
            self.tally.did(fault)
            if not second.wait_or_end(60):
                self.tally.found("manual interventions", why="a second one does not end by SIGTERM", words=second.words)
                second.kill()
            self.tandem.end(second)
            self.steps.back(str(fault))
            return True
        words, finish, reached = (("up", "--serve"), _nothing, None) if what == "up" else self._prepared(what)
        both = [self.tandem.start(*words) for _ in range(2)]
        self.tally.did(fault)
        ended = [self.tandem.end(one) for one in both]
        succeeded = [one for one in ended if one.code == 0]
        finish((succeeded[0] if succeeded else self.steps.done(words, reached)).document)
        if what == "apply":
            for one in succeeded[1:]:
                finish(one.document)
        self.steps.back(str(fault))
        return True

    def _full_disk(self, fault: Fault) -> bool:
        assert self.disk is not None
        self.disk.fill()
        self.tally.did(fault)
        enlarged = threading.Timer(self.random_.uniform(5, 15), self.disk.enlarge)
        enlarged.start()
        try:
            self.tandem.run("archive")
            self.tandem.run("maintain")
        finally:
            enlarged.join()
        self.steps.done(("recompute", "--archive"))
        self.steps.back(str(fault))
        return True

    def _step(self, fault: Fault) -> bool:
        assert self.clock is not None
        now = self.clock.seconds
        if fault.what == "forward":
            to = self.random_.uniform(min(now + 60, _FARTHEST_S), _FARTHEST_S)
        else:
            to = self.random_.uniform(-_FARTHEST_S, max(now - 60, -_FARTHEST_S))
        self.clock.step_to(to)
        self.tally.did(fault)
        self.tally.note("steps", before=now, after=to)
        wait_until(lambda: False, seconds=3)
        self.steps.done(("recompute", "--archive"))
        self.steps.back(str(fault))
        return True


def _nothing(_: dict[str, Any]) -> None:
    """After a command that nothing has to follow."""


def lives(process: psutil.Process) -> bool:
    """Whether a process has not ended; one that ends while it is looked at has."""
    with suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def _name(process: psutil.Process) -> str:
    with suppress(psutil.NoSuchProcess):
        return str(process.name())
    return ""
