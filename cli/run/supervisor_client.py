"""How `up` asks the supervisor for parts and waits for them, and how `down` ends it."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tandem.cli.command.call import Call
from tandem.infra import folders
from tandem.infra.logs.files import bounds
from tandem.infra.process import background
from tandem.infra.process.background import Crashed, Process
from tandem.infra.settings import Settings
from tandem.infra.supervision import record
from tandem.infra.supervision.record import PartRecord, Supervision, Wanted
from tandem.infra.supervision.supervisor import GRACE_S
from tandem.views.errors import TandemError

_LOOK_S: Final = 0.1
_SILENT_S: Final = 2.0 * GRACE_S + 5.0
"""A supervisor whose loop has not run for longer than this hangs; the longest step of the loop is to reap a part."""


class NotUp(TandemError, code="part-not-ready"):
    """A running part made no progress during the wait, or the supervisor has given up on it."""


@dataclass(frozen=True)
class Supervised:
    """The parts of a project that one `up` asks for; `asked` is when it began, in monotonic seconds.

    The caller holds `background.starting`.
    """

    call: Call
    settings: Settings
    asked: float

    def provide(self, names: Sequence[str]) -> None:
        """Ask the supervisor to keep these parts running too, and return once each has made progress since `asked`.

        Raises Crashed, with the last lines of its log, if a part fails to start; parts that were not wanted before are then
        stopped. Raises NotUp if a part that ran before is given up, or is not up to date in time.
        """
        state = self.settings.folder
        kept = record.wanted(state) if self._supervisor() else None
        before = kept.parts if kept else ()
        new = [name for name in names if name not in before]
        record.want(state, Wanted((*before, *new), self.asked))
        supervisor = self._supervisor() or self._start()
        try:
            for name in names:
                self._wait(supervisor, name)
        except BaseException:
            record.want(state, Wanted(before, self.asked))
            self._settle(supervisor, new)
            raise

    def end(self, names: Sequence[str]) -> None:
        """Have the supervisor end these parts, and return once they have ended."""
        supervisor, kept = self._supervisor(), record.wanted(self.settings.folder)
        if supervisor is not None and kept is not None:
            record.want(self.settings.folder, Wanted(tuple(name for name in kept.parts if name not in names), self.asked))
            self._settle(supervisor, names)

    def _supervisor(self) -> Process | None:
        """Return the supervisor once its loop has run since `asked`, or None if no supervisor runs.

        Kills a supervisor that hangs, with its parts.
        """
        found = background.running(self.settings.folder, record.NAME)
        while found is not None and background.alive(found):
            told = record.read(self.settings.folder)
            if told is None or told.pid != found.pid or told.at > self.asked:
                return found
            if self._hung(found):
                return None
            time.sleep(_LOOK_S)
        return None

    def _hung(self, supervisor: Process) -> bool:
        """Whether a supervisor hung, because a signal had stopped it or its loop had not run for too long, and was killed."""
        told = record.read(self.settings.folder)
        # A process that has just been started runs its imports before it writes.
        heard, bound = (told.at, _SILENT_S) if told and told.pid == supervisor.pid else (self.asked, self.settings.speed.ready_s)
        if time.monotonic() - heard <= bound and not background.stopped(supervisor):
            return False
        self.call.say(f"the supervisor (process {supervisor.pid}) hangs; killing it and its parts")
        background.stop(self.settings.folder, supervisor, seconds=0)
        return True

    def _start(self) -> Process:
        command = [sys.executable, "-m", "tandem.cli.run.supervisor", "--project", str(self.call.project)]
        child = background.spawn(
            self.settings.folder,
            record.NAME,
            [*command, "--debug"] if self.call.debug else command,
            environ={**folders.child_environment(self.call.environ), "PYTHONUNBUFFERED": "1"},
            folder=self.call.project,
            bounds=bounds(self.settings.logs),
        )
        try:
            background.wait(child, lambda: self._told(child.process), seconds=self.settings.speed.ready_s)
        except BaseException:
            background.stop(self.settings.folder, child.process, seconds=GRACE_S)
            raise
        return child.process

    def _told(self, supervisor: Process) -> Supervision | None:
        """The supervisor's report, once it has read the list of wanted parts."""
        told = record.read(self.settings.folder)
        return told if told and told.pid == supervisor.pid and told.asked >= self.asked else None

    def _wait(self, supervisor: Process, name: str) -> None:
        failures, deadline = None, time.monotonic() + self.settings.speed.ready_s
        while True:
            if not background.alive(supervisor):
                lines = "\n".join(f"  {line}" for line in background.last_lines(Path(supervisor.log)))
                raise Crashed(f"the supervisor ended; the last lines of {supervisor.log}:\n{lines}")
            if self._hung(supervisor):
                raise NotUp("the supervisor hung while `up` waited for it; `tandem up` starts everything again")
            if (told := self._told(supervisor)) and (part := told.part(name)):
                if failures is None:
                    # A part that ran before may end once: then its next process must become ready.
                    failures = part.failures + 1 if part.state == "running" else 0
                if self._is_up(part):
                    return
                if part.state == "given up" or (part.state == "waiting" and part.failures > failures):
                    raise Crashed(part.why)
                if part.state != "running":
                    # The supervisor has its own limits for starting parts.
                    deadline = max(deadline, time.monotonic() + self.settings.speed.ready_s)
                elif time.monotonic() > deadline:
                    raise NotUp(_late(part, self.settings.speed.ready_s))
            time.sleep(_LOOK_S)

    def _is_up(self, part: PartRecord) -> bool:
        return part.state == "running" and part.looked is not None and part.looked > self.asked

    def _settle(self, supervisor: Process, gone: Sequence[str]) -> None:
        """Wait until the parts that are no longer wanted have ended, and a supervisor that has nothing left to do."""
        deadline = time.monotonic() + (len(gone) + 1) * GRACE_S
        while time.monotonic() < deadline and background.alive(supervisor):
            told = record.read(self.settings.folder)
            if told and told.parts and not any(told.part(name) for name in gone):
                return
            time.sleep(_LOOK_S)
        if not background.alive(supervisor):
            background.forget(self.settings.folder, record.NAME)


def end(settings: Settings) -> None:
    """End the supervisor and with it its parts, the last started first; the caller holds `background.starting`.

    A supervisor that hangs is killed, and the kernel ends its parts.
    """
    state = settings.folder
    supervisor = background.running(state, record.NAME)
    if supervisor is None:
        return
    record.want(state, Wanted())
    background.ask_to_end(supervisor)
    deadline = time.monotonic() + (len(background.names(state)) + 1) * GRACE_S
    while background.alive(supervisor) and time.monotonic() < deadline:
        told = record.read(state)
        silent = told is None or told.pid != supervisor.pid or time.monotonic() - told.at > _SILENT_S
        if silent or background.stopped(supervisor):
            break
        time.sleep(_LOOK_S)
    background.stop(state, supervisor, seconds=0)


def _late(part: PartRecord, seconds: float) -> str:
    waits = f"; it is waiting: {part.waits}" if part.waits else ""
    return f"{part.name} runs but has not polled the log since `up` began, {seconds:.0f} s ago{waits}; see `tandem doctor`"
