"""Recompute and catching up on a cluster: how much faster two executors of one core each are than one, and what limits them.

Each run reads one topic or its archive, whose events are known, and its answers are compared with them.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from statistics import median
from typing import Final, Literal, get_args

from tandem.bench.commands import cores, running, until_ended
from tandem.bench.peers.events import DECLARED, Answers, Shape, differing, generate, truth, values
from tandem.bench.peers.outputs import answers
from tandem.bench.scale.ground import Ground, TriggerWatch, counted, folds, micro_batches, since, wait_for
from tandem.infra import kafka
from tandem.infra.settings import KafkaSettings, Settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.realtime.follower import Follower
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import given
from tandem.views.errors import TandemError

What = Literal["recompute", "catch-up"]
EXECUTORS: Final = (1, 2)
SOURCE: Final = "requests"
CHECKED: Final = "pages"
OTHERS: Final = ("users", "hours", "slow")
"""Views of which only the number of events is compared."""
_PAGES: Final = 1_000
_BASE: Final = datetime(2026, 11, 1, 8, tzinfo=UTC)
_BUSY: Final = 0.85
_FOLDING: Final = f"{SOURCE}: full, from"
"""What `recompute` says when it begins to fold."""

_DEFINITIONS: Final = """\
from datetime import datetime, timedelta

from tandem import Event, Source, View, approx_count_distinct, approx_quantiles, count, maximum, total, tumbling


{event}

requests = Source(topic="{topic}", event=Request, event_time="at", identity=("id",), dedup_window=timedelta(hours=1))
minute = tumbling(minutes=1)
pages = View(
    source=requests, keys={{"path": "path"}}, window=minute, measures={{"n": count(), "b": total("bytes"), "m": maximum("ms")}}
)
users = View(source=requests, keys={{"who": '"user"'}}, window=tumbling(days=1), measures={{"n": count(), "b": total("bytes")}})
hours = View(
    source=requests,
    window=tumbling(hours=1),
    measures={{"n": count(), "visitors": approx_count_distinct('"user"'), "latency": approx_quantiles("ms", (0.5, 0.99))}},
)
slow = View(
    source=requests,
    keys={{"path": "path"}},
    window=tumbling(hours=1),
    measures={{"n": count(), "latency": approx_quantiles("ms", (0.9,))}},
)
SOURCES = (requests,)
VIEWS = (pages, users, hours, slow)
"""


@dataclass(frozen=True)
class ExecutorsPlan:
    """What is run: events of a topic, events of a micro-batch, numbers of partitions, rounds; seconds that a command may take."""

    events: int
    batch: int
    partitions: tuple[int, ...]
    rounds: int
    limit_s: float


FULL: Final = ExecutorsPlan(events=2_000_000, batch=200_000, partitions=(4, 8), rounds=1, limit_s=900)
QUICK: Final = ExecutorsPlan(events=400_000, batch=100_000, partitions=(4, 8), rounds=1, limit_s=400)


@dataclass(frozen=True)
class Case:
    """What one run is: its number of executors, each with a share of a core, and the number of partitions of its topic."""

    what: What
    partitions: int
    executors: int
    share: float
    round: int


@dataclass(frozen=True)
class ExecutorsRun:
    """One run: `events` in `seconds`. `differ` answers are wrong.

    `seconds` are of the fold of a recompute, or from the first micro-batch's commit of a catch-up to the last one's. `whole_s` is
    the command's time with the start of Spark. In that time `cpu` are the CPU seconds of each part, and `machine` is how many
    cores all programs of the machine kept busy. `requests` are those to the store: of a recompute, or of each micro-batch of a
    catch-up.
    """

    case: Case
    events: int
    seconds: float
    whole_s: float
    cpu: Mapping[str, float] = field(hash=False)
    machine: float
    requests: Mapping[str, float] = field(hash=False)
    differ: int

    @property
    def per_second(self) -> float:
        """Events a second."""
        return self.events / self.seconds

    @property
    def busy(self) -> float:
        """How many cores the platform's processes kept busy, on average over the command."""
        return sum(self.cpu.values()) / self.whole_s


@dataclass(frozen=True)
class FilledTopic:
    """A filled topic with its answers, and how many events of it count."""

    name: str
    partitions: int
    events: int
    truth: Answers
    counted: int

    @property
    def definitions(self) -> str:
        """The project that reads it."""
        return _DEFINITIONS.format(event=DECLARED, topic=self.name)


