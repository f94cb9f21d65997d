"""Micro-batches of equally many events and ever more keys: memory of the driver's processes, seconds, bytes of the commit.

The driver's processes are those of `tandem speed` without the executors, which run on a cluster.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Any, Final

from tandem.bench.commands import running
from tandem.bench.scale.ground import Ground, TriggerWatch, counted, folds, micro_batches, wait_for
from tandem.infra import kafka
from tandem.infra.settings import KafkaSettings, Settings
from tandem.ledger.realtime.commits import Commit
from tandem.ledger.realtime.follower import Follower
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import given
from tandem.views.errors import TandemError

TOPIC: Final = "scale-keys"
SOURCE: Final = "numbers"
VIEW: Final = "sums"
_START: Final = datetime(2026, 11, 1, 8, tzinfo=UTC)
_PARTITIONS: Final = 4

_DEFINITIONS: Final = """\
from datetime import datetime, timedelta

from tandem import Event, Source, View, count, maximum, total, tumbling


class Number(Event):
    n: int
    at: datetime
    size: int


numbers = Source(topic="{topic}", event=Number, event_time="at", identity=("n",), dedup_window=timedelta(hours=1))
sums = View(
    source=numbers,
    keys={{"who": "concat('user-', n % {keys})"}},
    window=tumbling(days=1),
    measures={{"n": count(), "size": total("size"), "last": maximum("n")}},
)
SOURCES = (numbers,)
VIEWS = (sums,)
"""


@dataclass(frozen=True)
class KeysPlan:
    """Events of a micro-batch, how many micro-batches, the numbers of keys in each; seconds until they must be counted."""

    events: int
    batches: int
    keys: tuple[int, ...]
    limit_s: float


FULL: Final = KeysPlan(events=1_000_000, batches=3, keys=(1_000, 10_000, 100_000, 1_000_000), limit_s=600)
QUICK: Final = KeysPlan(events=200_000, batches=3, keys=(1_000, 200_000), limit_s=300)


@dataclass(frozen=True)
class HeldKeys:
    """The micro-batches of a speed layer with N keys in each.

    `seconds` is the median from commit to commit, `peak` the largest proportional set size of the driver's processes in bytes,
    `base` that before the first micro-batch, `partial` the bytes of one commit's partial, `driver_cpu` the driver's CPU seconds
    of one micro-batch. `differ` keys have a wrong answer.
    """

    keys: int
    events: int
    seconds: float
    base: int
    peak: int
    partial: int
    driver_cpu: float
    differ: int


def measure(ground: Ground, plan: KeysPlan, say: Callable[[str], None], more: Callable[[], bool]) -> Iterator[HeldKeys]:
    """A speed layer for each number of keys, on the same topic, as long as there is time for `more`."""
    if not more():
        return
    say(f"filling a topic with {plan.events * plan.batches:,} events")
    kafka.create(ground.place.connection, [TOPIC], Settings(kafka=KafkaSettings(partitions=_PARTITIONS)))
    with kafka.Sender(ground.place.connection.address) as sender:
        for number in range(plan.events * plan.batches):
            at = (_START + timedelta(milliseconds=number // 100)).isoformat()
            sender.send(TOPIC, b'{"n":%d,"at":"%s","size":%d}' % (number, at.encode(), number % 997), b"%d" % number)
    for keys in plan.keys:
        if not more():
            return
        found = held(ground, plan, keys)
        say(line(found))
        yield found


def held(ground: Ground, plan: KeysPlan, keys: int) -> HeldKeys:
    """Drain the topic in micro-batches of `plan.events` each. Raises TandemError if it takes longer than the plan allows."""
    name, records = f"keys-{keys}", plan.events * plan.batches
    state = ground.place.folder / name
    extra = ground.variables(name, 2, SPEED_MAX_EVENTS=plan.events, SPEED_COMPACT_EVERY=100_000, SPARK_EXECUTOR_MEMORY="1g")
    tables = ground.tables(name, state)
    with (
        running(ground.place, state, _DEFINITIONS.format(topic=TOPIC, keys=keys), "speed", extra=extra) as process,
        TriggerWatch(ground.roots(process.pid), memory=True) as watch,
    ):
        commits = Follower(tables, 1, SOURCE)
        wait_for(process, lambda: bool(commits.poll()), "the writer's claim", state, plan.limit_s)
        base = watch.peak
        wait_for(process, lambda: micro_batches(state) > 0, "the first micro-batch", state, plan.limit_s)
        first = micro_batches(state)
        watch.restart()
        wait_for(process, lambda: counted(folds(commits)) >= records, "the last micro-batch", state, plan.limit_s)
    seconds = between(folds(commits), plan.events)
    if not seconds:
        raise TandemError(f"{plan.batches} micro-batches of {plan.events:,} events are too few to tell the time between two")
    partial = max(len(content) for commit in folds(commits) for content in commit.partials.values())
    differ = wrong(given(Reader(tables).answer(VIEW)).rows(), keys, records)
    cpu = watch.cpu["driver"] / max(1, plan.batches - first)
    return HeldKeys(keys, plan.events, median(seconds), base, watch.peak, partial, cpu, differ)


def between(commits: Sequence[Commit], events: int) -> list[float]:
    """The seconds from commit to commit. Left out are micro-batches of the rest of a log, with less than half of the events."""
    return [
        (later.at - earlier.at) / timedelta(seconds=1)
        for earlier, later in pairwise(commits)
        if later.at and earlier.at and counted([later]) - counted([earlier]) >= events / 2
    ]


def wrong(rows: list[dict[str, Any]], keys: int, events: int) -> int:
    """How many keys have another answer than the numbers 0 to `events` give: their count, the sum of sizes, the last number."""
    found = {row["who"]: (row["n"], row["size"], row["last"]) for row in rows}
    expected = {}
    for key in range(min(keys, events)):
        numbers = range(key, events, keys)
        expected[f"user-{key}"] = (len(numbers), sum(number % 997 for number in numbers), numbers[-1])
    return sum(found.get(key) != expected.get(key) for key in found.keys() | expected.keys())


def line(held: HeldKeys) -> str:
    """A measurement for a person."""
    right = "every answer right" if not held.differ else f"{held.differ} ANSWERS WRONG"
    return (
        f"micro-batches of {held.events:,} events, {held.keys:,} keys: {held.seconds:.1f} s, driver's processes at most "
        f"{held.peak / 2**20:,.0f} MiB ({held.base / 2**20:,.0f} before), {held.driver_cpu:.1f} s of their CPU each, "
        f"{held.partial / 1e6:.1f} MB of partial in a commit; {right}"
    )


def bytes_per_key(found: list[HeldKeys]) -> float | None:
    """How much the driver's peak grows with each key of a micro-batch, between the fewest and the most keys."""
    ordered = sorted(found, key=lambda one: one.keys)
    if len(ordered) < 2:
        return None
    few, many = ordered[0], ordered[-1]
    return (many.peak - few.peak) / (many.keys - few.keys)
