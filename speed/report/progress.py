"""What Spark says of its micro-batches, summed up in a file for whoever measures: it is replaced after each of them."""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from infra import atomic_files
from infra.process import background
from infra.process.pulse import Heart

PART: Final = "speed"
NAME: Final = "speed.progress"
_WHOLE: Final = "triggerExecution"
"""What Spark calls the time of all phases together."""


class MicroBatches(msgspec.Struct):
    """Those of one source under one release since the process began: how many, and the seconds of each phase.

    The phases are Spark's: `latestOffset` asks where the log ends, `queryPlanning`, `walCommit` writes down what is planned,
    `addBatch` folds and commits, `commitOffsets` notes that it is done.
    """

    release: int
    source: str
    triggers: int = 0
    seconds: dict[str, float] = msgspec.field(default_factory=dict)


class Folded(NamedTuple):
    """One micro-batch: its records and its seconds."""

    release: int
    source: str
    records: int
    seconds: float


class Waiting(msgspec.Struct, frozen=True):
    """A source that is not followed for the moment, since when, and why."""

    release: int
    source: str
    since: str
    why: str


class Progress(msgspec.Struct, frozen=True):
    """Of all that a process has followed; `began` tells it from another process with its pid."""

    pid: int
    began: str
    sources: tuple[MicroBatches, ...] = ()
    waiting: tuple[Waiting, ...] = ()


def file(state: Path) -> Path:
    """Where the speed layer of a state folder leaves its progress."""
    return state / "run" / NAME


def read(state: Path) -> Progress | None:
    """The progress of the process that runs; None if none does, or it has not made any."""
    try:
        found = msgspec.json.decode(file(state).read_bytes(), type=Progress)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    return found if background.start_time(found.pid) == found.began else None


def query_name(release: int, source: str, unique: str) -> str:
    """What a query is called: by a word of its own, since Spark knows a query that has ended for a moment longer."""
    return f"{release} {source} {unique}"


@dataclass
class Recorder:
    """Sums up the progress of queries whose names are by `query_name`, and writes it to the file after each micro-batch.

    `folded` is given each of them.
    """

    state: Path
    pid: int
    folded: Callable[[Folded], object] = lambda _: None
    heart: Heart = field(init=False, repr=False)
    _sources: dict[tuple[int, str], MicroBatches] = field(default_factory=dict)
    _waiting: dict[tuple[int, str], Waiting] = field(default_factory=dict)
    _queries: dict[str, tuple[int, str]] = field(default_factory=dict)
    _began: str = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        self._began = background.start_time(self.pid)
        self.heart = Heart(self.state, PART)

    def add(self, document: str) -> None:
        """Add a micro-batch: Spark's StreamingQueryProgress in JSON. One without records is a look at the log and no more."""
        told = msgspec.json.decode(document, type=_Told)
        if told.name is None:
            return
        release, source, _ = told.name.split()
        self.heart.looked(int(release), source)
        if not told.numInputRows:
            return
        with self._lock:
            one = self._sources.setdefault((int(release), source), MicroBatches(int(release), source))
            one.triggers += 1
            for phase, milliseconds in told.durationMs.items():
                if phase != _WHOLE:
                    one.seconds[phase] = one.seconds.get(phase, 0.0) + milliseconds / 1000
            self._write()
        self.folded(Folded(one.release, source, told.numInputRows, told.durationMs.get(_WHOLE, 0) / 1000))

    def follows(self, query: str, release: int, source: str) -> None:
        """The query of this id follows the source from now on."""
        with self._lock:
            earlier = {one: of for one, of in self._queries.items() if of != (release, source)}
            self._queries = {**earlier, query: (release, source)}

    def idle(self, query: str) -> None:
        """The query of this id has looked at the log and found nothing new."""
        if known := self._queries.get(query):
            self.heart.looked(*known)

    def waits(self, waiting: Waiting) -> None:
        """A source waits from now on, or for another reason than before."""
        self.heart.waits(waiting.release, waiting.source, waiting.why)
        with self._lock:
            self._waiting[waiting.release, waiting.source] = waiting
            self._write()

    def goes_on(self, release: int, source: str) -> None:
        """A source is followed again."""
        with self._lock:
            if self._waiting.pop((release, source), None) is not None:
                self._write()

    def _write(self) -> None:
        content = msgspec.json.encode(
            Progress(self.pid, self._began, tuple(self._sources.values()), tuple(self._waiting.values()))
        )
        path = file(self.state)
        with suppress(OSError):  # a full disk is told where data is written: figures alone must not end a layer
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic_files.replace(path, content)


class _Told(msgspec.Struct):
    """What is taken of a StreamingQueryProgress."""

    name: str | None
    numInputRows: int  # noqa: N815 - Spark's names
    durationMs: dict[str, int]  # noqa: N815
