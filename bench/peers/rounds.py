"""The whole comparison: rounds in which every contestant has its turn, on one broker and one topic."""

import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from tandem.bench.peers.catch_up import CaughtUp, catch_up
from tandem.bench.peers.contestant import Contestant, Resources, Setting
from tandem.bench.peers.contestants.archive import ARCHIVE
from tandem.bench.peers.contestants.batch import BATCH, BatchContestant, Job
from tandem.bench.peers.contestants.registry import SINKS, STREAMING
from tandem.bench.peers.contestants.tandem_served import SERVED, TANDEM_CHANGES, TANDEM_HOT
from tandem.bench.peers.events import Answers, Shape, generate, truth, values
from tandem.bench.peers.freshness import Fresh, FreshnessPlan, measure
from tandem.bench.peers.provided import Provided
from tandem.bench.peers.recompute import BatchPart, PeersRecompute, archive, recompute
from tandem.infra import kafka
from tandem.infra.settings import KafkaSettings, Settings

_T = TypeVar("_T")
Result: TypeAlias = CaughtUp | PeersRecompute | Fresh
TOPIC: Final = "requests"
NO_TIME: Final = "no time left"
"""The problem of a run that was left out."""
_BEFORE: Final = timedelta(hours=2)
_TOPICS: Final = Settings(kafka=KafkaSettings(partitions=2, retention_hours=0))


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
    served=(TANDEM_HOT, TANDEM_CHANGES),
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
        output = empty(self.connection, name, own_time=True)
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
    """Round by round every part, with every contestant in turn."""
    end = time.monotonic() + 60 * scale.minutes
    base = arena.now.replace(minute=0, second=0, microsecond=0) - _BEFORE
    arena.say(f"sending {scale.events:,} events")
    events = generate(Shape(scale.events, scale.pages, base))
    filled(arena.connection, TOPIC, values(events))
    expected = truth(events)
    arena.say("archiving them for recomputes")
    job = archive(arena.setting("archive", TOPIC, fresh=False, number=0), scale.repeat, scale.limit_s)
    yield from results(arena, runs(arena, scale, expected, job), end)


def compare_sinks(arena: Arena, scale: PeersScale) -> Iterator[Result]:
    """Round by round how fresh sinks are, with every contestant in turn."""
    yield from results(arena, sink_runs(arena, scale), time.monotonic() + 60 * scale.minutes)


def results(arena: Arena, planned: "Iterable[PeersRun]", end: float) -> Iterator[Result]:
    """The results of runs. After `end`, by `time.monotonic`, a run has the problem that no time is left."""
    for run in planned:
        if time.monotonic() > end:
            yield run.missing(problem=NO_TIME)
            continue
        arena.say(f"round {run.round + 1}, {run.part}: {run.contestant}")
        yield run.measure()


@dataclass(frozen=True)
class PeersRun:
    """A run that is still to be measured: its round and its part of the comparison, the contestant, and what measures it."""

    round: int
    part: str
    contestant: str
    measure: Callable[[], Result]
    missing: Callable[..., Result]
    """The result if there is no time for it; takes the `problem`."""


def runs(arena: Arena, scale: PeersScale, expected: Answers, job: Job) -> Iterator[PeersRun]:
    """Every run in order. Tandem's servers come last, so that a lack of time costs no peer a run."""
    limits: dict[str, Any] = {"events": scale.events, "limit_s": scale.limit_s}

    def caught_up(contestant: Contestant, number: int) -> CaughtUp:
        setting = arena.setting(contestant.name, TOPIC, fresh=False, number=number)
        return catch_up(contestant, setting, expected, number=number, broker=arena.broker, **limits)

    def archived(contestant: BatchContestant, number: int) -> PeersRecompute:
        setting = arena.setting(f"archive-{contestant.name}", TOPIC, fresh=False, number=number)
        once = Job(setting, (), 1, setting.folder / "run")
        return replace(recompute(contestant, once, expected, number=number, **limits), part="archive")

    def recomputed(contestant: BatchContestant, number: int) -> PeersRecompute:
        own = replace(job, folder=arena.folder / f"recompute-{number}-{contestant.name}")
        return recompute(contestant, own, expected, number=number, **limits)

    for number in range(scale.rounds):
        for contestant in turns(STREAMING, number):
            missing = partial(CaughtUp, contestant.name, number, scale.events)
            yield PeersRun(number, "catch-up", contestant.name, partial(caught_up, contestant, number), missing)
        parts: tuple[tuple[BatchPart, tuple[BatchContestant, ...], Callable[[BatchContestant, int], PeersRecompute]], ...] = (
            ("archive", ARCHIVE, archived),
            ("recompute", BATCH, recomputed),
        )
        for part, batch, work in parts:
            for one in turns(batch, number):
                lacking = partial(PeersRecompute, one.name, number, scale.events, part=part)
                yield PeersRun(number, part, one.name, partial(work, one, number), lacking)
        for contestant in turns(STREAMING, number):
            yield freshness(arena, scale, contestant, number)
    for contestant in scale.served:
        yield freshness(arena, scale, contestant, scale.rounds - 1)


def sink_runs(arena: Arena, scale: PeersScale) -> Iterator[PeersRun]:
    """The freshness of topics that follow the view, and what following it costs."""
    for number in range(scale.rounds):
        for contestant in turns(SINKS, number):
            yield freshness(arena, scale, contestant, number)


def freshness(arena: Arena, scale: PeersScale, contestant: Contestant, number: int) -> PeersRun:
    """A run of a contestant on a topic of its own."""

    def fresh() -> Fresh:
        topic = empty(arena.connection, f"live-{number}-{contestant.name}")
        setting = arena.setting(contestant.name, topic, fresh=True, number=number)
        return measure(contestant, setting, scale.plan, number=number, broker=arena.broker)

    return PeersRun(number, "freshness", contestant.name, fresh, partial(Fresh, contestant.name, number))


def turns(contestants: Sequence[_T], number: int) -> list[_T]:
    """The order of round `number`: each round begins with the next contestant, and every second round goes backwards.

    So no contestant always follows the same other one.
    """
    start = number % len(contestants)
    forwards = [*contestants[start:], *contestants[:start]]
    return forwards if number % 2 == 0 else [forwards[0], *reversed(forwards[1:])]


def filled(connection: kafka.BrokerConnection, name: str, records: Iterable[tuple[bytes, bytes]]) -> None:
    """Create a topic and send keys and values to it; duplicates follow their event in its partition."""
    empty(connection, name)
    with kafka.Sender(connection.address) as sender:
        for key, value in records:
            sender.send(name, value, key)


def empty(connection: kafka.BrokerConnection, name: str, *, own_time: bool = False) -> str:
    """Create an empty topic; with `own_time` its records get the broker's time."""
    kafka.create(connection, [name], _TOPICS, own_time=[name] if own_time else [])
    return name


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
