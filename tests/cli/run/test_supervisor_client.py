"""When `up` is done and when it fails, by what the supervisor reports; here a test writes the reports."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec.structs import replace

from tandem.cli.command.call import Call
from tandem.cli.run import supervisor_client
from tandem.cli.run.supervisor_client import NotUp, Supervised
from tandem.infra.process import background
from tandem.infra.process.background import Crashed, Process
from tandem.infra.settings import Settings, SpeedSettings
from tandem.infra.supervision import record
from tandem.infra.supervision.record import PartRecord, Supervision, Wanted

pytestmark = pytest.mark.timeout(60)

RUNNING = PartRecord("speed", "running", "", pid=1)


@dataclass
class Reporting:
    """A process that passes for a supervisor, whose reports are written from here, several times a second."""

    state: Path
    process: Process
    parts: Callable[[Wanted], Sequence[PartRecord]]
    ended: threading.Event = field(default_factory=threading.Event)

    def report(self) -> None:
        while not self.ended.is_set():
            wanted = record.wanted(self.state)
            assert wanted is not None
            told = tuple(self.parts(wanted))
            record.write(self.state, Supervision(self.process.pid, self.process.started, time.monotonic(), wanted.asked, told))
            self.ended.wait(0.02)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(state=str(tmp_path), speed=SpeedSettings(ready_s=60))


@pytest.fixture
def supervisor(settings: Settings) -> Iterator[Process]:
    state = settings.folder
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    child = background.spawn(state, record.NAME, command, environ=os.environ, folder=state)
    yield child.process
    background.stop(state, child.process, seconds=0)


@contextmanager
def reporting(settings: Settings, supervisor: Process, parts: Callable[[Wanted], Sequence[PartRecord]]) -> Iterator[None]:
    one = Reporting(settings.folder, supervisor, parts)
    thread = threading.Thread(target=one.report)
    thread.start()
    try:
        yield
    finally:
        one.ended.set()
        thread.join()


def supervised(settings: Settings) -> Supervised:
    return Supervised(Call(settings.folder, json=True, debug=False, environ={}), settings, time.monotonic())


def wanted(settings: Settings) -> tuple[str, ...] | None:
    found = record.wanted(settings.folder)
    return found.parts if found else None


def test_only_progress_since_the_request_counts(settings: Settings, supervisor: Process) -> None:
    """A speed layer that still lives may have lost its broker and be about to end: `up` had returned 0 for one that was dead."""
    up = supervised(settings)
    record.want(settings.folder, Wanted(("speed",)))
    looks = up.asked + 0.7

    def parts(_: Wanted) -> list[PartRecord]:
        return [replace(RUNNING, looked=up.asked - 0.001 if time.monotonic() < looks else looks)]

    with reporting(settings, supervisor, parts):
        up.provide(["speed"])
    assert time.monotonic() >= looks


def test_a_part_without_progress_is_reported(settings: Settings, supervisor: Process) -> None:
    settings = Settings(state=settings.state, speed=SpeedSettings(ready_s=1))
    up = supervised(settings)
    record.want(settings.folder, Wanted(("speed",)))
    waits = replace(RUNNING, looked=up.asked - 1, waits="source 'sales': no broker")
    with reporting(settings, supervisor, lambda _: [waits]), pytest.raises(NotUp, match="is waiting: source 'sales': no broker"):
        up.provide(["speed"])
    assert wanted(settings) == ("speed",)


def test_a_new_part_that_fails_is_reported_at_once_and_not_restarted(settings: Settings, supervisor: Process) -> None:
    up = supervised(settings)
    record.want(settings.folder, Wanted(("broker",)))
    failed = replace(RUNNING, state="waiting", failures=1, why="speed ended while starting (exit code 1); last words")
    broker = replace(RUNNING, name="broker")

    def parts(wanted: Wanted) -> list[PartRecord]:
        return [broker, failed] if "speed" in wanted.parts else [broker]

    with reporting(settings, supervisor, parts), pytest.raises(Crashed, match="last words"):
        up.provide(["speed"])
    assert wanted(settings) == ("broker",)


@pytest.mark.parametrize("again", [True, False])
def test_a_part_that_ran_may_end_once(settings: Settings, supervisor: Process, *, again: bool) -> None:
    up = supervised(settings)
    record.want(settings.folder, Wanted(("speed",)))

    def parts(_: Wanted) -> list[PartRecord]:
        passed = time.monotonic() - up.asked
        if passed < 0.5:
            return [replace(RUNNING, looked=up.asked - 1, failures=2)]
        if passed < 1:
            return [replace(RUNNING, state="waiting", failures=3, why="killed")]
        if again:
            return [replace(RUNNING, looked=time.monotonic(), failures=3)]
        return [replace(RUNNING, state="waiting", failures=4, why="and killed once more")]

    with reporting(settings, supervisor, parts):
        if again:
            up.provide(["speed"])
        else:
            with pytest.raises(Crashed, match="and killed once more"):
                up.provide(["speed"])
    assert wanted(settings) == ("speed",)


def test_a_dead_supervisor_is_reported(settings: Settings, supervisor: Process) -> None:
    up = supervised(settings)
    record.want(settings.folder, Wanted(("speed",)))

    def parts(_: Wanted) -> list[PartRecord]:
        if time.monotonic() > up.asked + 0.5:
            background.kill(supervisor)
        return [replace(RUNNING, looked=up.asked - 1)]

    with reporting(settings, supervisor, parts), pytest.raises(Crashed, match="the supervisor ended"):
        up.provide(["speed"])


@pytest.mark.parametrize(("when", "stopped"), [("before", True), ("meanwhile", False)])
def test_up_waits_for_a_hanging_supervisor_only_up_to_its_limit(
    settings: Settings, supervisor: Process, monkeypatch: pytest.MonkeyPatch, when: str, *, stopped: bool
) -> None:
    """Whether it hangs when `up` begins, though its last report is fresh, or begins to hang while `up` waits for a part."""
    monkeypatch.setattr(supervisor_client, "_SILENT_S", 600.0 if stopped else 1.0)
    monkeypatch.setattr(Supervised, "_start", lambda _: pytest.fail("a new supervisor is started: the old one is gone"))
    state, up = settings.folder, supervised(settings)
    record.want(state, Wanted(("speed",)))
    late = replace(RUNNING, looked=up.asked - 1)
    asked, at = (0.0, up.asked - 0.5) if when == "before" else (up.asked, up.asked + 0.1)
    record.write(state, Supervision(supervisor.pid, supervisor.started, at, asked, (late,)))
    if stopped:
        os.kill(supervisor.pid, signal.SIGSTOP)
    with pytest.raises(*((pytest.fail.Exception,) if when == "before" else (NotUp,)), match="supervisor"):
        up.provide(["speed"])
    assert not background.alive(supervisor)


def test_down_ends_a_supervisor_that_hangs(settings: Settings, supervisor: Process) -> None:
    record.want(settings.folder, Wanted(("speed",), 1.0))
    record.write(settings.folder, Supervision(supervisor.pid, supervisor.started, time.monotonic()))
    os.kill(supervisor.pid, signal.SIGSTOP)
    began = time.monotonic()
    supervisor_client.end(settings)
    assert time.monotonic() - began < 20
    assert not background.alive(supervisor)
    assert wanted(settings) == ()
    assert background.names(settings.folder) == []
