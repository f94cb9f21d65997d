"""The load of a freshness run: events at a steady rate, as `events.py` describes them, and markers between them.

A marker is the only event of its page, so a reader that sees the page sees that the marker is counted. Markers follow each other
after random pauses, because a fixed one could keep step with a contestant's triggers.
"""

import random
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import accumulate
from types import TracebackType
from typing import Final, Self, TypeAlias

import pyarrow as pa

from tandem.bench.peers.contestant import MARKED
from tandem.bench.peers.events import DUPLICATES, LATE
from tandem.infra import kafka

_TICK_S: Final = 0.005
_LATE_S: Final = 3_600
_REMEMBERED: Final = 30_000
Event: TypeAlias = tuple[str, datetime, str, str, int, float]


@dataclass
class LiveLoad:
    """A context in which a thread sends `rate` events a second to a topic, and a marker after `mark_every_s` on average.

    `marked` is when each marker was handed to the client, in seconds since the epoch; `counted` what the truth counts.
    """

    sender: kafka.Sender
    topic: str
    pages: int
    rate: float
    mark_every_s: float
    seed: int
    sent: int = 0
    marked: dict[str, float] = field(default_factory=dict)
    _events: list[Event] = field(default_factory=list)
    _recent: list[tuple[str, bytes]] = field(default_factory=list)
    _failed: Exception | None = None

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 - a load that can be repeated
        self._weights = list(accumulate(1 / rank for rank in range(1, self.pages + 1)))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Send no more, and wait until the broker has acknowledged all. Raises what sending raised."""
        self._stop.set()
        self._thread.join()
        if self._failed:
            raise self._failed
        self.sender.finish()

    def events(self) -> pa.Table:
        """The different events that were sent, with the columns of `events.generate`; after the end."""
        columns = list(zip(*self._events, strict=True)) or [()] * 6
        types = (pa.string(), pa.timestamp("ms", "UTC"), pa.string(), pa.string(), pa.int64(), pa.float64())
        names = ("id", "at", "user", "path", "bytes", "ms")
        return pa.table([pa.array(values, kind) for values, kind in zip(columns, types, strict=True)], names=names)

    def _run(self) -> None:
        try:
            start = next_mark = time.time()
            while not self._stop.wait(_TICK_S):
                now = time.time()
                if now >= next_mark:
                    self._mark(now)
                    next_mark = now + self._random.uniform(0.5, 1.5) * self.mark_every_s
                while self.sent < int((now - start) * self.rate):
                    self._send(now)
                self.sender.poll()
        except kafka.NotSent as error:
            self._failed = error

    def _send(self, now: float) -> None:
        chance = self._random
        if self._recent and chance.random() < DUPLICATES:
            key, value = chance.choice(self._recent)
            self.sender.send(self.topic, value, key.encode())
            self.sent += 1
            return
        (rank,) = chance.choices(range(self.pages), cum_weights=self._weights)
        back = chance.uniform(0, _LATE_S) if chance.random() < LATE else 0.0
        path, ms = f"/p/{rank}", round(chance.gammavariate(2.0, 30.0), 1)
        self._emit((f"e{self.sent}", _at(now - back), f"u{chance.randrange(50_000)}", path, chance.randrange(100, 60_000), ms))

    def _mark(self, now: float) -> None:
        path = f"{MARKED}{len(self.marked)}"
        self.marked[path] = time.time()
        self._emit((f"marker-{len(self.marked)}", _at(now), "marker", path, 1, 1.0))

    def _emit(self, event: Event) -> None:
        name, at, user, path, size, ms = event
        time_text = f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"
        value = f'{{"id":"{name}","at":"{time_text}","user":"{user}","path":"{path}","bytes":{size},"ms":{ms}}}'.encode()
        self.sender.send(self.topic, value, path.encode())
        self.sent += 1
        self._events.append(event)
        if path.startswith(MARKED):
            return
        if len(self._recent) < _REMEMBERED:
            self._recent.append((path, value))
        else:
            self._recent[self.sent % _REMEMBERED] = (path, value)


def _at(seconds: float) -> datetime:
    """A time in whole milliseconds, as the events have it."""
    return datetime.fromtimestamp(int(seconds * 1000) / 1000, UTC)