def cases(plan: ExecutorsPlan, partitions: int, shares: Sequence[float]) -> Iterator[Case]:
    """All runs on one topic, those with one and with two executors in turn."""
    for number, share in product(range(plan.rounds), shares):
        for executors in EXECUTORS if number % 2 == 0 else EXECUTORS[::-1]:
            for what in get_args(What):
                yield Case(what, partitions, executors, share, number)


def measure(ground: Ground, plan: ExecutorsPlan, say: Callable[[str], None], more: Callable[[], bool]) -> Iterator[ExecutorsRun]:
    """All runs, as long as there is time for `more`."""
    for partitions in plan.partitions:
        if not more():
            return
        say(f"filling a topic of {partitions} partitions with {plan.events:,} events, and archiving it")
        topic = fill(ground, partitions, plan.events)
        _archive(ground, plan, topic)
        for case in cases(plan, partitions, ground.shares()):
            if not more():
                return
            try:
                found = (recompute if case.what == "recompute" else catch_up)(ground, plan, topic, case)
            finally:
                ground.release()
            say(line(found))
            yield found


def fill(ground: Ground, partitions: int, events: int) -> FilledTopic:
    """A topic whose partitions get equal shares of the events; a duplicate is in the partition of its event."""
    name = f"scale-{partitions}"
    kafka.create(ground.place.connection, [name], Settings(kafka=KafkaSettings(partitions=partitions)))
    table = generate(Shape(events, _PAGES, _BASE))
    ids = table.column("id").to_pylist()
    with kafka.Sender(ground.place.connection.address) as sender:
        for own, (_, value) in zip(ids, values(table), strict=True):
            sender.send(name, value, own.encode())
    return FilledTopic(name, partitions, events, truth(table), len(set(ids)))


def _archive(ground: Ground, plan: ExecutorsPlan, topic: FilledTopic) -> None:
    state, extra = _state(ground, topic.name), ground.variables(topic.name, max(EXECUTORS))
    with running(ground.place, state, topic.definitions, "archive", extra=extra) as process:
        until_ended(process, plan.limit_s, state)


def recompute(ground: Ground, plan: ExecutorsPlan, topic: FilledTopic, case: Case) -> ExecutorsRun:
    """A full recompute of the archived topic. The start of Spark is not part of the seconds."""
    state, extra = _state(ground, topic.name), ground.variables(topic.name, case.executors)
    began, before = time.monotonic(), ground.requests()
    with (
        running(ground.place, state, topic.definitions, "recompute", "--mode", "full", extra=extra) as process,
        TriggerWatch(ground.roots(process.pid)) as watch,
    ):
        if case.share < 1:
            said = state / "recompute.err"
            wait_for(process, lambda: _FOLDING in said.read_text("utf-8", "replace"), "the fold", state, plan.limit_s)
            ground.bound(process.pid, case.share)
        until_ended(process, plan.limit_s, state)
        whole, sent, busy = time.monotonic() - began, since(before, ground.requests()), watch.machine
    (done,) = json.loads((state / "recompute.out").read_text())["done"]
    differ = wrong(ground.tables(topic.name, state), topic)
    return ExecutorsRun(case, done["events"], done["seconds"], whole, watch.cpu, busy, sent, differ)


