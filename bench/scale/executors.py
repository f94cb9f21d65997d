"""Archive, recompute and catching up on a cluster: how much faster two, three and four executors are than one.

Each run reads one topic or its archive, whose events are known, and its answers are compared with them.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Final, get_args

from tandem.bench.commands import running, until_ended
from tandem.bench.peers.events import DECLARED, Answers, Shape, differing, generate, truth, values
from tandem.bench.peers.outputs import answers
from tandem.bench.scale.ground import Ground, TriggerWatch, counted, folds, micro_batches, since, wait_for
from tandem.bench.scale.runs import Case, ExecutorsRun, What
from tandem.infra import kafka
from tandem.infra.settings import KafkaSettings, Settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.realtime.follower import Follower
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import given
from tandem.views.errors import TandemError

EXECUTORS: Final = (1, 2, 3, 4)
SOURCE: Final = "requests"
CHECKED: Final = "pages"
OTHERS: Final = ("users", "hours", "slow")
"""Views of which only the number of events is compared."""
_PAGES: Final = 1_000
_BASE: Final = datetime(2026, 11, 1, 8, tzinfo=UTC)
_BEGINS: Final = {"archive": f"{SOURCE}: copying", "recompute": f"{SOURCE}: full, from"}
"""What these commands say when Spark has started and their work begins."""

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


FULL: Final = ExecutorsPlan(events=2_000_000, batch=200_000, partitions=(8,), rounds=1, limit_s=900)
QUICK: Final = ExecutorsPlan(events=400_000, batch=100_000, partitions=(8,), rounds=1, limit_s=400)


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
    """All runs on one topic, with more and more executors, by turns with fewer and fewer."""
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
                found = (catch_up if case.what == "catch-up" else batch)(ground, plan, topic, case)
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


def batch(ground: Ground, plan: ExecutorsPlan, topic: FilledTopic, case: Case) -> ExecutorsRun:
    """An archive of the topic, or a full recompute of its archive. The start of Spark is not part of the seconds."""
    name = topic.name if case.what == "recompute" else f"{topic.name}-{case.round}-{case.share}-{case.executors}-archive"
    words = ("recompute", "--mode", "full") if case.what == "recompute" else ("archive",)
    state, extra = _state(ground, name), ground.variables(name, case.executors)
    began, before = time.monotonic(), ground.requests()
    with (
        running(ground.place, state, topic.definitions, *words, extra=extra) as process,
        TriggerWatch(ground.roots(process.pid)) as watch,
    ):
        said, begins = state / f"{case.what}.err", _BEGINS[case.what]
        wait_for(process, lambda: begins in said.read_text("utf-8", "replace"), begins, state, plan.limit_s)
        ground.bound(process.pid, case.share)
        watch.restart()
        working = time.monotonic()
        until_ended(process, plan.limit_s, state)
        seconds, whole = time.monotonic() - working, time.monotonic() - began
        sent, busy = since(before, ground.requests()), watch.machine
    done = json.loads((state / f"{case.what}.out").read_text())
    if case.what == "archive":
        events = done["sources"][SOURCE]["events"]
        return ExecutorsRun(case, events, seconds, whole, watch.cpu, busy, sent, abs(events - topic.events))
    (fold,) = done["done"]
    differ = wrong(ground.tables(name, state), topic)
    return ExecutorsRun(case, fold["events"], fold["seconds"], whole, watch.cpu, busy, sent, differ)


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
        watch.restart()
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
