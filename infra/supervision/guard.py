"""The guard: a process at the other end of a pipe, which ends the sessions of all parts if the supervisor dies.

The kernel kills the first process of each part with the supervisor (`infra/process/pdeathsig.py`), but not the children of that
process. This module is also the guard's program, which imports nothing of the platform. It reads lines, `+SESSION` or `-SESSION`.
When the pipe closes, because the supervisor has ended, it kills the sessions that were added and not removed.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Self


@dataclass
class Guard:
    """The guard of the calling process, from `with` to its end."""

    _popen: "subprocess.Popen[bytes] | None" = field(default=None, init=False, repr=False)

    def __enter__(self) -> Self:
        self._popen = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return self

    def watch(self, session: int) -> None:
        """Add a session, which will end with this process."""
        self._send(f"+{session}\n")

    def forget(self, session: int) -> None:
        """Remove a session that has ended; its number may be reused."""
        self._send(f"-{session}\n")

    def _send(self, line: str) -> None:
        assert self._popen is not None
        pipe: IO[bytes] | None = self._popen.stdin
        assert pipe is not None
        with suppress(OSError):  # it was killed; the kernel still ends the first process of each part
            pipe.write(line.encode())
            pipe.flush()

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, stack: TracebackType | None) -> None:
        assert self._popen is not None
        assert self._popen.stdin is not None
        with suppress(OSError):
            self._popen.stdin.close()
        self._popen.wait()


def members(session: int) -> list[int]:
    """The living processes of a session, by /proc."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
            if fields[3] == str(session) and fields[0] not in "ZX":
                found.append(int(entry.name))
    return found


def end(sessions: Iterable[int]) -> None:
    """Kill all processes of the sessions."""
    for session in sessions:
        for pid in members(session):
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    for each in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    watched: set[int] = set()
    for line in sys.stdin:
        (watched.add if line.startswith("+") else watched.discard)(int(line[1:]))
    end(watched)
