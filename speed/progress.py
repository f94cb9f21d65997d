"""Spark's progress of micro-batches, summed up in a file for metrics, which is replaced after each micro-batch."""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from tandem.infra.files import atomic_files
from tandem.infra.process import background
from tandem.infra.process.pulse import Heart

PART: Final = "speed"
NAME: Final = "speed.progress"
_WHOLE: Final = "triggerExecution"
"""Spark's name for the time of all phases together."""


class MicroBatches(msgspec.Struct):
    """The micro-batches of one source under one release since the process began: their number, and the seconds of each phase.

    The phases are Spark's: `latestOffset` polls the log's end, `queryPlanning` plans, `walCommit` writes the plan to the
    checkpoint, `addBatch` folds and commits, `commitOffsets` records that the micro-batch is done.
    """

    release: int
    source: str
    triggers: int = 0
    seconds: dict[str, float] = msgspec.field(default_factory=dict)


class MicroBatchSeconds(NamedTuple):
    """One micro-batch: its records and its seconds."""

    release: int
    source: str
    records: int
    seconds: float


class WaitingSource(msgspec.Struct, frozen=True):
    """A source that waits: since when, and why."""

    release: int
    source: str
    since: str
    why: str


class Progress(msgspec.Struct, frozen=True):
    """The progress of a process; `began` distinguishes it from another process with the same pid."""

    pid: int
    began: str
    sources: tuple[MicroBatches, ...] = ()
    waiting: tuple[WaitingSource, ...] = ()


def file(state: Path) -> Path:
    """The path of the speed layer's progress in a state folder."""
    return state / "run" / NAME


def read(state: Path) -> Progress | None:
    """The progress of the running process; None if none runs, or it has no progress yet."""
    try:
        found = msgspec.json.decode(file(state).read_bytes(), type=Progress)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    return found if background.start_time(found.pid) == found.began else None


def query_name(release: int, source: str, unique: str) -> str:
    """A query's name, with a unique word, because Spark still knows a query for a moment after it has ended."""
    return f"{release} {source} {unique}"


@dataclass
class ProgressRecorder:
    """Sums up the progress of queries named by `query_name`, and writes it to the file after each micro-batch.

    `folded` is called with each micro-batch.
    """

    state: Path
    pid: int
    folded: Callable[[MicroBatchSeconds], object] = lambda _: None
    heart: Heart = field(init=False, repr=False)
    _sources: dict[tuple[int, str], MicroBatches] = field(default_factory=dict)
    _waiting: dict[tuple[int, str], WaitingSource] = field(default_factory=dict)
    _queries: dict[str, tuple[int, str]] = field(default_factory=dict)
    _began: str = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        self._began = background.start_time(self.pid)
        self.heart = Heart(self.state, PART)

    def add(self, document: str) -> None:
        """Add a micro-batch: Spark's StreamingQueryProgress in JSON. Without records it only polled the log."""
        told = msgspec.json.decode(document, type=_Told)
        if told.name is None:
            return
        release, source, _ = told.name.split()
        self._record_look(int(release), source)
        if not told.numInputRows:
            return
        with self._lock:
            one = self._sources.setdefault((int(release), source), MicroBatches(int(release), source))
            one.triggers += 1
            for phase, milliseconds in told.durationMs.items():
                if phase != _WHOLE:
                    one.seconds[phase] = one.seconds.get(phase, 0.0) + milliseconds / 1000
            self._write()
        self.folded(MicroBatchSeconds(one.release, source, told.numInputRows, told.durationMs.get(_WHOLE, 0) / 1000))

    def follows(self, query: str, release: int, source: str) -> None:
        """Record that the query with this id follows the source now."""
        with self._lock:
            earlier = {one: of for one, of in self._queries.items() if of != (release, source)}
            self._queries = {**earlier, query: (release, source)}

    def idle(self, query: str) -> None:
        """Record that the query with this id polled the log and found no new records."""
        if known := self._queries.get(query):
            self._record_look(*known)

    def waits(self, waiting: WaitingSource) -> None:
        """Record that a source waits, or still waits: then for this reason, since the time that is recorded."""
        self.heart.waits(waiting.release, waiting.source, waiting.why)
        with self._lock:
            earlier = self._waiting.get((waiting.release, waiting.source), waiting)
            self._waiting[waiting.release, waiting.source] = msgspec.structs.replace(waiting, since=earlier.since)
            self._write()

    def _record_look(self, release: int, source: str) -> None:
        self.heart.looked(release, source)
        self.goes_on(release, source)

    def goes_on(self, release: int, source: str) -> None:
        """Record that a source is followed again."""
        with self._lock:
            if self._waiting.pop((release, source), None) is not None:
                self._write()

    def _write(self) -> None:
        content = msgspec.json.encode(
            Progress(self.pid, self._began, tuple(self._sources.values()), tuple(self._waiting.values()))
        )
        path = file(self.state)
        # A full disk is reported where data is written; a failure to write metrics must not end the layer.
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic_files.replace(path, content)


class _Told(msgspec.Struct):
    """The fields that are read of a StreamingQueryProgress."""

    name: str | None
    numInputRows: int  # noqa: N815 - Spark's names
    durationMs: dict[str, int]  # noqa: N815
