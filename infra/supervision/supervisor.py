"""The supervisor's loop: starts the wanted parts, restarts parts that end or hang, and ends parts that are no longer wanted.

All processes are started by the thread that calls `keep`, so that the kernel kills them when it ends.
"""

import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from tandem.infra.process import background
from tandem.infra.process.background import BackgroundProcess
from tandem.infra.supervision import record, restarts
from tandem.infra.supervision.guard import Guard
from tandem.infra.supervision.record import Supervision, Wanted
from tandem.infra.supervision.restarts import RestartBounds, RestartState
from tandem.infra.supervision.stuck import Part, SignPoll, stuck
from tandem.views.errors import TandemError

_ROUND_S: Final = 0.2
GRACE_S: Final = 20.0
"""Seconds that a part may take to end before it is killed."""


_PAUSED_S: Final = 1.0
"""A loop that is this late was stopped."""


@dataclass
class Pauses:
    """The rounds of a loop; `resumed` is when the first one began, or the first one after a pause, by the loop's clock."""

    resumed: float = 0.0
    _last: float = float("-inf")

    def comes_round(self, now: float) -> None:
        """A round begins."""
        if now - self._last > _PAUSED_S:
            self.resumed = now
        self._last = now


@dataclass
class _Kept:
    """A part under supervision, and its process while it has one."""

    part: Part
    standing: RestartState = field(default_factory=RestartState)
    child: BackgroundProcess | None = None
    watch: SignPoll | None = None
    since: datetime | None = None
    why: str = ""
    failed: datetime | None = None
    works: bool = False
    """Whether it has been ready since `failed`."""
    ends_at: float | None = None
    """When it is killed, once it was asked to end."""


