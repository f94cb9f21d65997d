"""Background processes: detached, recorded before they run, identified by pid and start time, ended with all children."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tandem.infra.process import background
from tandem.infra.process.background import BackgroundProcess, Crashed, Process


@pytest.fixture
def spawn(tmp_path: Path) -> Iterator:
    started: list[BackgroundProcess] = []

    def start(name: str, script: str) -> BackgroundProcess:
        command = [sys.executable, "-c", script]
        started.append(background.spawn(tmp_path, name, command, environ=os.environ, folder=tmp_path))
        return started[-1]

    yield start
    for child in started:
        background.stop(tmp_path, child.process, seconds=0)


def is_there(path: Path) -> bool | None:
    return path.exists() or None


def text_of(path: Path) -> str | None:
    return (path.read_text() if path.exists() else "") or None


def gone(pid: int) -> bool:
    """Whether nothing lives under the pid; what is dead and merely not waited for does not."""
    deadline = time.monotonic() + 300
    while background.start_time(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not background.start_time(pid)


def test_a_process_is_found_again_by_its_name(tmp_path: Path, spawn) -> None:
    child = spawn("sleeper", "import time; time.sleep(60)")
    assert background.running(tmp_path, "sleeper") == child.process
    assert (background.names(tmp_path), background.running(tmp_path, "other")) == (["sleeper"], None)


def test_a_background_process_has_no_terminal_and_writes_to_its_log(tmp_path: Path, spawn) -> None:
    script = "import os, sys; print(os.getsid(0) == os.getpid(), sys.stdin.read() == '', flush=True); open('up', 'w')"
    child = spawn("speaker", script)
    child.popen.wait(20)
    assert (tmp_path / "up").exists()
    assert background.last_lines(Path(child.process.log)) == ["True True"]


def test_another_process_under_an_old_pid_is_neither_found_nor_ended(tmp_path: Path, spawn) -> None:
    innocent = spawn("innocent", "import time; time.sleep(60)")
    record = Process("ours", innocent.process.pid, "long ago", innocent.process.log)
    (tmp_path / "run" / "ours.json").write_bytes(msgspec.json.encode(record))
    assert background.running(tmp_path, "ours") is None
    background.stop(tmp_path, record, seconds=0.1)
    assert background.alive(innocent.process)


def test_a_crash_while_starting_shows_the_last_lines_of_this_start(tmp_path: Path, spawn) -> None:
    spawn("crasher", "print('the start before')").popen.wait(20)
    child = spawn("crasher", "print('about to fail'); raise SystemExit(3)")
    with pytest.raises(Crashed) as crash:
        background.wait(child, lambda: None, seconds=300)
    assert "crasher ended while starting (exit code 3)" in str(crash.value)
    assert "about to fail" in str(crash.value)
    assert "the start before" not in str(crash.value)


def test_a_kill_while_starting_is_reported(spawn) -> None:
    child = spawn("victim", "import time; time.sleep(60)")
    os.kill(child.process.pid, signal.SIGKILL)
    with pytest.raises(Crashed, match="killed by SIGKILL"):
        background.wait(child, lambda: None, seconds=300)


def test_a_process_that_is_not_ready_in_time_is_reported(spawn) -> None:
    with pytest.raises(Crashed, match=r"slow was not ready after 0 s; .* is empty"):
        background.wait(spawn("slow", "import time; time.sleep(60)"), lambda: None, seconds=0.2)


def test_stop_sends_sigterm_first(tmp_path: Path, spawn) -> None:
    script = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: (open('asked', 'w'), sys.exit())); "
    child = spawn("polite", script + "open('ready', 'w'); time.sleep(60)")
    background.wait(child, lambda: is_there(tmp_path / "ready"), seconds=300)
    background.stop(tmp_path, child.process, seconds=300)
    assert (tmp_path / "asked").exists()
    assert background.names(tmp_path) == []


def test_stop_kills_a_process_that_ignores_sigterm_and_its_children(tmp_path: Path, spawn) -> None:
    script = (
        "import signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); "
        "open('ready', 'w').write(str(child.pid)); time.sleep(60)"
    )
    child = spawn("deaf", script)
    background.wait(child, lambda: text_of(tmp_path / "ready"), seconds=300)
    background.stop(tmp_path, child.process, seconds=0.3)
    assert gone(child.process.pid)
    assert gone(int((tmp_path / "ready").read_text()))


def test_stop_ends_the_children_of_a_killed_leader(tmp_path: Path, spawn) -> None:
    script = (
        "import subprocess, sys, time; child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); "
        "open('ready', 'w').write(str(child.pid)); time.sleep(60)"
    )
    child = spawn("leader", script)
    orphan = int(background.wait(child, lambda: text_of(tmp_path / "ready"), seconds=300))
    os.kill(child.process.pid, signal.SIGKILL)
    assert gone(child.process.pid)
    background.stop(tmp_path, child.process, seconds=0.2)
    assert gone(orphan)


def test_a_starter_killed_too_early_leaves_no_process(tmp_path: Path) -> None:
    # The starter dies between making the process and recording it: what it made sees its pipe close, and ends.
    script = (
        "import os, pathlib, sys; from tandem.infra.process import background; "
        "background._write = lambda *_: os.kill(os.getpid(), 9); "
        "state = pathlib.Path(sys.argv[1]); background.spawn(state, 'x', ['touch', 'ran'], environ={}, folder=state)"
    )
    checkout = Path(background.__file__).parent.parent.parent
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False, cwd=checkout, timeout=300)
    time.sleep(0.3)
    assert not (tmp_path / "ran").exists()
    assert background.names(tmp_path) == []


def test_the_fallback_by_ps_finds_the_same_processes(spawn) -> None:
    if not Path("/bin/ps").exists():
        pytest.skip("this machine has no ps")
    child = spawn("seen", "import time; time.sleep(60)")
    first = background._start_time_by_ps(child.process.pid)
    assert first
    assert background._start_time_by_ps(child.process.pid) == first
    os.kill(child.process.pid, signal.SIGKILL)
    assert gone(child.process.pid)
    assert background._start_time_by_ps(child.process.pid) == ""
