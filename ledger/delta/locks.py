"""The lock that keeps a Spark-written table to one writer process, for as long as that process's JVM lives.

The JVM outlives a killed Python driver by half a second and may still commit, so it must be the JVM that holds the operating
system's lock: `acquire` is given by whoever has one (infra/spark/session.py). Who starts no
JVM takes locks of its own process (`own`), which exclude a JVM's. `hold` releases no lock; its process's end does.
"""

import fcntl
import json
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from views.errors import TandemError

# C's struct flock: where in its fields the lock's kind and its holder are.
_FLOCK: Final = ("qqihh", 3, 2) if sys.platform == "darwin" else ("hhqqi4x", 0, 4)


class LockTimeout(TandemError):
    """Another process still holds the lock after all the patience there was."""


@dataclass(frozen=True)
class Owner:
    """Who holds a lock: what it runs, its process id, since when (ISO 8601)."""

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
    """Return once `acquire(path)` has said True, trying `every` this many seconds for `patience` seconds.

    `say` is called once if there is anyone to wait for, with a sentence that names them. The owner is written beside the
    lock, for others to name; the lock itself is the operating system's alone. Raises LockTimeout.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        waited, said = 0.0, False
        while not acquire(path):
            holder = _holder(path)
            if waited >= patience:
                raise LockTimeout(f"{holder} still holds {path} after {waited:.0f} s; wait for it or stop it, then run again")
            if not said:
                say(f"waiting for {holder}, at most {patience:.0f} s")
                said = True
            sleep(every)
            waited += every
        _owner_file(path).write_text(json.dumps(asdict(Owner(what, pid, at.isoformat(timespec="seconds")))))
    except OSError as error:
        raise TandemError(f"cannot use the lock {path}: {error.strerror or error}") from error


@contextmanager
def own() -> Iterator[Callable[[Path], bool]]:
    """An `acquire` for a process that writes without a JVM: the locks are its own, and free when the context ends."""
    with ExitStack() as files:

        def acquire(path: Path) -> bool:
            file = path.open("ab")
            try:
                # Not flock: the lock of the file's region is what a JVM takes too.
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                file.close()
                return False
            files.enter_context(file)
            return True

        yield acquire


def holding(path: Path) -> int | None:
    """The pid of the process that holds the lock now; None if nobody else does. Takes nothing. Raises OSError.

    Not for a process that holds it: a process loses its locks on a file when it closes that file, however often it is open.
    """
    layout, kind, pid = _FLOCK
    wanted = [0] * 5
    wanted[kind] = fcntl.F_WRLCK
    with path.open("rb") as file:
        told = struct.unpack(layout, fcntl.fcntl(file, fcntl.F_GETLK, struct.pack(layout, *wanted)))
    return None if told[kind] == fcntl.F_UNLCK else int(told[pid])


def owner(path: Path) -> Owner | None:
    """Who took the lock last; None if nobody did or it is being written. It may have ended since."""
    try:
        return Owner(**json.loads(_owner_file(path).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _holder(path: Path) -> str:
    known = owner(path)
    return "another process" if known is None else str(known)


def _owner_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.owner")