@dataclass
class Supervisor:
    """Keeps parts of a state folder running; `parts` are all that may be wanted, in the order in which they are started.

    `say` reports events, `warn` reports problems; `now` is the time of day, for people.
    """

    state: Path
    parts: Sequence[Part]
    terms: RestartBounds
    now: Callable[[], datetime]
    say: Callable[[str], None]
    warn: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    grace_s: float = GRACE_S
    _kept: Mapping[str, _Kept] = field(init=False, repr=False)
    _began: str = field(init=False)
    _guard: Guard = field(default_factory=Guard, init=False, repr=False)
    _asked: float = field(default=0.0, init=False)
    _pauses: Pauses = field(default_factory=Pauses, init=False, repr=False)
    _needed_since: dict[str, float] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self._kept = {part.name: _Kept(part) for part in self.parts}
        self._began = background.start_time(os.getpid())

    def keep(self, stop: threading.Event) -> None:
        """Run until no part is wanted any more or `stop` is set, and all parts have ended. No error of a part is raised."""
        wanted = Wanted()
        with self._guard:
            while True:
                wanted = Wanted() if stop.is_set() else record.wanted(self.state) or wanted
                self._round(wanted)
                if not wanted.parts and not any(kept.child for kept in self._kept.values()):
                    return
                time.sleep(_ROUND_S)

    def _round(self, wanted: Wanted) -> None:
        now = self.clock()
        self._pauses.comes_round(now)
        for name, kept in reversed(list(self._kept.items())):
            self._look(kept, name in wanted.parts, now=now)
        for name, kept in self._kept.items():
            if name in wanted.parts:
                kept.standing = restarts.asked(kept.standing, at=wanted.asked, now=now)
                if kept.child is None and self._needed(kept) and restarts.may_start(kept.standing, now=now):
                    self._start(kept)
            elif kept.child is None and kept.since is not None:
                kept.standing, kept.why, kept.failed, kept.works, kept.since = RestartState(), "", None, False, None
                background.forget(self.state, name)
        self._asked = wanted.asked
        self._write(wanted)

    def _needed(self, kept: _Kept) -> bool:
        return all(self._kept[name].standing.state == "running" for name in kept.part.needs if name in self._kept)

    def _start(self, kept: _Kept) -> None:
        name, now = kept.part.name, self.clock()
        kept.standing = self._moves(kept, restarts.started(kept.standing, now=now))
        try:
            if left := background.recorded(self.state, name):
                background.stop(self.state, left, seconds=0)  # of a supervisor that is gone, or of this part's last process
            kept.child = kept.part.begin()
        except (TandemError, OSError) as error:
            self._fails(kept, f"{name} could not be started: {error}")
            return
        self._guard.watch(kept.child.process.pid)
        kept.watch = SignPoll(kept.part, kept.child.process)
        self.say(f"started {name} (process {kept.child.process.pid})")

    def _look(self, kept: _Kept, wanted: bool, *, now: float) -> None:  # noqa: FBT001 - one of two
        child, watch, name = kept.child, kept.watch, kept.part.name
        if child is None or watch is None:
            return
        ended = child.popen.poll()
        if not wanted:
            self._end(kept, ended, now=now)
            return
        starting = kept.standing.state == "starting"
        if ended is not None:
            kept.ends_at = None
            self._buried(kept)
            when = " while starting" if starting else ""
            self._fails(kept, f"{name} ended{when} ({background.outcome(ended)}){background.said(child)}")
            return
        if starting and watch.sign is not None and watch.sign.looked is not None:
            kept.standing, kept.works = self._moves(kept, restarts.ready(kept.standing, now=now)), True
            self.say(f"{name} is ready")
        if not self._needed(kept):
            self._needed_since[name] = now
        ready = kept.standing.state == "running"
        since = max(kept.standing.since, self._needed_since.get(name, 0.0), self._pauses.resumed)
        if why := stuck(kept.part, watch.sign, since=since, ready=ready, now=now):
            sign = watch.sign if ready else None
            last = now if sign is None else sign.at if now - sign.at > kept.part.silent_s else sign.moved
            waits = f"; it is waiting: {watch.sign.waits}" if watch.sign and watch.sign.waits else ""
            waits += f"; the health check failed: {watch.error}" if watch.error else ""
            self._buried(kept)
            self._fails(kept, f"{name} {why}{waits}{background.said(child)}", worked=max(since, last))
            return
        kept.standing = restarts.settled(kept.standing, self.terms, now=now)

    def _end(self, kept: _Kept, ended: int | None, *, now: float) -> None:
        """End a part that is not wanted, after all parts that are started after it."""
        assert kept.child is not None
        process = kept.child.process
        later = list(self._kept)[list(self._kept).index(kept.part.name) + 1 :]
        if ended is not None:
            self._buried(kept)
            background.forget(self.state, kept.part.name)
            self.say(f"{kept.part.name} has ended")
        elif kept.ends_at is None and not any(self._kept[name].child for name in later):
            kept.standing = self._moves(kept, replace(kept.standing, state="ending"))
            kept.ends_at = now + self.grace_s
            background.ask_to_end(process)
        elif kept.ends_at is not None and now >= kept.ends_at:
            self.warn(f"{kept.part.name} (process {process.pid}) did not end within {self.grace_s:.0f} s; killing it")
            background.kill(process)

    def _buried(self, kept: _Kept) -> None:
        """Record that no process of the part is left."""
        assert kept.child is not None
        assert kept.watch is not None
        kept.watch.end()
        background.kill(kept.child.process)
        with suppress(subprocess.TimeoutExpired):
            kept.child.popen.wait(GRACE_S)
        deadline = self.clock() + GRACE_S
        while background.leaves(kept.child.process) and self.clock() < deadline:
            background.kill(kept.child.process)
            time.sleep(0.02)
        self._guard.forget(kept.child.process.pid)
        kept.child, kept.watch, kept.ends_at = None, None, None

    def _fails(self, kept: _Kept, why: str, *, worked: float | None = None) -> None:
        """Record that a part has ended or was killed; it last worked at `worked` by the clock, if not until now."""
        kept.standing = self._moves(kept, restarts.failed(kept.standing, self.terms, now=self.clock()))
        kept.why = why
        if kept.works or kept.failed is None:
            kept.failed = self.now() - timedelta(seconds=0.0 if worked is None else self.clock() - worked)
        kept.works = False
        self.warn(why)
        if kept.standing.state == "given up":
            self.warn(f"giving up on {kept.part.name} after {kept.standing.failures} failures in a row; {_FIX}")

    def _moves(self, kept: _Kept, standing: RestartState) -> RestartState:
        if standing.state != kept.standing.state or kept.since is None:
            kept.since = self.now()
        return standing

    def _write(self, wanted: Wanted) -> None:
        told = tuple(_told(kept) for name, kept in self._kept.items() if name in wanted.parts or kept.child)
        with suppress(OSError):  # a full disk is reported where data is written, and must not end what keeps the parts running
            record.write(self.state, Supervision(os.getpid(), self._began, self.clock(), self._asked, told))


_FIX: Final = "see `tandem logs` and `tandem doctor`, then `tandem up` tries again"


def _told(kept: _Kept) -> record.PartRecord:
    sign = kept.watch.sign if kept.watch else None
    return record.PartRecord(
        name=kept.part.name,
        state=kept.standing.state,
        since=kept.since.isoformat(timespec="seconds") if kept.since else "",
        pid=kept.child.process.pid if kept.child else None,
        failures=kept.standing.failures,
        looked=sign.looked if sign else None,
        waits=sign.waits if sign else "",
        why=kept.why,
        failed=kept.failed.isoformat(timespec="seconds") if kept.failed else None,
        fix=_FIX if kept.standing.state == "given up" else "",
    )
