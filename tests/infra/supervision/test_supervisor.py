"""The supervisor with real processes, small Python programs: whatever happens to them, they recover, and end with it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tandem.infra.process import background
from tandem.infra.supervision import record
from tandem.infra.supervision.record import Wanted
from tests.stack import PYTHONPATH

# A supervisor whose parts beat by touching a file; each has a child in a process group of its own, as Spark's workers have.
SUPERVISOR = """
import json, os, signal, sys, threading, time
from datetime import UTC, datetime
from pathlib import Path

from tandem.infra.process import background
from tandem.infra.supervision.supervisor import Supervisor
from tandem.infra.supervision.stuck import Part, Sign, answered
from tandem.infra.supervision.restarts import RestartBounds

state, scripts, bounds = Path(sys.argv[1]), json.loads(sys.argv[2]), json.loads(sys.argv[3])

def part(name, script, needs):
    def begin():
        return background.spawn(
            state, name, [sys.executable, "-c", script], environ=os.environ, folder=state, dies_with_us=True
        )

    def ask(process):
        try:
            pid, at, looked = (state / f"{name}.beat").read_text().split()
        except (OSError, ValueError):
            return None
        return Sign(float(at), float(looked), float(looked)) if int(pid) == process.pid else None

    return Part(name, begin, ask, ready_s=bounds["ready"], silent_s=bounds["silent"], moving_s=bounds["moving"],
                every_s=0.05, needs=needs)

stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
signal.signal(signal.SIGHUP, lambda *_: None)
parts = [part(name, script, tuple(list(scripts)[:index])) for index, (name, script) in enumerate(scripts.items())]
Supervisor(
    state, parts, RestartBounds(bounds["first"], 1, bounds["failures"], bounds["settled"]), lambda: datetime.now(UTC),
    lambda text: print(text, flush=True), lambda text: print("warning:", text, flush=True), grace_s=bounds["grace"],
).keep(stop)
"""

BEATING = """
import os, signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import os, time; os.setpgid(0, 0); time.sleep(600)"])
while True:
    looked = time.monotonic() if not os.path.exists("{name}.hangs") else {name_looked}
    open("{name}.new", "w").write(f"{{os.getpid()}} {{time.monotonic()}} {{looked}}")
    os.replace("{name}.new", "{name}.beat")
    time.sleep(0.05)
