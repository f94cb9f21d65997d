"""The whole of `bench together`, run by run: every question by every system, what features cost, freshness and memory."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from tandem.bench.peers.rounds import Arena, filled, turns
from tandem.bench.together.an_hour import HourOfMemory, measure_hour
from tandem.bench.together.answering import TogetherRun, measure_run
from tandem.bench.together.freshness import FreshAnswers, LiveAds, measure_freshness
from tandem.bench.together.questions import COST, COSTS, QUESTIONS, RATE, WAIT, TogetherQuestion
from tandem.bench.together.streams import Streams, generate, truth, values
from tandem.bench.together.systems import SYSTEMS, TANDEM, System

Result: TypeAlias = TogetherRun | FreshAnswers | HourOfMemory

_BEFORE: Final = timedelta(hours=9)


@dataclass(frozen=True)
class TogetherScale:
    """How many advertisements are seen, of how many; `keys` are those of the look-up whose cost is measured, in `turns` turns."""

    sights: int
    ads: int
    keys: int
    turns: int
    live: LiveAds


FULL: Final = TogetherScale(600_000, 2_000, 100_000, 2, LiveAds(rate=400, ads=2_000, warm_up_s=20, window_s=30))
QUICK: Final = TogetherScale(100_000, 500, 100_000, 1, LiveAds(rate=400, ads=500, warm_up_s=15, window_s=15))
"""The look-up is in 100 000 keys whatever the scale, because its aim is."""


def measure(arena: Arena, scale: TogetherScale) -> Iterator[Result]:
    """Every question by every system, then what each feature costs, how fresh answers are, and an hour's memory."""
    base: datetime = arena.now.replace(minute=0, second=0, microsecond=0) - _BEFORE
    yield from _questions(arena, Streams(scale.sights, scale.ads, base), scale)
    for question in (RATE, COST, WAIT):
        for system in SYSTEMS:
            arena.say(f"freshness of {question.name}: {system.name}")
            yield measure_freshness(arena, scale.live, question, system)
    for system in SYSTEMS:
        arena.say(f"memory of an hour: {system.name}")
        yield measure_hour(arena, Streams(scale.sights, scale.ads, base, hours=1), COST, system)


def _questions(arena: Arena, shape: Streams, scale: TogetherScale) -> Iterator[TogetherRun]:
    """On topics that are filled before."""
    suffixes = {"": shape, **{cost.question.suffix: replace(shape, ads=scale.keys) for cost in COSTS if cost.question.suffix}}
    streams = {suffix: generate(each) for suffix, each in suffixes.items()}
    for suffix, events_of in streams.items():
        for topic, events in events_of.items():
            arena.say(f"sending {events.num_rows:,} events to {topic}{suffix}")
            filled(arena.connection, topic + suffix, values(events))

    def run(question: TogetherQuestion, system: System, number: int) -> TogetherRun:
        arena.say(f"{question.name}: {system.name}")
        events_of = streams[question.suffix]
        right, events = truth(question.truth, events_of), sum(events_of[topic].num_rows for topic in question.topics)
        return measure_run(arena, TogetherRun(system.name, question.name, number, events, len(right)), system, question, right)

    for question in QUESTIONS:
        for system in SYSTEMS if question.flink else (TANDEM,):
            yield run(question, system, 0)
    for number in range(1, scale.turns + 1):
        for cost in COSTS:
            for question in turns((cost.question, cost.beside), number):
                yield run(question, TANDEM, number)
