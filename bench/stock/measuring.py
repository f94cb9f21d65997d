"""One run of one system: started on an empty topic, warmed up, measured at a steady rate, then with a backlog, then checked."""

import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from statistics import quantiles

from bench.commands import environ
from bench.process_tree import cpu_seconds, stop
from bench.stock.answers import answers, differing
from bench.stock.load import Load, Sample, Steady, burst
from bench.stock.shown import Shown
from bench.stock.systems import Place, System

_TICK_S = 0.02
MARK_EVERY_S = 0.5


@dataclass(frozen=True)
class Plan:
    """What a run does: events a second, seconds of warm-up and of measuring, triggers to see at least, and bounds in seconds.

    `limit_s` bounds the whole run, the others its parts.
    """

    rate: float
    warm_up_s: float
    window_s: float
    triggers: int
    window_limit_s: float
    first_answer_limit_s: float
    backlog: int
    backlog_limit_s: float
    limit_s: float


@dataclass(frozen=True)
class Run:
    """What one run found; None is what it did not get to see, and `problem` says why.

    `freshness` is seconds from sending to being counted by every view, of each marker sent in the window; `overdue` markers of
    the window were not counted when the backlog began. CPU is in seconds per million events.
    """

    system: str
    views: int
    round: int
    freshness: Sequence[float] = ()
    overdue: int = 0
    triggers: int = 0
    steady_cpu: float | None = None
    backlog_per_s: float | None = None
    backlog_cpu: float | None = None
    rows: int | None = None
    differ: int | None = None
    problem: str = ""
    seconds: float = 0.0
    p50: float | None = field(init=False, default=None)
    p99: float | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        # Those overdue count as slower than all others: a percentile among them is unknown, and stays None.
        known = sorted(self.freshness)
        whole = [*known, *[float("inf")] * self.overdue]
        if len(known) > 1:
            cuts = quantiles(whole, n=100, method="inclusive")
            for name, value in (("p50", cuts[49]), ("p99", cuts[98])):
                object.__setattr__(self, name, round(value, 3) if value < float("inf") else None)


class TooSlow(Exception):
    """A system did not finish a part in time."""


def measure(system: System, place: Place, load: Load, backlog: list[Sample], plan: Plan, *, number: int, at: datetime) -> Run:
    """Run the system in its place and measure it. Whatever it does not reach in its bounds is missing in the result."""
    start = time.monotonic()
    shown = system.shown(place)
    found: dict[str, object] = {}
    place.state.mkdir(parents=True)
    with (place.state / "log").open("wb") as log:
        process = subprocess.Popen(
            system.command(place),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=place.state,
            env=environ(system.environ(place)),
            start_new_session=True,
        )
    try:
        watch = Watch(shown, load, process, start + plan.limit_s)
        _steady(watch, plan, at, found)
        _backlog(watch, plan, backlog, at, found)
        _check(watch, place, plan, found)
    except TooSlow as slow:
        found["problem"] = str(slow)
    finally:
        stop(process)
    return Run(system.name, len(place.views), number, seconds=round(time.monotonic() - start, 1), **found)  # type: ignore[arg-type]


@dataclass
class Watch:
    """Follows what a system shows until `end`, in seconds of time.monotonic(): when each marker was first counted."""

    shown: Shown
    load: Load
    process: "subprocess.Popen[bytes]"
    end: float
    counted: dict[int, float] = field(default_factory=dict)

    def look(self) -> None:
        """Look once, and breathe."""
        waiting = [number for number in list(self.load.marked) if number not in self.counted]
        for number in self.shown.look(waiting):
            self.counted[number] = self.load.clock()
        if self.process.poll() is not None:
            raise TooSlow(f"it ended with exit code {self.process.returncode}; see its log")
        time.sleep(_TICK_S)

    def until(self, done: Callable[[], bool], seconds: float, what: str) -> None:
        """Look until it is done. Raises TooSlow."""
        now = time.monotonic()
        deadline = min(now + seconds, self.end)
        while not done():
            if time.monotonic() > deadline:
                raise TooSlow(f"{what} not within {deadline - now:.0f} s")
            self.look()


def _steady(watch: Watch, plan: Plan, at: datetime, found: dict[str, object]) -> None:
    load, shown = watch.load, watch.shown
    with Steady(load, plan.rate, every=MARK_EVERY_S, at=at):
        watch.until(lambda: bool(watch.counted), plan.first_answer_limit_s, "a first answer")
        warm = time.monotonic() + plan.warm_up_s
        watch.until(lambda: time.monotonic() > warm, plan.warm_up_s + 1, "")
        # From a commit to a commit: what a system does in between belongs to the events in between.
        commits = shown.commits
        with suppress(TooSlow):
            watch.until(lambda: shown.commits > commits, plan.window_limit_s, "")
        start, since, cpu, sent = shown.commits, load.clock(), cpu_seconds(watch.process.pid), load.sent
        over = time.monotonic() + plan.window_s

        def seen_enough() -> bool:
            return time.monotonic() > over and shown.commits - start >= plan.triggers

        # A system that is too slow is measured by what it did show.
        with suppress(TooSlow):
            watch.until(seen_enough, plan.window_limit_s, "")
        found["triggers"] = shown.commits - start
        found["steady_cpu"] = (cpu_seconds(watch.process.pid) - cpu) / max(load.sent - sent, 1) * 1e6
        until = load.clock()
    window = [number for number, sent_at in load.marked.items() if since <= sent_at < until]
    # Those sent last have not had their turn yet.
    with suppress(TooSlow):
        watch.until(lambda: all(number in watch.counted for number in load.marked), plan.window_limit_s, "")
    found["freshness"] = [watch.counted[number] - load.marked[number] for number in window if number in watch.counted]
    found["overdue"] = sum(number not in watch.counted for number in window)


def _backlog(watch: Watch, plan: Plan, backlog: list[Sample], at: datetime, found: dict[str, object]) -> None:
    for _, _, facts in backlog:
        watch.load.truth.add(facts)
    start, cpu = time.monotonic(), cpu_seconds(watch.process.pid)
    last = burst(watch.load, backlog, at)
    watch.until(lambda: all(number in watch.counted for number in last), plan.backlog_limit_s, "the backlog")
    found["backlog_per_s"] = len(backlog) / (time.monotonic() - start)
    found["backlog_cpu"] = (cpu_seconds(watch.process.pid) - cpu) / len(backlog) * 1e6


def _check(watch: Watch, place: Place, plan: Plan, found: dict[str, object]) -> None:
    truth = answers(place.views, watch.load.truth.manifest())

    def compare() -> bool:
        found["rows"], found["differ"] = sum(map(len, truth.values())), differing(truth, watch.shown.answers())
        return found["differ"] == 0

    # A view without keys may still wait for its turn.
    with suppress(TooSlow):
        watch.until(compare, plan.window_limit_s, "")