"""


def beating(name: str) -> str:
    return BEATING.format(name=name, name_looked=0.0)


def wait_for(condition: Callable[[], Any], *, seconds: float = 60) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "what was waited for did not come"
        time.sleep(0.02)
    return found


@dataclass
class Supervised:
    """A supervisor in a process of its own over parts with these scripts, in order; each needs those before it."""

    state: Path
    scripts: dict[str, str]
    bounds: dict[str, float] = field(default_factory=dict)
    popen: "subprocess.Popen[bytes] | None" = None

    def start(self, *wanted: str) -> "subprocess.Popen[bytes]":
        record.want(self.state, Wanted(wanted or tuple(self.scripts), time.monotonic()))
        bounds = {"ready": 30, "silent": 2, "moving": 4, "first": 0.1, "failures": 3, "settled": 60, "grace": 3, **self.bounds}
        with (self.state / "said").open("ab") as said:
            self.popen = subprocess.Popen(
                [sys.executable, "-c", SUPERVISOR, str(self.state), json.dumps(self.scripts), json.dumps(bounds)],
                env={**os.environ, "PYTHONPATH": PYTHONPATH},
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        return self.popen

    def part(self, name: str) -> record.PartRecord | None:
        found = record.read(self.state)
        return found.part(name) if found and self.popen and found.pid == self.popen.pid else None

    def running(self, name: str) -> int:
        """The pid of a part that is ready."""

        def pid() -> int | None:
            part = self.part(name)
            return part.pid if part and part.state == "running" else None

        return int(wait_for(pid))

    def said(self) -> str:
        return (self.state / "said").read_text()


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[Callable[..., Supervised]]:
    made: list[Supervised] = []

    def make(scripts: dict[str, str], **bounds: float) -> Supervised:
        made.append(Supervised(tmp_path, scripts, bounds))
        return made[-1]

    yield make
    for one in made:
        if one.popen is not None:
            one.popen.kill()
            one.popen.wait()
    for name in background.names(tmp_path):
        if left := background.recorded(tmp_path, name):
            wait_for(lambda left=left: not session(left.pid))


def beaten(state: Path, name: str) -> float:
    """When the part last gave a sign of life, in Unix seconds; never later than the truth."""
    return time.time() - (time.monotonic() - float((state / f"{name}.beat").read_text().split()[1]))


def session(leader: int) -> list[int]:
    """The living processes of a session, as ps tells them."""
    lines = subprocess.run(["ps", "-eo", "pid=,sid=,stat="], capture_output=True, text=True, check=True).stdout.splitlines()
    found = (line.split() for line in lines)
    return [int(pid) for pid, of, stat in found if int(of) == leader and not stat.startswith("Z")]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_only_the_killed_or_stopped_part_is_restarted(supervised, tmp_path: Path, how: signal.Signals) -> None:
    one = supervised({"a": beating("a"), "b": beating("b")})
    one.start()
    a, b = one.running("a"), one.running("b")
    assert len(wait_for(lambda: session(a) if len(session(a)) == 2 else None)) == 2
    worked = beaten(tmp_path, "a")
    os.kill(a, how)
    killed = time.time()
    again = int(wait_for(lambda: one.running("a") if one.running("a") != a else None))
    part = one.part("a")
    assert part is not None
    assert part.failures == 1
    words = "killed by SIGKILL" if how == signal.SIGKILL else "runs but gave no sign of life for"
    assert words in part.why
    seen = time.time() if how == signal.SIGKILL else killed
    assert int(worked) <= datetime.fromisoformat(part.failed).timestamp() <= seen
    assert session(a) == []
    assert (one.running("b"), one.running("a")) == (b, again)
    assert one.popen is not None
    assert one.popen.poll() is None


def test_a_part_without_progress_is_restarted(supervised, tmp_path: Path) -> None:
    one = supervised({"a": beating("a")})
    one.start()
    first = one.running("a")
    (tmp_path / "a.hangs").touch()
    part = wait_for(lambda: (found := one.part("a")) and found.failures and found)
    (tmp_path / "a.hangs").unlink()
    assert "runs but made no progress for" in part.why
    wait_for(lambda: one.running("a") != first)


def test_a_failing_part_reports_since_when_it_failed(supervised, tmp_path: Path) -> None:
    """However often it is restarted in vain meanwhile: whoever asks since when answers stand still wants to know that."""
    failing = "import os, time\nif os.path.exists('a.fails'):\n    time.sleep(1.2)\n    raise SystemExit(3)\n"
    one = supervised({"a": failing + beating("a")})
    one.start()
    first, before = one.running("a"), int(time.time())
    (tmp_path / "a.fails").touch()
    os.kill(first, signal.SIGKILL)
    at = wait_for(lambda: (found := one.part("a")) and found.failed)
    assert before <= datetime.fromisoformat(at).timestamp() <= time.time()
    given_up = wait_for(lambda: (found := one.part("a")) and found.state == "given up" and found)
    assert given_up.failed == at


def test_a_part_that_fails_repeatedly_is_given_up_with_its_last_lines(supervised) -> None:
    one = supervised({"a": beating("a"), "b": "print('a bad day', flush=True); raise SystemExit(7)"})
    one.start()
    part = wait_for(lambda: (found := one.part("b")) and found.state == "given up" and found)
    assert (part.failures, part.pid) == (3, None)
    assert part.why.startswith("b ended while starting (exit code 7); the last lines of ")
    assert "a bad day" in part.why
    assert "tandem up" in part.fix
    assert part.failed
    assert part.since
    assert "giving up on b after 3 failures in a row" in one.said()
    assert one.said().count("started b") == 3
    a = one.running("a")
    record.want(one.state, Wanted(("a", "b"), time.monotonic()))
    wait_for(lambda: one.said().count("started b") == 6)
    assert one.running("a") == a
    assert background.names(one.state) == ["a", "b"]
    record.want(one.state, Wanted(("a",), time.monotonic()))
    wait_for(lambda: background.names(one.state) == ["a"])


@pytest.mark.slow
def test_a_part_that_never_becomes_ready_is_ended(supervised) -> None:
    one = supervised({"a": "import time; time.sleep(600)"}, ready=1, failures=1)
    one.start()
    part = wait_for(lambda: (found := one.part("a")) and found.state == "given up" and found)
    assert str(part.why).startswith("a was not ready after 1 s; ")
    assert str(part.why).endswith(" is empty")


@pytest.mark.slow
def test_a_part_waits_for_the_parts_that_it_needs(supervised, tmp_path: Path) -> None:
    late = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.05)\n" + beating("a")
    one = supervised({"a": late, "b": beating("b")})
    one.start()
    wait_for(lambda: (found := one.part("a")) and found.state == "starting")
    time.sleep(0.5)
    assert one.part("b").state == "waiting"
    assert "started b" not in one.said()
    (tmp_path / "go").touch()
    one.running("b")


@pytest.mark.each_run("9")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_all_parts_end_with_the_supervisor(supervised, how: signal.Signals) -> None:
    one = supervised({"a": beating("a"), "b": beating("b")})
    popen = one.start()
    leaders = [one.running("a"), one.running("b")]
    for leader in leaders:
        wait_for(lambda leader=leader: len(session(leader)) == 2)
    os.kill(leaders[0], signal.SIGSTOP)
    os.kill(popen.pid, how)
    popen.wait(60)
    wait_for(lambda: not any(map(session, leaders)))
    if how == signal.SIGTERM:
        assert popen.returncode == 0
        # In the reverse order, and each asked before it is killed.
        said = one.said()
        assert said.index("b has ended") < said.index("a has ended")


def test_the_supervisor_outlives_its_terminal(supervised) -> None:
    one = supervised({"a": beating("a")})
    popen = one.start()
    a = one.running("a")
    os.kill(popen.pid, signal.SIGHUP)
    os.kill(a, signal.SIGKILL)
    wait_for(lambda: one.running("a") != a)
    assert popen.poll() is None
    # A part does not inherit that: a hangup ends it, as it ends the stopped workers of a Spark that died.
    here = one.running("a")
    os.kill(here, signal.SIGHUP)
    wait_for(lambda: one.running("a") != here)


@pytest.mark.slow
def test_a_part_that_is_requested_later_is_started_too(supervised) -> None:
    one = supervised({"a": beating("a"), "b": beating("b")})
    popen = one.start("a")
    a = one.running("a")
    assert one.part("b") is None
    record.want(one.state, Wanted(("a", "b"), time.monotonic()))
    b = one.running("b")
    assert one.running("a") == a
    record.want(one.state, Wanted(("a",), time.monotonic()))
    wait_for(lambda: one.part("b") is None)
    assert (one.running("a"), session(b)) == (a, [])
    record.want(one.state, Wanted((), time.monotonic()))
    assert popen.wait(60) == 0
    assert background.names(one.state) == []


@pytest.mark.slow
def test_a_pause_of_the_machine_is_not_a_failure_of_its_parts(supervised) -> None:
    """Whoever stops the supervisor with its parts, as a paused virtual machine does, finds all of them as they were."""
    one = supervised({"a": beating("a")})
    popen = one.start()
    a = one.running("a")
    for pid in (popen.pid, a):
        os.kill(pid, signal.SIGSTOP)
    time.sleep(3)
    for pid in (popen.pid, a):
        os.kill(pid, signal.SIGCONT)
    looked = one.part("a").looked
    wait_for(lambda: one.part("a").looked > looked + 1)
    assert (one.running("a"), one.part("a").failures) == (a, 0)
