"""Two files of the state folder: `run/supervisor.state`, the supervisor's report on each part, and `run/supervisor.wanted`, the
parts that it must keep running.
"""

from pathlib import Path
from typing import Final, Literal, TypeVar

import msgspec

from tandem.infra.files import atomic_files
from tandem.infra.process import background

NAME: Final = "supervisor"
_T = TypeVar("_T")

State = Literal["waiting", "starting", "running", "ending", "given up"]
"""`waiting`: for the time of the next start, or for a part that it needs."""


class PartRecord(msgspec.Struct, frozen=True):
    """One supervised part.

    * `pid`: its process; None without one.
    * `since`: the time of its current state, UTC.
    * `failures`: the number of failures in a row.
    * `looked`: when it last did its work, in seconds of the machine's monotonic clock; None before. The speed layer polled the
      log of every source or committed; the other parts answered.
    * `waits`: what the speed layer waits for.
    * `why`, `fix`: why it ended the last time, and what to do now; empty if it never ended, or if there is nothing to do.
    * `failed`: since when it has not worked; while it works, since when it had not before. A failed restart does not change it.
    """

    name: str
    state: State
    since: str
    pid: int | None = None
    failures: int = 0
    looked: float | None = None
    waits: str = ""
    why: str = ""
    failed: str | None = None
    fix: str = ""


class Supervision(msgspec.Struct, frozen=True):
    """The report of the supervisor `pid` that started at `began`; `at` is when its loop last ran, in monotonic seconds.

    `asked` is that of the newest `Wanted` that it has read.
    """

    pid: int
    began: str
    at: float
    asked: float = 0.0
    parts: tuple[PartRecord, ...] = ()

    @property
    def lives(self) -> bool:
        """Whether that supervisor still runs."""
        return background.start_time(self.pid) == self.began

    def part(self, name: str) -> PartRecord | None:
        """The record of a part."""
        return next((part for part in self.parts if part.name == name), None)


class Wanted(msgspec.Struct, frozen=True):
    """The parts to keep running; `asked` is the time of the newest request, in monotonic seconds.

    A part that was given up before that time is tried again.
    """

    parts: tuple[str, ...] = ()
    asked: float = 0.0


def read(state: Path) -> Supervision | None:
    """The report of the last supervisor of a state folder, alive or not."""
    return _read(state / "run" / f"{NAME}.state", Supervision)


def write(state: Path, supervision: Supervision) -> None:
    """Replace it. Raises OSError."""
    _write(state / "run" / f"{NAME}.state", supervision)


def wanted(state: Path) -> Wanted | None:
    """The parts to keep running, none without a request; None if the file cannot be read now."""
    path = state / "run" / f"{NAME}.wanted"
    return _read(path, Wanted) if path.exists() else Wanted()


def want(state: Path, wanted: Wanted) -> None:
    """Write the request; the caller holds `background.starting`. Raises OSError."""
    _write(state / "run" / f"{NAME}.wanted", wanted)


def _read(path: Path, kind: type[_T]) -> _T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError):
        return None


def _write(path: Path, content: msgspec.Struct) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_files.replace(path, msgspec.json.encode(content))
