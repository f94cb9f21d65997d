"""Applies, promotes and rolls back a new release while events arrive and queries run, and measures the effect on readers.

Events are numbered and of one partition, so the position of an answer determines its value, under both definitions.
"""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import Final

import numpy as np

from tandem.bench.commands import Place, running, until_ended
from tandem.infra import kafka
from tandem.infra.settings import Kafka, Settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.positions import Position
from tandem.ledger.publish import promotion
from tandem.serving import Connection
from tandem.serving.memory.store import Store
from tandem.serving.read.reader import Reader
from tandem.views.errors import TandemError

TOPIC: Final = "evolve"
SOURCE: Final = "numbers"
_START: Final = datetime(2026, 11, 1, tzinfo=UTC)
_TICK_S: Final = 0.01
_LIMIT_S: Final = 600.0
_MEMORY: Final = 1 << 30
_DAYS: Final = 7

OLD: Final = f"""
from datetime import datetime
from tandem import Event, Source, View, count, approx_count_distinct, approx_quantiles, total, tumbling

class Number(Event):
    n: int
    at: datetime

{SOURCE} = Source(topic="{TOPIC}", event=Number, event_time="at", identity=("n",))
sums = View(source={SOURCE}, where="n % 2 = 0", keys={{"rest": "n % 5"}}, window=tumbling(minutes=1),
            measures={{"events": count(), "sum": total("n"), "different": approx_count_distinct("n"),
                       "spread": approx_quantiles("n", (0.5, 0.99))}})
SOURCES = ({SOURCE},)
VIEWS = (sums,)
"""
NEW: Final = OLD.replace("n % 2 = 0", "n % 3 = 0")
_EVERY: Final = {1: 2, 2: 3}
"""By release: it counts every so-manieth number."""


@dataclass(frozen=True)
class Scale:
    """The number of events before the change, the events per second, and the minimum number of queries."""

    events: int
    rate: int
    queries: int


FULL: Final = Scale(events=1_000_000, rate=2_000, queries=10_000)
QUICK: Final = Scale(events=200_000, rate=2_000, queries=2_000)


@dataclass(frozen=True)
class Served:
    """The results: the number of queries in each phase, their 99th percentile, the errors, and the duration of each step."""

    queries: dict[str, int]
    p99_s: dict[str, float]
    wrong: list[str]
    apply_s: float
    promote_s: float
    rollback_s: float

    @property
    def ratio(self) -> float:
        """The 99th percentile while a release was built, divided by that before."""
        return self.p99_s["apply"] / self.p99_s["before"]


