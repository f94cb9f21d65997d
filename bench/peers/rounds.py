"""The whole comparison: rounds in which every contestant has its turn, on one broker and one topic."""

import os
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, TypeAlias

from tandem.bench.peers import topics
from tandem.bench.peers.catch_up import CaughtUp, catch_up
from tandem.bench.peers.contestant import Contestant, Resources, Setting
from tandem.bench.peers.contestants.archive import ARCHIVE
from tandem.bench.peers.contestants.batch import BATCH, BatchContestant, Job
from tandem.bench.peers.contestants.registry import STREAMING
from tandem.bench.peers.contestants.tandem_served import SERVED, TANDEM_HOT
from tandem.bench.peers.events import Answers, Shape, generate, truth, values
from tandem.bench.peers.freshness import Fresh, FreshnessPlan, measure
from tandem.bench.peers.order import turns
from tandem.bench.peers.provided import Provided
from tandem.bench.peers.recompute import PeersRecompute, archive, recompute
from tandem.infra import kafka

Result: TypeAlias = CaughtUp | PeersRecompute | Fresh
TOPIC: Final = "requests"
NO_TIME: Final = "no time left"
"""The problem of a run that was left out."""
_BEFORE: Final = timedelta(hours=2)


@dataclass(frozen=True)
class PeersScale:
    """How much is measured: events to catch up with, pages, rounds, and the most seconds of one run.

    `repeat` is how often a process recomputes; its first time does not count. `served` are measured once, for freshness, after
    the rounds. After `minutes` no further run begins.
    """

    events: int
    pages: int
    rounds: int
    limit_s: float
    plan: FreshnessPlan
    served: tuple[Contestant, ...]
    repeat: int
    minutes: float


FULL = PeersScale(
    events=1_000_000,
    pages=2_000,
    rounds=2,
    limit_s=300,
    plan=FreshnessPlan(
        rate=1_000,
        pages=2_000,
        warm_up=200,
        warm_up_s=20,
        warm_up_limit_s=110,
        window_s=17,
        unasked_s=16,
        mark_every_s=0.1,
        first_limit_s=300,
        limit_s=120,
    ),
    served=SERVED,
    repeat=4,
    minutes=38,
)
QUICK = replace(
    FULL,
    events=200_000,
    rounds=1,
    limit_s=240,
    plan=replace(FULL.plan, warm_up=50, warm_up_s=10, warm_up_limit_s=60),
    served=(TANDEM_HOT,),
    repeat=3,
    minutes=10,
)


@dataclass(frozen=True)
class Arena:
    """Where the comparison runs: an empty folder, a broker and its process id, and what every contestant gets."""

    folder: Path
    connection: kafka.BrokerConnection
    broker: int
    resources: Resources
    provided: Provided
    say: Callable[[str], None]
    now: datetime

    def setting(self, contestant: str, topic: str, *, fresh: bool, number: int) -> Setting:
        """What a contestant is given in a round: an empty topic of its own among them."""
        name = f"{'fresh' if fresh else 'catch-up'}-{number}-{contestant}"
        output = topics.published(self.connection, name)
        return Setting(
            cores=self.resources.cores,
            memory=self.resources.memory,
            fresh=fresh,
            folder=self.folder / name,
            connection=self.connection,
            topic=topic,
            output=output,
            provided=self.provided,
        )


def compare(arena: Arena, scale: PeersScale) -> Iterator[Result]:
    """Round by round every part, with every contestant in turn. A run for which no time is left has that problem."""
    end = time.monotonic() + 60 * scale.minutes
    base = arena.now.replace(minute=0, second=0, microsecond=0) - _BEFORE
    arena.say(f"sending {scale.events:,} events")
    events = generate(Shape(scale.events, scale.pages, base))
    topics.filled(arena.connection, TOPIC, values(events))
    expected = truth(events)
    arena.say("archiving them for recomputes")
    job = archive(arena.setting("archive", TOPIC, fresh=False, number=0), scale.repeat, scale.limit_s)
    for run in runs(arena, scale, expected, job):
        if time.monotonic() > end:
            yield run.missing(NO_TIME)
            continue
        arena.say(f"round {run.round + 1} of {scale.rounds}, {run.part}: {run.contestant}")
        yield run.measure()


