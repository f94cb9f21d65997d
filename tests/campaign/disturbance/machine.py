"""Faults of the machine: a full disk, a stepped clock."""

import os
import shutil
import struct
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tandem.infra.java import java_home
from tandem.views.errors import TandemError

_LIBRARY: Final = Path(__file__).with_name("clock.c")
_STEP: Final = struct.Struct("=q")
_SIZE: Final = "6g"
_FILL_TRIES: Final = 100
_LEFT: Final = 64 << 10
"""Bytes that a full disk still has: enough for a lock or a line of a log, not for a file of data."""


class LeftOut(Exception):
    """A kind of fault that cannot be done on this machine, with the reason."""


@dataclass(frozen=True)
class Disk:
    """A file system of its own, whose size can be changed."""

    folder: Path

    @classmethod
    def mounted(cls, folder: Path) -> "Disk":
        """Mount a tmpfs; it goes with the mount namespace of this process. Raises LeftOut."""
        done = _run(["mount", "-t", "tmpfs", "-o", f"size={_SIZE},mode=0700", "tmpfs", str(folder)])
        if done.returncode:
            raise LeftOut(f"full disk: no file system can be mounted here ({done.stderr.strip()})")
        return cls(folder)

    def fill(self) -> None:
        """Leave no room but a few kilobytes. Raises OSError."""
        left = _LEFT
        for _ in range(_FILL_TRIES):
            used = shutil.disk_usage(self.folder).used
            # It never gets smaller than what is in it, and others write meanwhile: they soon fill a disk that is not much larger.
            if refused := self._resized(str(used + left)):
                left *= 2
            elif left == _LEFT:
                return
            else:
                left = _LEFT
        raise OSError(f"cannot fill {self.folder}: {refused}")

    def enlarge(self) -> None:
        """Give it room again. Raises OSError."""
        if refused := self._resized(_SIZE):
            raise OSError(f"cannot resize {self.folder} to {_SIZE}: {refused}")

    def unmount(self) -> None:
        """Have it no longer; what is in it is gone."""
        _run(["umount", "--lazy", str(self.folder)])

    def _resized(self, size: str) -> str:
        """Resize it; why that was refused, "" if it was not."""
        done = _run(["mount", "-o", f"remount,size={size}", str(self.folder)])
        return (done.stderr.strip() or f"exit code {done.returncode}") if done.returncode else ""


@dataclass(frozen=True)
class Clock:
    """The clock of every process that gets `environ`: the machine's, and a step that can be changed while they run.

    Only the date steps, as on a machine; the monotonic clock goes on. The library that does it is clock.c beside this file:
    libfaketime 0.9.10 cannot step the date alone. Java waits for ever under it unless FAKETIME_FORCE_MONOTONIC_FIX is 0, and
    then Python's `time.sleep`, a wait until a monotonic time, fails with EINVAL.
    """

    library: Path
    file: Path
    stepped: list[float]

    @classmethod
    def of(cls, folder: Path) -> "Clock":
        """A clock that is right so far. Raises LeftOut where it cannot be built, or Java does not run with it."""
        clock = cls(folder / "clock.so", folder / "clock", [])
        try:
            built = _run(["cc", "-O2", "-shared", "-fPIC", "-o", str(clock.library), str(_LIBRARY)])
        except OSError as error:
            raise LeftOut(f"steps of the clock: no C compiler `cc` ({error})") from None
        if built.returncode:
            raise LeftOut(f"steps of the clock: {_LIBRARY.name} does not compile here ({built.stderr.strip()[-300:]})")
        clock.file.write_bytes(bytes(_STEP.size))
        clock.step_to(0)
        try:
            done = _run([java_home.find(os.environ).command, "-version"], environ={**os.environ, **clock.environ})
        except (TandemError, OSError, subprocess.TimeoutExpired) as error:
            raise LeftOut(f"steps of the clock: Java does not run with {_LIBRARY.name} ({error})") from None
        if done.returncode:
            raise LeftOut(f"steps of the clock: Java does not run with {_LIBRARY.name} ({done.stderr.strip()[-300:]})")
        return clock

    @property
    def environ(self) -> dict[str, str]:
        """What a process needs to have this clock."""
        return {"LD_PRELOAD": str(self.library), "STEPPED_CLOCK": str(self.file)}

    @property
    def seconds(self) -> float:
        """How far it is ahead."""
        return self.stepped[-1]

    def step_to(self, seconds: float) -> None:
        """Be so far ahead of the machine's clock, behind if negative; every process that has this clock sees it at once."""
        with self.file.open("r+b") as file:
            file.write(_STEP.pack(int(seconds * 1e9)))
        self.stepped.append(seconds)


def private_mounts() -> list[str]:
    """The words before a command that may mount what nobody else sees; none where that is not allowed."""
    words = ["unshare", "-rm"]
    try:
        return words if _run([*words, "true"]).returncode == 0 else []
    except OSError:
        return []


def _run(
    words: list[str], *, environ: Mapping[str, str] | None = None, seconds: float = 30
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(words, env=environ, capture_output=True, text=True, check=False, timeout=seconds)
