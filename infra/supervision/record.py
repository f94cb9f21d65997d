"""Two files of the state folder: `run/supervisor.state`, what the supervisor reports of each part, and `run/supervisor.wanted`,
what it is asked to keep running.
"""

from pathlib import Path
from typing import Final, Literal, TypeVar

import msgspec

from infra.files import atomic_files
from infra.process import background

NAME: Final = "supervisor"
_T = TypeVar("_T")

State = Literal["waiting", "starting", "running", "ending", "given up"]
"""`waiting`: for the time of the next start, or for a part that it needs."""


class Part(msgspec.Struct, frozen=True):
    """One supervised part.

    `pid` is its process, None while it has none; `since` is since when it is in its state, UTC. `failures` are those in a row.
    `looked` is when it last did its work, in seconds of the machine's monotonic clock, None before it did: the speed layer looked
    at the log of every source or committed, the others answered. `waits` is what the speed layer waits for. `why` is what ended
    it the last time, and `fix` what to do now; empty if nothing did, or nothing is to be done. `failed` is since when it did not
    work before it was ready the last time, or does not now: a restart that fails, too, does not change it.
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
    """Of the supervisor `pid` that started at `began`; `at` is when its loop last came round, in monotonic seconds.

    `asked` is that of the newest `Wanted` that it has read.
    """

    pid: int
    began: str
    at: float
    asked: float = 0.0
    parts: tuple[Part, ...] = ()

    @property
    def lives(self) -> bool:
        """Whether that supervisor still runs."""
        return background.start_time(self.pid) == self.began

    def part(self, name: str) -> Part | None:
        """What is on record of a part."""
        return next((part for part in self.parts if part.name == name), None)


class Wanted(msgspec.Struct, frozen=True):
    """The parts to keep running; `asked` is when somebody last asked, in monotonic seconds: a part that was given up before then
    is tried again.
    """

    parts: tuple[str, ...] = ()
    asked: float = 0.0


def read(state: Path) -> Supervision | None:
    """What the last supervisor of a state folder wrote, whether or not it still lives."""
    return _read(state / "run" / f"{NAME}.state", Supervision)


def write(state: Path, supervision: Supervision) -> None:
    """Replace it. Raises OSError."""
    _write(state / "run" / f"{NAME}.state", supervision)


def wanted(state: Path) -> Wanted | None:
    """What is to be kept running, nothing where nobody asked; None if that cannot be read just now."""
    path = state / "run" / f"{NAME}.wanted"
    return _read(path, Wanted) if path.exists() else Wanted()


def want(state: Path, wanted: Wanted) -> None:
    """Ask for it; the caller holds `background.starting`. Raises OSError."""
    _write(state / "run" / f"{NAME}.wanted", wanted)


def _read(path: Path, kind: type[_T]) -> _T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError):
        return None


def _write(path: Path, content: msgspec.Struct) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_files.replace(path, msgspec.json.encode(content))
