"""The report of a sink: `run/sinks/NAME.report` in the state folder, which the process that runs the sink replaces as it works.

Whoever writes it holds the sink's lock. It stays when the process ends, so that it still says up to where the target is the view.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import Final

import msgspec

from tandem.infra.files import atomic_files
from tandem.infra.process import background

_ENDING: Final = ".report"
_EVERY: Final = timedelta(seconds=1)


class TargetToken(msgspec.Struct, frozen=True):
    """The token of a target, and what it names: the batch view of a release, and the position up to which it counts the log."""

    text: str
    release: int
    fingerprint: str
    version: int
    end: Mapping[str, Mapping[str, int]]


class SinkReport(msgspec.Struct, frozen=True):
    """What the process `pid`, which started at `began`, last reported of a sink.

    Args:
        token: the token of the newest step; None before the first one.
        at: the time of the newest step.
        equal: when the target was last seen to be the view.
        steps: since the process began, as are `rows` written, `gone` rows, `comparisons` of all rows, and `errors`.
        root: of a rollup the name of the view whose states it unites.
        failures: errors in a row; 0 once it has written.
        error: the newest error, also of an earlier process.
    """

    sink: str
    view: str
    source: str
    pid: int
    began: str
    token: TargetToken | None = None
    at: datetime | None = None
    equal: datetime | None = None
    steps: int = 0
    rows: int = 0
    gone: int = 0
    comparisons: int = 0
    errors: int = 0
    failures: int = 0
    error: str | None = None
    failed: datetime | None = None
    root: str = ""

    @property
    def lives(self) -> bool:
        """Whether its process still exists."""
        return background.start_time(self.pid) == self.began


def folder(state: Path) -> Path:
    """The folder of reports and locks of sinks."""
    return state / "run" / "sinks"


def reports(state: Path) -> list[SinkReport]:
    """The reports of all sinks that have run in a state folder, by name."""
    every = (_decode(path) for path in sorted(folder(state).glob(f"*{_ENDING}")))
    return [report for report in every if report is not None]


def forget_others(state: Path, sinks: frozenset[str]) -> None:
    """Delete the reports of sinks that the project does not have."""
    for path in folder(state).glob(f"*{_ENDING}"):
        if path.stem not in sinks:
            path.unlink(missing_ok=True)


def _decode(path: Path) -> SinkReport | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=SinkReport)
    except (OSError, msgspec.DecodeError):
        return None


@dataclass
class SinkReporter:
    """Writes the report of one sink for this process, which holds the sink's lock; any thread may call it."""

    state: Path
    sink: str
    view: str
    source: str
    now: Callable[[], datetime]
    root: str = ""
    report: SinkReport = field(init=False)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)

    def __post_init__(self) -> None:
        began, before = background.start_time(os.getpid()), _decode(self._path)
        self.report = SinkReport(self.sink, self.view, self.source, os.getpid(), began, root=self.root)
        if before is not None and (before.pid, before.began) == (os.getpid(), began):
            self.report = msgspec.structs.replace(before, view=self.view, source=self.source, root=self.root)
        elif before is not None:
            kept = {name: getattr(before, name) for name in ("token", "at", "equal", "error", "failed")}
            self.report = msgspec.structs.replace(self.report, **kept)
        self._write()

    def add_step(self, token: TargetToken, *, rows: int, gone: int, compared: bool) -> None:
        """The target has taken a step, and is the view at this token."""
        with self._lock:
            last = self.report
            self.report = msgspec.structs.replace(
                last,
                token=token,
                at=self.now(),
                steps=last.steps + 1,
                rows=last.rows + rows,
                gone=last.gone + gone,
                comparisons=last.comparisons + compared,
                failures=0,
            )
            self._write()

    def add_failure(self, why: str) -> None:
        """An attempt has ended with an error."""
        with self._lock:
            last = self.report
            self.report = msgspec.structs.replace(
                last, errors=last.errors + 1, failures=last.failures + 1, error=why, failed=self.now()
            )
            self._write()

    def equal(self) -> None:
        """The target is the view now; written at most once a second."""
        with self._lock:
            now = self.now()
            if self.report.equal is None or now - self.report.equal >= _EVERY:
                self.report = msgspec.structs.replace(self.report, equal=now)
                self._write()

    @property
    def _path(self) -> Path:
        return folder(self.state) / f"{self.sink}{_ENDING}"

    def _write(self) -> None:
        with suppress(OSError):  # a full disk is reported where data is written
            self._path.parent.mkdir(parents=True, exist_ok=True)
            atomic_files.replace(self._path, msgspec.json.encode(self.report))
