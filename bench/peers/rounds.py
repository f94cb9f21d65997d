"""The whole comparison: rounds in which every contestant has its turn, on one broker and one topic."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from bench.peers import topics
from bench.peers.catch_up import CaughtUp, catch_up
from bench.peers.contestant import Contestant, Resources, Setting
from bench.peers.events import Answers, Shape, generate, truth, values
from bench.peers.order import turns
from bench.peers.provided import Provided
from infra import kafka

_BEFORE = timedelta(hours=2)


@dataclass(frozen=True)
class Scale:
    """How much is measured: events to catch up with, pages, rounds, and the most seconds of one run."""

    events: int
    pages: int
    rounds: int
    limit_s: float


FULL = Scale(events=1_000_000, pages=2_000, rounds=3, limit_s=180)
QUICK = Scale(events=200_000, pages=2_000, rounds=1, limit_s=120)


@dataclass(frozen=True)
class Arena:
    """Where the comparison runs: an empty folder, a broker and its process id, and what every contestant gets."""

    folder: Path
    connection: kafka.Connection
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


def catch_ups(arena: Arena, contestants: Sequence[Contestant], scale: Scale) -> Iterator[CaughtUp]:
    """Every contestant in every round, on one topic that is filled before the first."""
    base = arena.now.replace(minute=0, second=0, microsecond=0) - _BEFORE
    expected, topic = _fill(arena, Shape(scale.events, scale.pages, base))
    for number in range(scale.rounds):
        for contestant in turns(contestants, number):
            arena.say(f"catch-up, round {number + 1} of {scale.rounds}: {contestant.name}")
            yield catch_up(
                contestant,
                arena.setting(contestant.name, topic, fresh=False, number=number),
                expected,
                events=scale.events,
                number=number,
                broker=arena.broker,
                limit_s=scale.limit_s,
            )


def _fill(arena: Arena, shape: Shape) -> tuple[Answers, str]:
    arena.say(f"sending {shape.events:,} events")
    events = generate(shape)
    topics.filled(arena.connection, "requests", values(events))
    return truth(events), "requests"


def machine(arena: Arena) -> dict[str, object]:
    """What the figures were measured on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": arena.resources.cores,
        "heap": arena.resources.memory,
        "memory_gb": round(memory / 1e9, 1),
        "load": os.getloadavg()[0],
    }
