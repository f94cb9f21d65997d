"""The lock that keeps a Spark-written table to one writer process, for as long as that process's JVM lives.

The JVM outlives a killed Python driver by half a second and may still write, so the JVM must hold the operating system's lock:
infra/spark/jvm_lock.py provides `acquire`. A command without a JVM takes locks of its own process (`own`), which
exclude a JVM's.
`hold` releases no lock; the end of its process does.
"""

import fcntl
import json
import math
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from tandem.views.errors import TandemError

# C's struct flock: its layout, and the indexes of the lock's kind and its holder.
_FLOCK: Final = ("qqihh", 3, 2) if sys.platform == "darwin" else ("hhqqi4x", 0, 4)


class LockTimeout(TandemError, code="lock-timeout"):
    """Another process still holds the lock after the longest wait."""


@dataclass(frozen=True)
class LockOwner:
    """The holder of a lock: its command, its process id, and since when (ISO 8601)."""

    what: str
    pid: int
    since: str

    def __str__(self) -> str:
        return f"{self.what} (pid {self.pid}, since {self.since})"


def hold(
    path: Path,
    acquire: Callable[[Path], bool],
    *,
    what: str,
    pid: int,
    at: datetime,
    patience: float,
    say: Callable[[str], None],
    every: float = 0.2,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Take the lock: call `acquire(path)` every `every` seconds until it returns True, for at most `patience` seconds.

    `say` is called once if another process holds the lock, with a sentence that names it. The owner is written to a file beside
    the lock, only to be named; the operating system alone decides who holds it. Raises LockTimeout.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        waited, said = 0.0, False
        while not acquire(path):
            holder = _holder(path)
            if waited >= patience:
                raise LockTimeout(f"{holder} still holds {path} after {waited:.0f} s; wait for it or stop it, then run again")
            if not said:
                say(f"waiting for {holder}{at_most(patience)}")
                said = True
            sleep(every)
            waited += every
        _owner_file(path).write_text(json.dumps(asdict(LockOwner(what, pid, at.isoformat(timespec="seconds")))))
    except OSError as error:
        raise TandemError(f"cannot use the lock {path}: {error.strerror or error}") from error


def at_most(patience: float) -> str:
    """How long somebody waits, in words; nothing without an end."""
    return "" if math.isinf(patience) else f", at most {patience:.0f} s"


@contextmanager
def own() -> Iterator[Callable[[Path], bool]]:
    """An `acquire` for a process without a JVM: the process holds the locks, and releases them when the context ends."""
    with ExitStack() as files:

        def acquire(path: Path) -> bool:
            file = path.open("ab")
            try:
                # Not flock: a JVM takes this lock of the file's region, too.
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                file.close()
                return False
            files.enter_context(file)
            return True

        yield acquire


def holding(path: Path) -> int | None:
    """The pid of the other process that holds the lock now; None if there is none. Takes no lock. Raises OSError.

    Not for the holder itself: a process loses its locks on a file when it closes any handle of it.
    """
    layout, kind, pid = _FLOCK
    wanted = [0] * 5
    wanted[kind] = fcntl.F_WRLCK
    with path.open("rb") as file:
        told = struct.unpack(layout, fcntl.fcntl(file, fcntl.F_GETLK, struct.pack(layout, *wanted)))
    return None if told[kind] == fcntl.F_UNLCK else int(told[pid])


def owner(path: Path) -> LockOwner | None:
    """The process that took the lock last, which may have ended since; None if unknown, or while it is being written."""
    try:
        return LockOwner(**json.loads(_owner_file(path).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _holder(path: Path) -> str:
    known = owner(path)
    return "another process" if known is None else str(known)


def _owner_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.owner")
