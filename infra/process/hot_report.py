"""The report of the hot tails of a state folder: `run/hot.report`, which the process that folds them replaces as it works.

Times are seconds of the machine's monotonic clock (`time.monotonic`), which all of its processes share until it restarts.
"""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Final

import msgspec

from tandem.infra.files import atomic_files
from tandem.infra.process import background

NAME: Final = "hot.report"
FRESH_S: Final = 2.0
"""Seconds after which a source that has not been reported again counts as hanging."""
_EVERY_S: Final = 0.5


class HotSource(msgspec.Struct, frozen=True):
    """The hot tail of one source of a release at the time `at`.

    Args:
        aside: why it does not follow the log, as a sentence; None while it does.
        views_aside: the views that stand aside because they are too heavy, with what each needs.
        ahead: the number of offsets that it counts and commits do not.
        compared: comparisons with commits that took its place, of one view each.
        mismatched: rows that differed in them, which must be 0. Both counts start at 0 with each process and each release.
        nbytes: about the bytes of memory that it uses.
        full: whether it stands still, for lack of memory.
    """

    release: int
    source: str
    at: float
    aside: str | None = None
    views_aside: Mapping[str, str] = {}
    ahead: int = 0
    compared: int = 0
    mismatched: int = 0
    nbytes: int = 0
    full: bool = False

    @property
    def healthy(self) -> bool:
        """Whether it follows the log with all views."""
        return self.aside is None and not self.views_aside and not self.full


class HotReport(msgspec.Struct, frozen=True):
    """What the process `pid`, which started at `began`, last reported of each source; nothing while it starts."""

    pid: int
    began: str
    sources: tuple[HotSource, ...] = ()

    def source(self, release: int, name: str) -> HotSource | None:
        """The hot tail of a source of a release, if it was reported."""
        return next((one for one in self.sources if (one.release, one.source) == (release, name)), None)


def file(state: Path) -> Path:
    """The path of the report in a state folder."""
    return state / "run" / NAME


def read(state: Path) -> HotReport | None:
    """The report of the running process; None if no process runs, or it has reported nothing yet."""
    try:
        found = msgspec.json.decode(file(state).read_bytes(), type=HotReport)
    except (OSError, msgspec.DecodeError):
        return None
    return found if background.start_time(found.pid) == found.began else None


def healthy(state: Path, release: int, source: str, *, clock: Callable[[], float] = time.monotonic) -> bool:
    """Whether the hot tail of a source of a release follows the log now, as far as this state folder shows."""
    found = read(state)
    known = None if found is None else found.source(release, source)
    return known is not None and known.healthy and 0 <= clock() - known.at <= FRESH_S


@dataclass
class HotReporter:
    """Writes the report of this process, for a thread for each source; of an unchanged status at most twice a second."""

    state: Path
    _sources: dict[tuple[int, str], HotSource] = field(default_factory=dict, init=False)
    _written: dict[tuple[int, str], tuple[float, bool]] = field(default_factory=dict, init=False)
    _began: str = field(init=False)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)

    def __post_init__(self) -> None:
        self._began = background.start_time(os.getpid())

    def start(self) -> None:
        """Report that the process runs."""
        with self._lock:
            self._write()

    def report(self, source: HotSource) -> None:
        """How a source's hot tail stands now."""
        place = source.release, source.source
        at, was_healthy = self._written.get(place, (float("-inf"), None))
        if source.at - at < _EVERY_S and was_healthy is source.healthy:
            return
        with self._lock:
            self._sources = {known: one for known, one in self._sources.items() if known[0] == source.release}
            self._sources[place] = source
            self._written[place] = source.at, source.healthy
            self._write()

    def _write(self) -> None:
        with suppress(OSError):  # a full disk is reported where data is written
            path = file(self.state)
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic_files.replace(path, msgspec.json.encode(HotReport(os.getpid(), self._began, (*self._sources.values(),))))
