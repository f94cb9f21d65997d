"""The files of a part's log: `logs/<part>.log`, earlier ones `.log.1` and so on. Other output of the part goes to `.out`."""

import fcntl
import os
import shutil
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tandem.infra.settings import LogsSettings

LOG: Final = ".log"
OUT: Final = ".out"
_MB: Final = 1 << 20


@dataclass(frozen=True)
class LogBounds:
    """A file is rotated before it has more than `bytes` bytes; `kept` earlier files stay."""

    bytes: int
    kept: int


def bounds(logs: LogsSettings) -> LogBounds:
    """The bounds in the settings."""
    return LogBounds(logs.file_mb * _MB, logs.kept_files)


def log_of(state: Path, part: str) -> Path:
    """The path of a part's log."""
    return state / "logs" / f"{part}{LOG}"


def earlier(path: Path) -> Sequence[Path]:
    """The earlier files of this path, the newest first."""
    found = (one for one in path.parent.glob(f"{path.name}.*") if one.name[len(path.name) + 1 :].isdigit())
    return sorted(found, key=lambda one: int(one.name.rpartition(".")[2]))


def begin_anew(path: Path, bounds: LogBounds) -> None:
    """Rename the file to `.1` if it has reached its bound; for a file that no process has open."""
    if path.exists() and path.stat().st_size >= bounds.bytes:
        _make_room(path, bounds)
        path.rename(_numbered(path, 1))


def empty(path: Path, bounds: LogBounds) -> None:
    """The same for a file that another process appends to and never reopens: its content is copied, then truncated.

    Lines that are written between the two steps are lost, so use this only for output that is also logged elsewhere.
    """
    with suppress(OSError):  # a full disk or a deleted file must not stop the process
        if path.stat().st_size >= bounds.bytes:
            _make_room(path, bounds)
            shutil.copyfile(path, _numbered(path, 1))
            os.truncate(path, 0)


@dataclass
class LogFile:
    """A file that lines are appended to, each with one write, by any number of threads and processes.

    With `standard` this process's stdout and stderr go to the file, also after a rotation. A new file gets this `mode`.
    """

    path: Path
    bounds: LogBounds
    standard: bool = False
    mode: int = 0o644
    _descriptor: int | None = field(default=None, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def write(self, line: str) -> None:
        """Append a line. A full disk is reported where data are written; a failure to log must not end a run."""
        with suppress(OSError):
            self.append(line)

    def append(self, line: str) -> None:
        """Append a line; raises OSError."""
        content = f"{line}\n".encode("utf-8", "backslashreplace")
        with self._lock:
            os.write(self._ready(len(content)), content)

    def _ready(self, more: int) -> int:
        if self._descriptor is None:
            self._descriptor = 2 if self.standard else self._opened()
        if os.fstat(self._descriptor).st_size + more > self.bounds.bytes:
            # Held until the old file is closed, so that only one of several processes renames it.
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            if self.path.exists() and os.path.samestat(self.path.stat(), os.fstat(self._descriptor)):
                _make_room(self.path, self.bounds)
                self.path.rename(_numbered(self.path, 1))
            new = self._opened()
            if self.standard:
                for output in (1, 2):
                    os.dup2(new, output)
            os.close(new if self.standard else self._descriptor)
            self._descriptor = 2 if self.standard else new
        return self._descriptor

    def _opened(self) -> int:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, self.mode)


def _make_room(path: Path, bounds: LogBounds) -> None:
    """Renumber the earlier files and delete those beyond the configured number."""
    for one in reversed(earlier(path)):
        number = int(one.name.rpartition(".")[2])
        if number >= bounds.kept:
            one.unlink(missing_ok=True)
        else:
            one.rename(_numbered(path, number + 1))


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")
