"""The reports of the hot tails of a state folder, which each process that folds some replaces as it works: one for the server's
answers, `run/hot.report`, and one for sinks, `run/hot-sinks.report`.

Times are seconds of the machine's monotonic clock (`time.monotonic`), which all of its processes share until it restarts.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock
from typing import Any, Final, Literal, get_args

import msgspec

from tandem.infra.files import atomic_files
from tandem.infra.process import background
from tandem.infra.settings import Settings

HotReader = Literal["server", "sinks"]
"""Who reads the hot commits of a process."""
READERS: Final[tuple[HotReader, ...]] = get_args(HotReader)
_NAMES: Final[Mapping[HotReader, str]] = {"server": "hot.report", "sinks": "hot-sinks.report"}
FRESH_S: Final = 2.0
"""Seconds after which a source that has not been reported again counts as hanging."""
_EVERY_S: Final = 0.5
_LOOK_S: Final = 0.1
_SILENT_S: Final = 10.0
"""Seconds without a report after which a hot tail counts as standing aside; while it loads identities it reports nothing."""
_UNREPORTED: Final = (
    "its process has not reported on this source yet: it loads identities, or cannot read the live release (see the server's log)"
)
_NOT_RUNNING: Final = "no process of hot tails runs on this machine; `tandem serve` starts one"


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


def file(state: Path, reader: HotReader = "server") -> Path:
    """The path of a report in a state folder."""
    return state / "run" / _NAMES[reader]


def read(state: Path) -> list[HotReport]:
    """The reports of the running processes; of those that have reported nothing yet there are none."""
    reports = []
    for reader in READERS:
        with suppress(OSError, msgspec.DecodeError):
            report = msgspec.json.decode(file(state, reader).read_bytes(), type=HotReport)
            if background.start_time(report.pid) == report.began:
                reports.append(report)
    return reports


def healthy(state: Path, release: int, source: str, *, clock: Callable[[], float] = time.monotonic) -> bool:
    """Whether each hot tail of a source of a release follows the log now, and there is one, as far as this state folder shows."""
    tails = [report.source(release, source) for report in read(state)]
    return bool(tails) and all(tail is not None and tail.healthy and 0 <= clock() - tail.at <= FRESH_S for tail in tails)


def pause(longest_s: float, *, healthy: Callable[[], bool], ended: Event, clock: Callable[[], float] = time.monotonic) -> None:
    """Wait after a commit, at most this many seconds: only as long as the hot tail is healthy, and until `ended` is set.

    Micro-batches are then rarer while a hot tail answers before they commit: each costs a Spark job and a commit, however small
    it is.
    """
    until = clock() + longest_s
    while (left := until - clock()) > 0 and healthy():
        if ended.wait(min(left, _LOOK_S)):
            return


@dataclass
class HotReporter:
    """Writes the report of this process, for a thread for each source; of an unchanged status at most twice a second."""

    state: Path
    reader: HotReader = "server"
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
            path = file(self.state, self.reader)
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic_files.replace(path, msgspec.json.encode(HotReport(os.getpid(), self._began, (*self._sources.values(),))))


@dataclass(frozen=True)
class HotTailState:
    """How the hot tail of one source stands.

    Args:
        aside: why answers are those of commits; None while it follows the log.
        views_aside: the views whose answers are those of commits because they are too heavy, with what each needs.
        ahead: the number of offsets that it counts beyond the commits, as of its report.
        compared: comparisons with commits that took its place, of one view each.
        mismatched: rows that differed in them, which must be 0.
        bytes: about the bytes of memory that it uses.
    """

    aside: str | None
    views_aside: Mapping[str, str] = field(default_factory=dict, hash=False)
    ahead: int = 0
    compared: int = 0
    mismatched: int = 0
    bytes: int = 0

    def to_json(self) -> dict[str, Any]:
        """As a JSON document."""
        return dict(vars(self))

    def problems(self, source: str) -> list[str]:
        """What a person has to know of it, as sentences."""
        found = [] if self.aside is None else [f"{source}: the hot tail stands aside: {self.aside}"]
        found += [
            f"{source}: view '{view}' stands aside from the hot tail: {why}; its answers are those of commits"
            for view, why in self.views_aside.items()
        ]
        if self.mismatched:
            found.append(
                f"{source}: {self.mismatched} rows of the hot tail differed from the commits that followed; set "
                'serving.hot to "off" and report this as a defect'
            )
        return found


def hot_tails(
    settings: Settings, release: int | None, sources: Iterable[str], *, clock: Callable[[], float] = time.monotonic
) -> dict[str, HotTailState | None]:
    """The hot tail of each source of the live release; None if no process runs, unless `serving.hot` is on.

    Of two processes that follow a source it is the first one with a problem, else the server's.
    """
    reports = read(settings.folder)
    if not reports:
        return dict.fromkeys(sources, HotTailState(_NOT_RUNNING) if settings.serving.hot == "on" else None)
    now = clock()

    def state(name: str) -> HotTailState:
        states = [_state(None if release is None else report.source(release, name), now) for report in reports]
        return next((each for each in states if each.problems(name)), states[0])

    return {name: state(name) for name in sources}


def _state(known: HotSource | None, now: float) -> HotTailState:
    if known is None:
        return HotTailState(_UNREPORTED)
    why, silent = known.aside, now - known.at
    if why is None and not 0 <= silent <= _SILENT_S:
        why = f"its process has not reported for {silent:.0f} s"
    if why is None and known.full:
        why = "it has reached serving.hot_mb and waits for the next commit"
    return HotTailState(why, known.views_aside, known.ahead, known.compared, known.mismatched, known.nbytes)
