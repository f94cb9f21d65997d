"""The code of one release, in a process of its own that starts when it is first needed, and restarts after it ended."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import msgspec
import pyarrow as pa

from tandem.serving.code.messages import OF_CHILD, Denied, Limits, Load, Read, Run, column_of, encode, pack, written
from tandem.serving.code.zygote import Nursery
from tandem.serving.ingest.trial_decode import Reading
from tandem.serving.read.outcome import ReadFailed
from tandem.serving.sandbox import frames
from tandem.serving.sandbox.bounds import MIB
from tandem.serving.sandbox.child_processes import Child, Within
from tandem.views.remote_code import Call
from tandem.views.source.source import Source

AGAIN_S: Final = 30.0
"""How long a request that ended the process is not repeated: every other caller would have to wait for each try."""
_PIECE: Final = 16 * MIB
_MOST: Final = 512 * MIB
_READING: Final = msgspec.msgpack.Decoder(Reading)


class CodeFailed(ReadFailed):
    """Project code returned nothing: it raised, took too long, or ended its process."""


@dataclass
class ReleaseCode:
    """The code of the release with these `files`; for any number of threads, of which one at a time is served."""

    release: int
    files: Mapping[str, bytes] = field(repr=False)
    nursery: Nursery = field(repr=False)
    clock: Callable[[], float] = time.monotonic
    used: float = field(default=0.0, init=False)
    _child: Child | None = field(default=None, init=False, repr=False)
    _refused: dict[str, tuple[float, str]] = field(default_factory=dict, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    @property
    def limits(self) -> Limits:
        """The limits of the process."""
        return self.nursery.limits

    def document(self) -> bytes:
        """The document of the definitions, imported by the process. Raises CodeFailed."""
        with self._only_one("definitions"):
            self._end()
            return self._started()

    def run(self, call: Call, column: pa.Array, expected: pa.DataType) -> pa.Array:
        """See tandem.views.remote_code.Run. Raises CodeFailed."""
        part = f"window: {call.part}" if call.method == "group" else f"measure {call.part!r}: {call.method}"
        what = f"view {call.view!r}, {part}"
        body = encode(Run(call))
        rows = max(1, len(column) * _PIECE // max(_PIECE, column.nbytes))
        found = []
        for start in range(0, max(1, len(column)), rows):
            piece = column.slice(start, rows)
            try:
                result = column_of(self._asked(what, body, written(piece)))
            except ReadFailed:
                raise
            except Exception as error:
                raise CodeFailed(f"{what} returned no column") from error
            if result.type != expected or len(result) != len(piece):
                raise CodeFailed(
                    f"{what} returned {len(result)} values of type {result.type}, not {len(piece)} of type {expected}"
                )
            found.append(result)
        return found[0] if len(found) == 1 else pa.concat_arrays(found)

    def read(
        self, source: Source, topic: str, values: Sequence[bytes], headers: Sequence[Mapping[str, bytes]], at: datetime
    ) -> Reading:
        """See reading.read. Raises CodeFailed."""
        what = f"source {source.name!r}: decoding"
        body = encode(Read(source.name, topic, at, [dict(one) for one in headers]))
        try:
            found = _READING.decode(self._asked(what, body, pack(list(values))))
        except msgspec.DecodeError as error:
            raise CodeFailed(f"{what} returned an unreadable result") from error
        if len(found.keys) != len(values):
            raise CodeFailed(f"{what} returned {len(found.keys)} keys for {len(values)} records")
        return found

    def idle_for(self) -> float:
        """For how many seconds the process has been idle; zero while it works, or without a process."""
        return self.clock() - self.used if self._child is not None and not self._lock.locked() else 0.0

    def end(self) -> None:
        """End the process at once, if there is one; a later request starts another."""
        child = self._child
        if child is not None:
            with suppress(OSError):
                self.nursery.kill(child)
        with self._lock:
            self._end()

    def _asked(self, what: str, body: bytes, payload: pa.Buffer | bytes) -> bytes:
        with self._only_one(what):
            if self._child is None:
                self._started()
            return self._told(what, body, memoryview(payload))

    def _started(self) -> bytes:
        self._child = self.nursery.born()
        return self._told("importing the definitions", encode(Load()), memoryview(pack(dict(self.files))))

    def _told(self, what: str, body: bytes, payload: memoryview) -> bytes:
        child, seconds = self._child, self.limits.seconds
        assert child is not None, "the request came before the process was started"
        within = Within(child.end, self.clock() + seconds, self.clock)
        try:
            within.send(body, payload=payload)
            frame = within.receive(_MOST)
            told = OF_CHILD.decode(frame.body)
        except TimeoutError:
            raise self._lost(what, f"took more than its {seconds:g} seconds") from None
        except (frames.Broken, msgspec.DecodeError):
            memory = self.limits.memory // MIB
            raise self._lost(
                what, f"ended its process, possibly because it needed more than its {memory} MiB of memory"
            ) from None
        self.used = self.clock()
        if isinstance(told, Denied):
            if body == encode(Load()):
                raise self._lost(what, "failed: " + told.sentence)
            raise CodeFailed(told.sentence)
        return frame.payload

    def _lost(self, what: str, why: str) -> CodeFailed:
        self._end()
        sentence = f"{what} {why}; the code of release {self.release} runs in its own process, which restarts"
        self._refused[what] = self.clock() + AGAIN_S, sentence
        return CodeFailed(sentence)

    def _end(self) -> None:
        if self._child is not None:
            self.nursery.buried(self._child)
            self._child = None

    def _only_one(self, what: str) -> "_Turn":
        """The process, for one thread. Raises CodeFailed if the wait would be too long, or if the same request just ended it."""
        for refused in (what, "importing the definitions"):
            until, sentence = self._refused.get(refused, (0.0, ""))
            if self.clock() < until:
                raise CodeFailed(f"{sentence}; the next try is in {until - self.clock():.0f} s")
        return _Turn(self._lock, what, self.limits.seconds)


@dataclass(frozen=True)
class _Turn:
    lock: threading.Lock
    what: str
    seconds: float

    def __enter__(self) -> None:
        if not self.lock.acquire(timeout=self.seconds):
            raise CodeFailed(f"{self.what} has waited {self.seconds:g} seconds for other code of the release; try again")

    def __exit__(self, *_: object) -> None:
        self.lock.release()
