"""The load: ordinary events at a steady rate or all at once, and markers between them; every event counted in a truth.

The truth is the example's own, added up in plain Python: what every system's answers are compared with at the end of its run.
"""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from confluent_kafka import KafkaError, Message, Producer

from bench.stock.marker import marker
from examples.web.generator import Request, Truth

PARTITIONS = 2
TICK = 0.005
Sample = tuple[bytes | None, bytes, Request]


@dataclass
class Load:
    """Sends to one topic. Not for several threads at once: `steady` has the thread while it runs."""

    producer: Producer
    topic: str
    samples: Iterator[Sample]
    clock: Callable[[], float] = time.time
    truth: Truth = field(default_factory=Truth)
    sent: int = 0
    failed: list[str] = field(default_factory=list)
    marked: dict[int, float] = field(default_factory=dict)

    def send(self, sample: Sample, *, counted: bool = False) -> None:
        """Send one event; `counted` says that the truth has it already."""
        key, value, facts = sample
        self._produce(value, key=key)
        if not counted:
            self.truth.add(facts)

    def mark(self, at: datetime) -> int:
        """Send one marker, note when, and return its number; partitions take turns."""
        number = len(self.marked)
        value, facts = marker(number, at)
        self.truth.add(facts)
        self.marked[number] = self.clock()
        self._produce(value, partition=number % PARTITIONS)
        return number

    def flush(self) -> None:
        """Wait until the broker has all of it; raises RuntimeError if it refused any."""
        left = self.producer.flush(60)
        if left or self.failed:
            raise RuntimeError(f"{left} events not delivered in 60 s, {len(self.failed)} refused {self.failed[:1]}")

    def _produce(self, value: bytes, **where: bytes | int | None) -> None:
        while True:
            try:
                self.producer.produce(self.topic, value, on_delivery=self._delivered, **where)
                break
            except BufferError:
                self.producer.poll(0.05)
        self.sent += 1

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self.failed.append(str(error))


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
            load.producer.poll(0)
            self._stop.wait(TICK)