def measure(place: Place, scale: Scale, say: Callable[[str], None]) -> Served:
    """Build a history, then apply, promote and roll back under load. Raises TandemError."""
    state = place.folder / "applying"
    kafka.create(place.connection, [TOPIC], Settings(kafka=Kafka(partitions=1)))
    sender = _Sender(place)
    say(f"sending {scale.events} events")
    sender.send(scale.events)
    tables = Tables.of(Settings(state=str(state / "tandem")))
    with running(place, state, OLD, "speed") as speed:
        _until(lambda: _answered(tables) >= scale.events, speed, "answered all events")
        for command in ("archive", "recompute"):
            say(command)
            with running(place, state, OLD, command) as process:
                until_ended(process, _LIMIT_S, state)
        with _flow(sender, scale.rate), _asking(tables) as asked:
            _until(lambda: asked.count("before") >= scale.queries // 4, speed, "asked before")
            say("applying a changed filter")
            asked.phase = "apply"
            apply_s = _took(lambda: _apply(place, state))
            asked.phase = "between"
            promote_s = _took(lambda: _promote(tables, scale))
            _until(lambda: asked.release == 2, speed, "followed the promotion")
            asked.phase = "promoted"
            _until(lambda: asked.count("promoted") >= scale.queries // 4, speed, "asked after the promotion")
            rollback_s = _took(lambda: _roll_back(tables))
            asked.phase = "between"
            _until(lambda: asked.release == 1, speed, "followed the rollback")
            asked.phase = "rolled back"
            _until(
                lambda: asked.total >= scale.queries and asked.count("rolled back") >= scale.queries // 4, speed, "asked at last"
            )
        end = sender.sent
        _until(lambda: _answered(tables) >= end, speed, "answered all that was sent")
    seconds = {phase: times for phase, times in asked.seconds.items() if phase != "between"}
    return Served(
        {phase: len(times) for phase, times in seconds.items()},
        {phase: float(np.quantile(times, 0.99)) for phase, times in seconds.items()},
        asked.wrong,
        apply_s,
        promote_s,
        rollback_s,
    )


def _apply(place: Place, state: Path) -> None:
    with running(place, state, NEW, "apply") as process:
        until_ended(process, _LIMIT_S, state)
    if json.loads((state / "apply.out").read_text())["release"] != 2:
        raise TandemError(f"apply made no release 2; its output is in {state}")


def _promote(tables: Tables, scale: Scale) -> None:
    promotion.promote(tables, None, days=_DAYS, max_lag=10 * scale.rate, by="bench", at=datetime.now(UTC))


def _roll_back(tables: Tables) -> None:
    promotion.rollback(tables, None, days=_DAYS, keep=2, since=(at := datetime.now(UTC)), by="bench", at=at)


@dataclass
class _Sender:
    """Sends the next numbers."""

    place: Place
    sent: int = 0
    _sender: kafka.Sender = field(init=False)

    def __post_init__(self) -> None:
        self._sender = kafka.Sender(self.place.connection.address)

    def send(self, events: int) -> None:
        """Send this many events, and wait until they are in the log."""
        for n in range(self.sent, self.sent + events):
            at = _START + timedelta(milliseconds=10 * n)
            self._sender.send(TOPIC, f'{{"n":{n},"at":"{at.isoformat()}"}}'.encode())
        self._sender.finish()
        self.sent += events


@contextmanager
def _flow(sender: _Sender, rate: int) -> Iterator[None]:
    """Send this many events per second until the block ends."""
    over, begun, before = Event(), time.monotonic(), sender.sent

    def flow() -> None:
        while not over.wait(_TICK_S):
            sender.send(int((time.monotonic() - begun) * rate) - (sender.sent - before))

    thread = Thread(target=flow, name="flow")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@dataclass
class _Asked:
    """Queries one after another: seconds by phase, the release that answered last, and the errors."""

    connection: Connection
    phase: str = "before"
    release: int = 1
    position: Position = field(default_factory=Position)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        """The number of queries."""
        return sum(map(len, self.seconds.values()))

    def count(self, phase: str) -> int:
        """The number of queries in a phase."""
        return len(self.seconds.get(phase, ()))

    def ask(self) -> None:
        """One query: the newest answer of the whole view, which must equal the expected one at its position."""
        phase, begun = self.phase, time.perf_counter()
        try:
            self.connection.refresh()
            snapshot = self.connection.snapshot()
            answer = snapshot.view("sums").scan()
        except TandemError as error:
            self.wrong.append(f"{phase}: {error}")
            return
        self.seconds.setdefault(phase, []).append(time.perf_counter() - begun)
        known = snapshot.pinned.snapshot
        self.release, position = known.publication.release, known.positions[SOURCE]
        upto = sum(offset for _, offset in position.offsets)
        every = _EVERY[self.release]
        last = (upto - 1) // every
        found = sum(row["events"] for row in answer.rows()), sum(row["sum"] for row in answer.rows())
        if found != (last + 1, every * last * (last + 1) // 2):
            self.wrong.append(f"{phase}: {found} of {upto} events under release {self.release}")
        if not self.position.at_or_below(position):
            self.wrong.append(f"{phase}: {position} after {self.position}")
        self.position = position


@contextmanager
def _asking(tables: Tables) -> Iterator[_Asked]:
    asked, over = _Asked(Connection(Store(tables, seed=1, memory=_MEMORY))), Event()

    def ask() -> None:
        while not over.is_set():
            asked.ask()

    thread = Thread(target=ask, name="asking")
    thread.start()
    try:
        yield asked
    finally:
        over.set()
        thread.join()


def _answered(tables: Tables) -> int:
    """The number of the last event that answers count."""
    reader = Reader(tables)
    reader.refresh()
    try:
        return sum(offset for _, offset in reader.snapshot().positions[SOURCE].offsets)
    except TandemError:
        return 0


def _took(step: Callable[[], object]) -> float:
    begun = time.monotonic()
    step()
    return time.monotonic() - begun


def _until(done: Callable[[], bool], speed: subprocess.Popen[bytes], what: str) -> None:
    deadline = time.monotonic() + _LIMIT_S
    for _ in count():
        if done():
            return
        if speed.poll() is not None:
            raise TandemError(f"the speed layer ended with exit code {speed.returncode} before readers were {what}")
        if time.monotonic() > deadline:
            raise TandemError(f"not {what} within {_LIMIT_S:.0f} s")
        time.sleep(0.05)