def catch_up(ground: Ground, plan: ExecutorsPlan, topic: FilledTopic, case: Case) -> ExecutorsRun:
    """A speed layer that starts on the filled topic. The first micro-batch, which warms Spark up, is not part of the seconds."""
    name = f"scale-{topic.partitions}-{case.round}-{case.share}-{case.executors}"
    state = _state(ground, name)
    # Compacted commits would hide when their micro-batches ended.
    extra = ground.variables(name, case.executors, SPEED_MAX_EVENTS=plan.batch, SPEED_COMPACT_EVERY=100_000)
    tables, began = ground.tables(name, state), time.monotonic()
    with (
        running(ground.place, state, topic.definitions, "speed", extra=extra) as process,
        TriggerWatch(ground.roots(process.pid)) as watch,
    ):
        commits, limit_s = Follower(tables, 1, SOURCE), plan.limit_s
        wait_for(process, lambda: micro_batches(state) > 0, "the first micro-batch", state, limit_s)
        ground.bound(process.pid, case.share)
        first, before = micro_batches(state), ground.requests()
        # Until here the benchmark sends the store no request.
        wait_for(process, lambda: micro_batches(state) >= topic.events // plan.batch - 1, "most micro-batches", state, limit_s)
        done, sent = micro_batches(state) - first, since(before, ground.requests())
        wait_for(process, lambda: counted(folds(commits)) >= topic.events, "the last micro-batch", state, limit_s)
        whole = time.monotonic() - began
        cpu, busy = watch.cpu, watch.machine
    found = folds(commits)
    start, end = found[0], found[-1]
    if start.at is None or end.at is None or start is end:
        raise TandemError(f"the catch-up took {len(found)} micro-batches; it needs some more to tell the time between them")
    events = topic.events - sum(start.end.values())
    # Micro-batches that all end between two looks leave none to divide by.
    each = {kind: round(number / done, 1) for kind, number in sent.items()} if done else {}
    return ExecutorsRun(case, events, (end.at - start.at) / timedelta(seconds=1), whole, cpu, busy, each, wrong(tables, topic))


def wrong(tables: Tables, topic: FilledTopic) -> int:
    """How many rows of the checked view differ from the truth, and how many other views count another number of events."""
    reader = Reader(tables)
    found = answers(
        (row["path"], int(datetime.fromisoformat(str(row["window_start"])).timestamp() * 1000), row["n"], row["b"], row["m"])
        for row in given(reader.answer(CHECKED)).rows()
    )
    others = [sum(int(row["n"]) for row in given(reader.answer(view)).rows()) for view in OTHERS]
    return differing(topic.truth, found) + sum(number != topic.counted for number in others)


def _state(ground: Ground, name: str) -> Path:
    return ground.place.folder / name


def line(run: ExecutorsRun) -> str:
    """A run for a person."""
    used = ", ".join(f"{part} {seconds:.0f}" for part, seconds in run.cpu.items())
    right = "every answer right" if not run.differ else f"{run.differ} ANSWERS WRONG"
    case, each = run.case, " a micro-batch" if run.case.what == "catch-up" else ""
    sent = ", ".join(f"{kind} {number:g}" for kind, number in run.requests.items())
    return (
        f"{case.what}, {case.partitions} partitions, {case.executors} x {case.share:g} core: {run.per_second:,.0f} events/s "
        f"({run.events:,} in {run.seconds:.1f} s; the command {run.whole_s:.0f} s, CPU seconds of {used}; "
        f"requests{each} {sent}); {right}"
    )


@dataclass(frozen=True)
class Gain:
    """How many times as fast two executors are as one, over the medians of the rounds.

    With one executor a run takes fixed + work, with two fixed + work / 2 seconds: `fixed_s` is what the second executor does not
    shorten, of `two_s`. With two, `busy` of all `cores` were busy, `own` of them with Tandem, store and broker.
    """

    what: What
    partitions: int
    share: float
    times: float
    fixed_s: float
    two_s: float
    own: float
    busy: float
    cores: int

    @property
    def limit(self) -> str:
        """What keeps it from two."""
        busy = f"{self.busy:.1f} of {self.cores} cores were busy, {self.own:.1f} of them with this"
        if self.share == 1 and self.busy >= _BUSY * self.cores:
            return f"the machine; {busy}"
        part = self.fixed_s / self.two_s
        return f"what does not run in tasks side by side, {self.fixed_s:.1f} of {self.two_s:.1f} s ({part:.0%}); {busy}"


def gains(runs: Sequence[ExecutorsRun]) -> Iterator[Gain]:
    """Of every kind of run that was done with one and with two executors."""
    for what, partitions, share in dict.fromkeys((run.case.what, run.case.partitions, run.case.share) for run in runs):
        own = [run for run in runs if (run.case.what, run.case.partitions, run.case.share) == (what, partitions, share)]
        one, two = ([run for run in own if run.case.executors == number] for number in EXECUTORS)
        if one and two:
            slow, fast = (median(run.seconds / run.events for run in some) * two[0].events for some in (one, two))
            fixed = min(max(0.0, 2 * fast - slow), fast)
            own_cores, busy = median(run.busy for run in two), median(run.machine for run in two)
            yield Gain(what, partitions, share, slow / fast, fixed, fast, own_cores, busy, cores())