@dataclass(frozen=True)
class PeersRun:
    """A run that is still to be measured: its round and its part of the comparison, the contestant, and what measures it."""

    round: int
    part: str
    contestant: str
    measure: Callable[[], Result]
    missing: Callable[[str], Result]


def runs(arena: Arena, scale: PeersScale, expected: Answers, job: Job) -> Iterator[PeersRun]:
    """Every run in order. Tandem's servers come last, so that a lack of time costs no peer a run."""
    for number in range(scale.rounds):
        for contestant in turns(STREAMING, number):
            yield _catch_up(arena, scale, expected, contestant, number)
        for archiving in turns(ARCHIVE, number):
            yield _archive(arena, scale, expected, archiving, number)
        for batch in turns(BATCH, number):
            folder = arena.folder / f"recompute-{number}-{batch.name}"
            yield _recompute(scale, expected, replace(job, folder=folder), batch, number)
        for contestant in turns(STREAMING, number):
            yield _freshness(arena, scale, contestant, number)
    for contestant in scale.served:
        yield _freshness(arena, scale, contestant, scale.rounds - 1)


def _catch_up(arena: Arena, scale: PeersScale, expected: Answers, contestant: Contestant, number: int) -> PeersRun:
    def measured() -> CaughtUp:
        setting = arena.setting(contestant.name, TOPIC, fresh=False, number=number)
        return catch_up(
            contestant, setting, expected, events=scale.events, number=number, broker=arena.broker, limit_s=scale.limit_s
        )

    def missing(why: str) -> CaughtUp:
        return CaughtUp(contestant.name, number, scale.events, problem=why)

    return PeersRun(number, "catch-up", contestant.name, measured, missing)


def _archive(arena: Arena, scale: PeersScale, expected: Answers, contestant: BatchContestant, number: int) -> PeersRun:
    def measured() -> PeersRecompute:
        setting = arena.setting(f"archive-{contestant.name}", TOPIC, fresh=False, number=number)
        job = Job(setting, (), 1, setting.folder / "run")
        found = recompute(contestant, job, expected, events=scale.events, number=number, limit_s=scale.limit_s)
        return replace(found, part="archive")

    def missing(why: str) -> PeersRecompute:
        return PeersRecompute(contestant.name, number, scale.events, problem=why, part="archive")

    return PeersRun(number, "archive", contestant.name, measured, missing)


def _recompute(scale: PeersScale, expected: Answers, job: Job, contestant: BatchContestant, number: int) -> PeersRun:
    def measured() -> PeersRecompute:
        return recompute(contestant, job, expected, events=scale.events, number=number, limit_s=scale.limit_s)

    def missing(why: str) -> PeersRecompute:
        return PeersRecompute(contestant.name, number, scale.events, problem=why)

    return PeersRun(number, "recompute", contestant.name, measured, missing)


def _freshness(arena: Arena, scale: PeersScale, contestant: Contestant, number: int) -> PeersRun:
    def measured() -> Fresh:
        topic = topics.empty(arena.connection, f"live-{number}-{contestant.name}")
        setting = arena.setting(contestant.name, topic, fresh=True, number=number)
        return measure(contestant, setting, scale.plan, number=number, broker=arena.broker)

    def missing(why: str) -> Fresh:
        return Fresh(contestant.name, number, problem=why)

    return PeersRun(number, "freshness", contestant.name, measured, missing)


def machine(arena: Arena) -> dict[str, object]:
    """What the figures were measured on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": arena.resources.cores,
        "heap": arena.resources.memory,
        "memory_gb": round(memory / 1e9, 1),
        "processor": _processor(),
        "system": platform.platform(),
        "load": round(os.getloadavg()[0], 1),
    }


def _processor() -> str:
    """The model of the processor; from Linux's /proc, because its platform module does not know it."""
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text("utf-8").splitlines() if listed.exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
