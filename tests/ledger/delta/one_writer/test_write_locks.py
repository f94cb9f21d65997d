"""A process holds a lock until it ends, however it ends; a waiting process names the holder and times out."""

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tandem.ledger.delta.one_writer.write_locks import LockTimeout, hold, owner
from tandem.views.errors import TandemError
from tests.ledger.tiny import AT

_HOLDER = """
import fcntl, sys, time
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("held", flush=True)
time.sleep(60)
"""


class System:
    """The operating system's lock, as a JVM has one; kept open until the test ends."""

    def __init__(self) -> None:
        self.files: list[int] = []

    def __call__(self, path: Path) -> bool:
        self.files.append(os.open(path, os.O_RDWR | os.O_CREAT))
        try:
            fcntl.flock(self.files[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def take(path: Path, said: list[str], *, what: str = "archive", patience: float = 0.05) -> None:
    hold(path, System(), what=what, pid=4711, at=AT, patience=patience, say=said.append, every=0.01)


def test_a_free_lock_is_taken_without_a_message(tmp_path: Path) -> None:
    said: list[str] = []
    path = tmp_path / "state" / "locks" / "log.lock"  # of a state folder that does not exist yet
    take(path, said)
    assert said == []
    assert str(owner(path)) == "archive (pid 4711, since 2026-11-01T12:00:00+00:00)"


def test_a_lock_file_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "locks").touch()
    with pytest.raises(TandemError, match=r"cannot use the lock .*log.lock: "):
        take(tmp_path / "locks" / "log.lock", [])


def test_a_waiting_process_names_the_holder_and_times_out(tmp_path: Path) -> None:
    said: list[str] = []
    take(tmp_path / "log.lock", [], what="recompute")
    with pytest.raises(LockTimeout, match=r"recompute \(pid 4711, since .*\) still holds .*log.lock"):
        take(tmp_path / "log.lock", said)
    assert said == ["waiting for recompute (pid 4711, since 2026-11-01T12:00:00+00:00), at most 0 s"]


def test_a_killed_holder_releases_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "log.lock"
    with subprocess.Popen([sys.executable, "-c", _HOLDER, str(path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        said: list[str] = []
        with pytest.raises(LockTimeout, match="another process still holds"):
            take(path, said)

        def kill_and_say(sentence: str) -> None:
            said.append(sentence)
            holder.send_signal(signal.SIGKILL)
            holder.wait()

        hold(path, System(), what="archive", pid=1, at=AT, patience=5, say=kill_and_say, every=0.01)
    assert said == ["waiting for another process, at most 0 s", "waiting for another process, at most 5 s"]


def test_an_unreadable_owner_file_means_an_unknown_holder(tmp_path: Path) -> None:
    (tmp_path / "log.lock.owner").write_text("{")
    assert owner(tmp_path / "log.lock") is None
