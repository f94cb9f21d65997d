"""The signs of a part come from its files and the kernel: of processes that run, are stopped, killed, or never ran."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from tandem.infra.process import background, pulse
from tandem.infra.process.background import Process
from tandem.infra.process.pulse import Heart, Pulse, SourceLoop
from tandem.infra.settings import Settings
from tandem.infra.supervision import record
from tandem.infra.supervision.record import PartRecord, Supervision
from tandem.serving.status.part_signs import part_states
from tandem.serving.status.part_state import PartState

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)


@pytest.fixture
def process(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that is on record as the speed layer of the state folder."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        (tmp_path / "run").mkdir()
        known = Process("speed", child.pid, background.start_time(child.pid), str(tmp_path / "speed.log"))
        (tmp_path / "run" / "speed.json").write_bytes(msgspec.json.encode(known))
        yield child
        child.kill()


def state_of(folder: Path, part: str = "speed", *, now: datetime = NOW) -> PartState:
    return next(one for one in part_states(Settings(state=str(folder)), now=now) if one.part == part)


def beat(folder: Path, pid: int, *, looked: float, at: float = 0.1, live: int = 1, began: str | None = None) -> None:
    """Write a pulse that is `at` seconds old, with a loop of the live release and one of another that never looked."""
    now = time.monotonic()
    loops = (SourceLoop(live, "hits", now - looked, now - looked), SourceLoop(live + 1, "hits", now - 5000))
    found = Pulse(pid, background.start_time(pid) if began is None else began, now - at, live, loops)
    pulse.file(folder, "speed").write_bytes(msgspec.json.encode(found))


def near(found: datetime | None, seconds: float) -> bool:
    return found is not None and abs((NOW - found).total_seconds() - seconds) < 2


def test_without_started_parts_nothing_is_red(tmp_path: Path) -> None:
    found = part_states(Settings(state=str(tmp_path)), now=NOW)
    assert [(one.part, one.state, one.red) for one in found] == [
        ("broker", "not_started", False),
        ("speed", "not_started", False),
    ]
    assert list(tmp_path.iterdir()) == []


def test_progress_a_stop_and_a_kill_of_a_process_are_recognized(tmp_path: Path, process: "subprocess.Popen[bytes]") -> None:
    assert (state_of(tmp_path).state, state_of(tmp_path).red) == ("starting", False)
    beat(tmp_path, process.pid, looked=1)
    assert (state_of(tmp_path).state, state_of(tmp_path).age) == ("running", pytest.approx(1, abs=2))
    beat(tmp_path, process.pid, looked=70)
    found = state_of(tmp_path)
    assert (found.state, near(found.since, 70)) == ("stuck", True)

    beat(tmp_path, process.pid, looked=1)
    process.send_signal(signal.SIGSTOP)
    while not background.stopped(Process("speed", process.pid, "", "")):
        pass
    assert (state_of(tmp_path).state, state_of(tmp_path).red) == ("stuck", True)
    assert "kill -CONT" in (state_of(tmp_path).advice or "")
    process.send_signal(signal.SIGCONT)
    while background.stopped(Process("speed", process.pid, "", "")):
        pass
    assert state_of(tmp_path).state == "running"
    beat(tmp_path, process.pid, looked=9, at=9)
    assert (state_of(tmp_path).state, near(state_of(tmp_path).since, 9)) == ("stuck", True)

    process.kill()
    process.wait()
    found = state_of(tmp_path)
    assert (found.state, found.red, near(found.since, 9)) == ("dead", True, True)
    # `down` forgets it.
    background.forget(tmp_path, "speed")
    assert (state_of(tmp_path).state, state_of(tmp_path).red) == ("not_started", False)


def test_a_part_started_by_hand_is_known_by_its_pulse(tmp_path: Path) -> None:
    heart = Heart(tmp_path, "speed")
    heart.beat(1)
    heart.begins(1, "hits")
    heart.looked(1, "hits")
    assert state_of(tmp_path).state == "running"
    heart.waits(1, "hits", "no broker at 127.0.0.1:1")
    found = state_of(tmp_path)
    assert (found.state, found.red) == ("stuck", True)
    assert found.why == "source 'hits' is waiting: no broker at 127.0.0.1:1"
    heart.ends(1, "hits")
    beaten = pulse.read(tmp_path, "speed")
    assert beaten is not None
    boot = beaten.began.partition(":")[0]
    gone = msgspec.structs.replace(beaten, pid=2**22 + 1, began=f"{boot}:1", at=beaten.at - 60)
    pulse.file(tmp_path, "speed").write_bytes(msgspec.json.encode(gone))
    assert state_of(tmp_path).state == "not_started"  # it ended in order


def test_a_pulse_of_another_machine_is_dated_by_its_file(tmp_path: Path) -> None:
    """Its monotonic clock is another one."""
    (tmp_path / "run").mkdir()
    path = pulse.file(tmp_path, "speed")
    loops = (SourceLoop(1, "hits", 17.0, 16.5),)
    path.write_bytes(msgspec.json.encode(Pulse(7, "another boot:123", 17.2, 1, loops)))
    for seconds, state in ((1, "running"), (9, "dead")):
        os.utime(path, ((NOW - timedelta(seconds=seconds)).timestamp(),) * 2)
        found = state_of(tmp_path)
        assert found.state == state
        assert found.red == (state == "dead")


def test_a_broker_is_red_until_it_answers_after_a_failure(tmp_path: Path, process: "subprocess.Popen[bytes]") -> None:
    """Its process lives again a second after it was killed; whoever looks then must not read that all is well."""
    (tmp_path / "run" / "broker.json").write_bytes((tmp_path / "run" / "speed.json").read_bytes())
    own, failed = os.getpid(), (NOW - timedelta(seconds=3)).isoformat()
    for state, red in (("starting", True), ("running", False)):
        part = PartRecord("broker", state, NOW.isoformat(), process.pid, 1, time.monotonic(), "", "killed by SIGKILL", failed)  # type: ignore[arg-type]
        record.write(tmp_path, Supervision(own, background.start_time(own), time.monotonic(), 0.0, (part,)))
        found = state_of(tmp_path, "broker")
        assert (found.red, found.why) == (red, "killed by SIGKILL" if red else None)


@pytest.mark.parametrize(("silent", "hung"), [(1, False), (20, True)])
def test_a_supervisor_that_hangs_is_red_and_its_parts_are_not(
    tmp_path: Path, process: "subprocess.Popen[bytes]", silent: float, *, hung: bool
) -> None:
    """It asks them no more, so their last answers grow old: nobody is to read that the broker is stuck."""
    own = background.start_time(process.pid)
    for name in ("broker", "supervisor"):
        known = Process(name, process.pid, own, str(tmp_path / f"{name}.log"))
        (tmp_path / "run" / f"{name}.json").write_bytes(msgspec.json.encode(known))
    at = time.monotonic() - silent
    parts = [PartRecord("broker", "running", NOW.isoformat(), process.pid, looked=at - 1)]
    record.write(tmp_path, Supervision(process.pid, own, at, 0.0, tuple(parts)))
    assert not state_of(tmp_path, "broker").red
    found = state_of(tmp_path, "supervisor")
    assert (found.red, near(found.since, silent) if hung else found.since) == (hung, True if hung else None)
    parts = [PartRecord("broker", "running", NOW.isoformat(), process.pid, looked=at - 16)]
    record.write(tmp_path, Supervision(process.pid, own, at, 0.0, tuple(parts)))
    assert state_of(tmp_path, "broker").state == "stuck"


def test_what_the_supervisor_reports_is_the_reason(tmp_path: Path, process: "subprocess.Popen[bytes]") -> None:
    def report(state: record.State, **more: object) -> None:
        pid = os.getpid()
        part = PartRecord("speed", state, NOW.isoformat(), **more)  # type: ignore[arg-type]
        record.write(tmp_path, Supervision(pid, background.start_time(pid), time.monotonic(), 0.0, (part,)))

    failed = (NOW - timedelta(seconds=30)).isoformat()
    report("starting", why="speed ended (killed by SIGKILL)", failed=failed, failures=1)
    found = state_of(tmp_path)
    assert (found.state, found.red, near(found.since, 30)) == ("starting", True, True)
    assert found.why == "speed ended (killed by SIGKILL)"
    beat(tmp_path, process.pid, looked=1)
    assert not state_of(tmp_path).red
    process.kill()
    process.wait()
    report("given up", why="speed ended (exit code 1)", failed=failed, failures=5, fix="see its log")
    found = state_of(tmp_path)
    assert (found.state, found.red, found.advice) == ("given_up", True, "see its log")
