"""The load: ordinary events at a steady rate or all at once, and markers between them; every event counted in a truth.

The truth is the example's own, added up in plain Python: what every system's answers are compared with at the end of its run.
"""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from bench.stock.marker import marker
from examples.web.generator import Request, Truth
from infra import kafka

PARTITIONS = 2
TICK = 0.005
Sample = tuple[bytes | None, bytes, Request]


@dataclass
class Load:
    """Sends to one topic. Not for several threads at once: `steady` has the thread while it runs."""

    sender: kafka.Sender
    topic: str
    samples: Iterator[Sample]
    clock: Callable[[], float] = time.time
    truth: Truth = field(default_factory=Truth)
    sent: int = 0
    marked: dict[int, float] = field(default_factory=dict)

    def send(self, sample: Sample, *, counted: bool = False) -> None:
        """Send one event; `counted` says that the truth has it already."""
        key, value, facts = sample
        self.sender.send(self.topic, value, key)
        self.sent += 1
        if not counted:
            self.truth.add(facts)

    def mark(self, at: datetime) -> int:
        """Send one marker, note when, and return its number; partitions take turns."""
        number = len(self.marked)
        value, facts = marker(number, at)
        self.truth.add(facts)
        self.marked[number] = self.clock()
        self.sender.send_as(self.topic, number % PARTITIONS, kafka.Record(int(self.marked[number] * 1000), None, value))
        self.sent += 1
        return number

    def flush(self) -> None:
        """Wait until the broker has all of it; raises NotSent if it refused any."""
        self.sender.finish()


def burst(load: Load, samples: list[Sample], at: datetime) -> tuple[int, ...]:
    """Send all samples, which the truth has already, as fast as the broker takes them, then a marker to each partition."""
    for sample in samples:
        load.send(sample, counted=True)
    markers = tuple(load.mark(at) for _ in range(PARTITIONS))
    load.flush()
    return markers


class Steady:
    """A context in which a load is sent at `rate` events a second by a thread of its own, with a marker every so often."""

    def __init__(self, load: Load, rate: float, *, every: float, at: datetime) -> None:
        self._load = load
        self._rate = rate
        self._every = every
        self._at = at
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load")

    def __enter__(self) -> Load:
        self._thread.start()
        return self._load

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._load.flush()

    def _run(self) -> None:
        load = self._load
        start = load.clock()
        before = load.sent
        next_mark = start
        while not self._stop.is_set():
            now = load.clock()
            if now >= next_mark:
                load.mark(self._at)
                next_mark = now + self._every
            due = before + int((now - start) * self._rate)
            while load.sent < due:
                load.send(next(load.samples))
            load.sender.poll()
            self._stop.wait(TICK)
