"""A contestant as processes, and the wait until its view is right."""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tandem.bench.commands import environ
from tandem.bench.peers.contestant import Contestant, ContestantCommand, ContestantOutput, Setting, ready_line
from tandem.bench.peers.events import Answers, differing
from tandem.bench.process_tree import stop

_POLL_S: Final = 0.25
_QUIET_S: Final = 3.0
_LONGEST_QUIET_S: Final = 15.0


class NotRight(Exception):
    """A contestant did not answer rightly in time. `differ` rows differ, None if its view was not read."""

    def __init__(self, why: str, differ: int | None = None) -> None:
        super().__init__(why)
        self.differ = differ


@dataclass(frozen=True)
class Running:
    """A contestant's process, its log, and when it was started, in seconds since the epoch."""

    process: "subprocess.Popen[bytes]"
    log: Path
    began: float

    def ready_at(self, contestant: Contestant, setting: Setting) -> float | None:
        """When it began to read the topic, in seconds since the epoch; None before."""
        return contestant.ready(setting) if contestant.ready else ready_line(self.log)


@contextmanager
def running(contestant: Contestant, setting: Setting) -> Iterator[Running]:
    """A contestant in the folder of a run; at the end its process and all below it are killed."""
    setting.folder.mkdir(parents=True)
    with started(contestant.command(setting), setting.folder, "log") as process:
        yield Running(process, setting.folder / "log", time.time())


@contextmanager
def started(
    command: ContestantCommand, folder: Path, log: str, *, output: int | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """A process in a session of its own, with what it prints in a file, or its standard output as `output` says."""
    with (folder / log).open("wb") as sink:
        process = subprocess.Popen(
            command.words,
            stdin=subprocess.PIPE if output else subprocess.DEVNULL,
            stdout=output or sink,
            stderr=sink,
            cwd=folder,
            env=environ(dict(command.environ)),
            start_new_session=True,
        )
    try:
        yield process
    finally:
        stop(process)


def until_right(output: ContestantOutput, truth: Answers, run: Running, deadline: float) -> float:
    """Wait until the view equals the truth; returns the time of its last publication. `deadline` is in seconds since the epoch.

    Raises NotRight.
    """
    quiet, differ = Quiet(output.version, time.time()), None
    while _settled(quiet, run.process, deadline):
        found, last = output.read()
        differ = differing(truth, found)
        if not differ:
            return last
    if (code := run.process.poll()) is not None:
        raise NotRight(f"it ended with exit code {code}; its log is {run.log}", differ)
    raise NotRight(f"not right in time; its log is {run.log}", differ)


class Quiet:
    """Notices that a contestant has published nothing for a while: at least 3 s, and twice as long as it ever took before, but at
    most 15 s. Its view is read only then, so that reading burdens no contestant that still works.
    """

    def __init__(self, version: Callable[[], object], now: float) -> None:
        self._version = version
        self._last: object = None
        self._since = now
        self._longest = 0.0
        self._read = True

    def reached(self, now: float) -> bool:
        """Whether the view may be read; true once until something is published again."""
        if (version := self._version()) is None:
            return False
        if version != self._last:
            if self._last is not None:
                self._longest = max(self._longest, now - self._since)
            self._last, self._since, self._read = version, now, False
        elif not self._read and now - self._since > min(max(_QUIET_S, 2 * self._longest), _LONGEST_QUIET_S):
            self._read = True
            return True
        return False


def _settled(quiet: Quiet, process: "subprocess.Popen[bytes]", deadline: float) -> bool:
    """Wait until the view may be read; false if the process ended or time is up."""
    while time.time() < deadline and process.poll() is None:
        if quiet.reached(time.time()):
            return True
        with suppress(subprocess.TimeoutExpired):
            process.wait(_POLL_S)
    return False
