"""One campaign: a project is fed, queried and disturbed for some minutes, then compared with all acknowledged events."""

import ctypes
import os
import random
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final

import psutil

from tandem.infra import folders
from tandem.infra.settings import Settings
from tests.campaign import project
from tests.campaign.answers import oracle
from tests.campaign.answers.comparer import WAYS, Comparer
from tests.campaign.answers.log import Log
from tests.campaign.commands import Tandem, wait_until
from tests.campaign.disturbance import faults
from tests.campaign.disturbance.injury import Injury
from tests.campaign.disturbance.machine import Clock, Disk, LeftOut
from tests.campaign.feeder import Feeder
from tests.campaign.server import Server
from tests.campaign.steps import Steps
from tests.campaign.tally import Tally

_COUNTED_S: Final = 300.0
"""How long answers may take at the end to count the whole log."""
_TRIES: Final = 3
_ENDS_S: Final = 30.0
_SUBREAPER: Final = 36


class Abandoned(Exception):
    """The campaign could not go on."""


@dataclass(frozen=True)
class Campaign:
    """The folder of the evidence, how long it lasts, and what draws."""

    folder: Path
    seconds: float
    seed: int
    mounts: bool
    say: Callable[[str], None]

    def run(self) -> Tally:
        """Run it; whatever it has started is ended. Raises Abandoned."""
        tally = Tally(self.folder / "evidence.jsonl")
        ctypes.CDLL(None).prctl(_SUBREAPER, 1)  # what is orphaned becomes ours to end
        state = self.folder / "state"
        state.mkdir(mode=0o700)
        disk, clock = self._machine(tally, state)
        with _free_port() as port:
            project.write(self.folder / "project", state=state, port=port)
        tandem = Tandem(self.folder / "project", folders.ROOT, self._environ(clock), tally)
        server = Server(f"http://127.0.0.1:{port}", state / "access" / "first.token")
        steps = Steps(tandem, server, tally, self._random("steps"))
        log = Log(Settings(state=str(state)), project.SOURCE)
        feeder = Feeder(tandem, server, tally, self._random("feeder"))
        comparer = Comparer(tandem, server, log, tally, steps.editions, self._random("comparer"))
        injury = Injury(tandem, steps, server, tally, self._random("injury"), disk, clock)
        try:
            self.say("starting the project")
            ended = tandem.run("up", "--serve")
            if ended.code:
                raise Abandoned(f"the project does not start: {ended.document.get('error')}")
            with in_background(tally, feeder.run, comparer.run):
                self._injure(injury, tally)
            self.say("comparing all answers at the end of the log")
            compare_end(steps, feeder, comparer, tally)
        finally:
            tandem.run("down")
            _end_all(tally)
            if not tally.held:
                shutil.copytree(state, self.folder / "state-at-the-end", dirs_exist_ok=True, ignore_dangling_symlinks=True)
            if disk is not None:
                disk.unmount()
        return tally

    def _machine(self, tally: Tally, state: Path) -> tuple[Disk | None, Clock | None]:
        disk = clock = None
        try:
            disk = Disk.mounted(state) if self.mounts else None
        except LeftOut as reason:
            tally.left_out.append(str(reason))
        if not self.mounts:
            tally.left_out.append("full disk: no mount namespace can be made here (unshare -rm)")
        try:
            clock = Clock.of(self.folder)
        except LeftOut as reason:
            tally.left_out.append(str(reason))
        return disk, clock

    def _environ(self, clock: Clock | None) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith("TANDEM_")}
        return {**folders.child_environment(own), **(clock.environ if clock else {})}

    def _random(self, what: str) -> random.Random:
        return random.Random(f"{self.seed} {what}")

    def _injure(self, injury: Injury, tally: Tally) -> None:
        kinds = [
            *faults.ALWAYS,
            *([faults.FULL_DISK] if injury.disk else []),
            *(faults.CLOCK if injury.clock else []),
        ]
        deadline = time.monotonic() + self.seconds
        for fault in faults.drawn(kinds, self._random("faults")):
            if time.monotonic() > deadline:
                return
            self.say(f"{fault} ({max(0, deadline - time.monotonic()) / 60:.1f} min left; {_told(tally)})")
            if not any(injury.do(fault) for _ in range(_TRIES)):
                tally.note("not done", fault=str(fault))


def compare_end(steps: Steps, feeder: Feeder, comparer: Comparer, tally: Tally) -> None:
    """Every answer counts the whole log, which has all acknowledged records; and again after a full recompute."""
    steps.back("the last fault")
    for ways in (WAYS, WAYS[:2]):
        if ways != WAYS:
            steps.done(("recompute", "--archive", "--mode", "full"))
        end = comparer.log.end()
        for way, view in product(ways, oracle.VIEWS):
            if not wait_until(partial(comparer.reaches, end, way, view), seconds=_COUNTED_S):
                tally.found("lost records", why="the end of the log is not counted in time", way=way, view=view, end=end)
    records = comparer.log.records(end, seconds=_COUNTED_S) or []
    for why, lost in lost_records(records, feeder.acknowledged, feeder.places):
        tally.found("lost records", len(lost), why=why, events=lost[:20])
    tally.counts["records in the log"] = len(records)


def lost_records(
    records: list[oracle.Record], acknowledged: set[int], places: dict[tuple[int, int], int]
) -> Iterator[tuple[str, list[Any]]]:
    """What the log does not have although it was acknowledged: events, and events at the places that were named."""
    there = {(record.partition, record.offset): sale.id for record in records if (sale := oracle.parsed(record.value))}
    if missing := sorted(acknowledged - set(there.values())):
        yield "acknowledged, and not in the log", missing
    if moved := sorted(place for place, number in places.items() if there.get(place) != number):
        yield "acknowledged at a place where the log has something else", moved


@contextmanager
def in_background(tally: Tally, *loops: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run loops in threads until the context ends. Raises Abandoned if one failed."""
    stop, failed = threading.Event(), []

    def run(loop: Callable[[threading.Event], None]) -> None:
        try:
            loop(stop)
        except BaseException as error:  # noqa: BLE001 - raised below, by the thread that waits for this one
            tally.note("the campaign itself failed", error=repr(error))
            failed.append(error)

    threads = [threading.Thread(target=run, args=(loop,)) for loop in loops]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    if failed:
        raise Abandoned(f"the campaign itself failed: {failed[0]!r}") from failed[0]


@contextmanager
def _free_port() -> Iterator[int]:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        yield found.getsockname()[1]


def _end_all(tally: Tally) -> None:
    """Wait for what ends after `down`, then kill what is left, which a person would have to do."""
    _, left = psutil.wait_procs(psutil.Process().children(recursive=True), timeout=_ENDS_S)
    for process in left:
        with suppress(psutil.NoSuchProcess):
            tally.found("manual interventions", why="a process is left after `down`", command=process.cmdline()[:6])
            process.kill()
    psutil.wait_procs(left, timeout=_ENDS_S)


def _told(tally: Tally) -> str:
    found = ", ".join(f"{number} {finding}" for finding, number in tally.findings.items()) or "nothing found"
    return f"{tally.counts['comparisons']} comparisons, {found}"
