"""The whole comparison: rounds in which every system has its turn, on one broker and one topic, within a time bound."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

import psutil

from bench.stock import recomputing
from bench.stock.answers import answers
from bench.stock.jobs.spark_views import SIX, chosen
from bench.stock.load import Load, Sample
from bench.stock.measuring import Plan, Run, measure
from bench.stock.recomputing import Recompute
from bench.stock.systems import SYSTEMS, TOPIC, Place, System
from examples.web.generator import generate
from infra import kafka
from infra.settings import Settings

BASE = datetime(2026, 11, 1, 8, tzinfo=UTC)
# Later than every ordinary event, so that markers have windows of their own.
MARKED_AT = BASE + timedelta(days=300)
SEED = 1
ENDLESS = 2**62


@dataclass(frozen=True)
class Scale:
    """How much is measured: rounds, numbers of views, one run's plan, events to recompute, and minutes for all of it."""

    rounds: int
    views: tuple[int, ...]
    plan: Plan
    recomputed: int
    repeat: int
    recompute_limit_s: float
    minutes: float


FULL = Scale(
    rounds=3,
    views=(1, 6),
    plan=Plan(
        rate=2_000,
        warm_up_s=20,
        window_s=20,
        triggers=3,
        window_limit_s=240,
        first_answer_limit_s=240,
        backlog=60_000,
        backlog_limit_s=240,
        limit_s=360,
    ),
    recomputed=300_000,
    repeat=2,
    recompute_limit_s=300,
    minutes=75,
)
QUICK = Scale(
    rounds=1,
    views=(6,),
    plan=Plan(
        rate=2_000,
        warm_up_s=5,
        window_s=8,
        triggers=1,
        window_limit_s=120,
        first_answer_limit_s=150,
        backlog=20_000,
        backlog_limit_s=120,
        limit_s=270,
    ),
    recomputed=150_000,
    repeat=1,
    recompute_limit_s=240,
    minutes=20,
)


@dataclass(frozen=True)
class Setting:
    """Where the comparison runs: an empty folder, a broker, the cores and memory that every system gets."""

    folder: Path
    connection: kafka.Connection
    cores: int
    memory: str
    say: Callable[[str], None]

    def place(self, name: str, views: int) -> Place:
        return Place(self.folder / name, self.connection.address, chosen(views), self.cores, self.memory)


def compare(setting: Setting, scale: Scale) -> Iterator[Run | Recompute]:
    """Every system, every number of views, every round, interleaved. What no time is left for is given with that problem."""
    end = time.monotonic() + scale.minutes * 60
    kafka.create(setting.connection, [TOPIC], Settings())
    backlog = list(islice(_samples(SEED + 1), scale.plan.backlog))
    lasted: dict[tuple[str, int], float] = {}
    recomputed = Recomputed(setting, scale)
    for number in range(scale.rounds):
        yield from recomputed.round(number, end - time.monotonic())
        for views in scale.views:
            for system in _in_turn(number):
                left = end - time.monotonic() - recomputed.reserved_s(number)
                if lasted.get((system.name, views), 0.0) > left or left < scale.plan.warm_up_s + scale.plan.window_s:
                    yield Run(system.name, views, number, problem="no time left")
                    continue
                setting.say(f"round {number + 1}: {system.name}, {views} views")
                empty(setting.connection)
                place = setting.place(f"{number}-{system.name}-{views}", views)
                plan = replace(scale.plan, limit_s=min(scale.plan.limit_s, left))
                run = measure(system, place, _load(setting, SEED), backlog, plan, number=number, at=MARKED_AT)
                lasted[system.name, views] = run.seconds
                yield run


def _in_turn(number: int) -> Iterator[System]:
    """Each round begins with another system."""
    return (SYSTEMS[(offset + number) % len(SYSTEMS)] for offset in range(len(SYSTEMS)))


class Recomputed:
    """The recompute's part of each round; its log is made in the first one."""

    def __init__(self, setting: Setting, scale: Scale) -> None:
        self._setting = setting
        self._scale = scale
        self._place = setting.place("recompute", len(SIX))
        self._events = 0
        self._lasted = 0.0
        self._load = _load(setting, SEED + 2)

    def reserved_s(self, number: int) -> float:
        """Seconds that streaming runs of this round leave to the recomputes of later ones."""
        return self._lasted * (self._scale.rounds - number - 1)

    def round(self, number: int, left: float) -> Iterator[Recompute]:
        """One round. What no time is left for is given with that problem."""
        start = time.monotonic()
        limit = min(self._scale.recompute_limit_s, left)
        try:
            if not self._events:
                self._prepare(limit)
            truth = answers(self._place.views, self._load.truth.manifest())
            for found in recomputing.rounds(
                self._place, self._events, truth, number=number, repeat=self._scale.repeat, limit_s=limit
            ):
                self._setting.say(f"round {number + 1}: {found.system} recomputed")
                yield found
        except recomputing.Failed as failed:
            yield Recompute("tandem", number, None, None, problem=str(failed))
        self._lasted = time.monotonic() - start

    def _prepare(self, limit: float) -> None:
        self._setting.say(f"archiving {self._scale.recomputed} events")
        empty(self._setting.connection)
        self._place.state.mkdir(parents=True)
        for sample in islice(self._load.samples, self._scale.recomputed):
            self._load.send(sample)
        self._load.flush()
        self._events = recomputing.prepare(self._place, limit)


def _samples(seed: int) -> Iterator[Sample]:
    """Well-formed events without end: from_json and Tandem judge malformed ones differently."""
    return ((key, value, facts) for key, value, facts in generate(seed, ENDLESS, base=BASE) if facts is not None)


def _load(setting: Setting, seed: int) -> Load:
    return Load(kafka.sender(setting.connection.address), TOPIC, _samples(seed))


def empty(connection: kafka.Connection) -> None:
    """Delete all records of the topic, so that its first offset is where the next run begins."""
    topic = kafka.topic(connection, TOPIC)
    kafka.delete_before(connection, [topic], kafka.ends(connection, [topic]))


def cores() -> int:
    """The cores that this process may use."""
    return len(psutil.Process().cpu_affinity()) if sys.platform == "linux" else os.cpu_count() or 1
