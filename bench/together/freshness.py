"""Freshness: the time from appending the events of a new advertisement until the answer has its row, at a steady rate.

A marker is an advertisement of its own: a bid of its own price, a sight and a click a millisecond later. It is seen once its row
has the right measures.
"""

import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import accumulate
from subprocess import Popen, TimeoutExpired
from types import TracebackType
from typing import Final, Self

from tandem.bench.peers.rounds import Arena, empty
from tandem.bench.peers.running import started
from tandem.bench.process_tree import Sampler
from tandem.bench.together.questions import TogetherQuestion
from tandem.bench.together.streams import ACTS, BIDS, CLICKS, LATE, SEEN
from tandem.bench.together.systems import Look, System
from tandem.infra import kafka
from tandem.views.errors import TandemError

_MARK_EVERY_S: Final = 0.2
_FIRST_S: Final = 120.0
"""The most seconds until a first marker is seen, the start included."""
_OVERDUE_S: Final = 45.0
_LOOK_S: Final = 0.01
_LATE_S: Final = 1_800
_CLICKED: Final = 0.25
_BID: Final = 0.05


@dataclass(frozen=True)
class LiveAds:
    """A load: advertisements seen a second, of how many, with the seconds of warm-up and window."""

    rate: float
    ads: int
    warm_up_s: float
    window_s: float


@dataclass(frozen=True)
class FreshAnswers:
    """The delays in seconds of the markers in the window; `overdue` were never seen with the right measures.

    `cpu` is the CPU seconds of the system's processes for each second of the window.
    """

    system: str
    question: str
    delays: Sequence[float] = ()
    overdue: int = 0
    cpu: float | None = None
    problem: str = ""


def measure_freshness(arena: Arena, load: LiveAds, question: TogetherQuestion, system: System) -> FreshAnswers:
    """How fresh the answers of a system are, on topics of its own."""
    question = replace(question, suffix=f"_live_{question.name}_{system.name}")
    setting = arena.setting(f"{question.name}-{system.name}", question.topics[0], fresh=True, number=0)
    setting.folder.mkdir(parents=True)
    for topic in question.topics:
        empty(arena.connection, topic + question.suffix)
    run = FreshAnswers(system.name, question.name)
    try:
        with (
            kafka.Sender(arena.connection.address) as sender,
            started(system.command(setting, question), setting.folder, "log") as process,
            _Sending(sender, question, load) as sending,
            Sampler(lambda: [process.pid], memory=False) as used,
        ):
            reading = _MarkersSeen(system.follow(setting, question), sending)
            reading.until(lambda: bool(reading.at), process, _FIRST_S)
            start = time.time() + load.warm_up_s
            end = start + load.window_s
            reading.until(lambda: time.time() >= end, process, load.warm_up_s + load.window_s + 1)
            awaited = [ad for ad, at in list(sending.marked.items()) if start <= at < end]
            with suppress(TandemError):
                reading.until(lambda: all(ad in reading.at for ad in awaited), process, _OVERDUE_S)
    except TandemError as error:
        return replace(run, problem=f"{error}; its log is {setting.folder / 'log'}")
    return replace(
        run,
        delays=[reading.at[ad] - sending.marked[ad] for ad in awaited if ad in reading.at],
        overdue=sum(ad not in reading.at for ad in awaited),
        cpu=(used.cpu_at(end) - used.cpu_at(start)) / load.window_s,
    )


@dataclass
class _Sending:
    """A context in which a thread sends the load and the markers. `marked` is when each was sent, `rows` its right measures."""

    sender: kafka.Sender
    question: TogetherQuestion
    load: LiveAds
    marked: dict[str, float] = field(default_factory=dict)
    rows: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = random.Random(7)  # noqa: S311  a load that can be repeated
        self._weights = list(accumulate(1 / rank for rank in range(1, self.load.ads + 1)))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        start = next_mark = time.time()
        for number in range(self.load.ads):
            self._send(BIDS, f"ad{number}", 0, 100, start - 2 * _LATE_S)
        sights = 0
        while not self._stop.wait(_LOOK_S / 2):
            now = time.time()
            if now >= next_mark:
                self._mark(now)
                next_mark = now + self._random.uniform(0.5, 1.5) * _MARK_EVERY_S
            while sights < int((now - start) * self.load.rate):
                sights += 1
                self._sight(now)
            self.sender.poll()

    def _sight(self, now: float) -> None:
        chance = self._random
        at = now - chance.uniform(0, _LATE_S) if chance.random() < LATE else now
        (number,) = chance.choices(range(self.load.ads), cum_weights=self._weights)
        ad, user = f"ad{number}", chance.randrange(5_000)
        self._send(SEEN, ad, user, 0, at)
        if chance.random() < _CLICKED:
            self._send(CLICKS, ad, user, 0, at + 0.001)
        if chance.random() < _BID:
            self._send(BIDS, ad, 0, chance.randrange(1, 500), at)

    def _mark(self, now: float) -> None:
        number = len(self.marked)
        ad, price = f"m{number}", number + 1
        # In one hour, so that the pair is in one window.
        at = now if int(now) // 3600 == int(now + 0.01) // 3600 else now - 1
        self.rows[ad] = {"rate": (1, 1), "cost": (1, price), "wait": (1,)}[self.question.name]
        self.marked[ad] = time.time()
        self._send(BIDS, ad, 0, price, at)
        self._send(SEEN, ad, number, 0, at)
        self._send(CLICKS, ad, number, 0, at + 0.001)

    def _send(self, topic: str, ad: str, user: int, price: int, at: float) -> None:
        kind = {SEEN: "seen", CLICKS: "click", BIDS: "bid"}[topic]
        topic = ACTS if ACTS in self.question.topics and topic != BIDS else topic
        if topic in self.question.topics:
            moment = datetime.fromtimestamp(int(at * 1000) / 1000, UTC)
            text = f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
            value = f'{{"at":"{text}","kind":"{kind}","ad":"{ad}","user":{user},"price":{price}}}'
            self.sender.send(topic + self.question.suffix, value.encode(), ad.encode())


class _MarkersSeen:
    """When the answer had each marker's row with the right measures."""

    def __init__(self, look: Look, sending: _Sending) -> None:
        self.at: dict[str, float] = {}
        self._look: Look = look
        self._sending = sending

    def until(self, done: Callable[[], bool], process: "Popen[bytes]", seconds: float) -> None:
        """Look until something is done. Raises TandemError after this many seconds, or if the process ends."""
        deadline = time.time() + seconds
        while not done():
            awaited = [ad for ad in list(self._sending.marked) if ad not in self.at]
            for ad, measures in self._look(awaited):
                if measures == self._sending.rows.get(ad):
                    self.at.setdefault(ad, time.time())
            if process.poll() is not None or time.time() > deadline:
                raise TandemError(f"it ended, or took more than {seconds:.0f} s")
            with suppress(TimeoutExpired):
                process.wait(_LOOK_S)
