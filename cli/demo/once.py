"""`tandem demo --once`: sends events while all layers run, and compares every exact answer with the expected one three times.

tail     two recomputes ran while events arrived; realtime views cover the later events
batch    a batch covers all events
restart  the speed layer was killed with SIGKILL and restarted while more events arrived
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import quantiles
from typing import Any, TypeVar

from tandem.cli.demo.checks.answers import DemoCheck, Row, SinkCheck, compare
from tandem.cli.demo.checks.stored_edges import AlertCheck, alert_document, comparable_alerts, compare_alert
from tandem.cli.demo.checks.stored_rows import ComparedSink, Condition, comparable_sinks
from tandem.cli.demo.lake import NO_TABLE, Seam
from tandem.cli.demo.scheduler import Scheduler
from tandem.cli.demo.stage import DemoChild, Stage
from tandem.cli.demo.wait_for import wait_for
from tandem.cli.demo.watcher import Look, Watcher
from tandem.cli.records import expected_answers
from tandem.infra import clock
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.positions import LOG_START, Position
from tandem.views.alert import Alert
from tandem.views.errors import TandemError

SPEED = "speed"
# The share of the events at which each part ends, and the duration of the parts during which something must happen.
_FLOWING, _TAIL = 0.6, 0.8
_FLOWING_S, _RESTART_S = 40.0, 10.0
UP_S, AIRFLOW_S, _JOB_S, _CATCH_UP_S = 240.0, 1200.0, 900.0, 600.0
_GENERATE_S = 600.0
_T = TypeVar("_T")


@dataclass
class Freshness:
    """Records ends of the log, and after how many seconds each of them was counted.

    The error is at most twice the time between two polls.
    """

    seconds: list[float] = field(default_factory=list)
    _waiting: deque[tuple[float, Position]] = field(default_factory=deque)
    _last: Position = LOG_START

    def look(self, now: float, log_end: Position, counted: Position) -> None:
        """Record the current end of the log, and the position of answers."""
        if log_end != self._last:
            self._waiting.append((now, log_end))
            self._last = log_end
        while self._waiting and self._waiting[0][1].at_or_below(counted):
            self.seconds.append(now - self._waiting.popleft()[0])

    def to_json(self) -> dict[str, Any]:
        """The median and the 99th percentile, None without two samples."""
        cuts = quantiles(self.seconds, n=100, method="inclusive") if len(self.seconds) > 1 else []
        found = {"p50": round(cuts[49], 3), "p99": round(cuts[98], 3)} if cuts else {"p50": None, "p99": None}
        return {**found, "samples": len(self.seconds)}


@dataclass
class SentRecord:
    """The measurements of the demo."""

    checks: list[DemoCheck] = field(default_factory=list)
    sinks: dict[str, list[SinkCheck]] = field(default_factory=dict)
    alerts: dict[str, list[AlertCheck]] = field(default_factory=dict)
    durations: dict[str, list[float]] = field(default_factory=dict)
    freshness: Freshness = field(default_factory=Freshness)
    positions: dict[str, Any] = field(default_factory=dict)

    def every(self) -> Iterator[DemoCheck]:
        """All checks: of answers, of sinks and of alerts."""
        yield from self.checks
        for of_sink in self.sinks.values():
            yield from of_sink
        for of_alert in self.alerts.values():
            yield from of_alert

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Measure the duration of the block."""
        start = time.monotonic()
        yield
        self.durations.setdefault(what, []).append(round(time.monotonic() - start, 3))


@dataclass(frozen=True)
class Play:
    """One run: the stage, the watcher, the number and rate of events, and the first event time.

    `conditions` are those of sinks and alerts in plain Python, by name, as the generator has them.
    """

    stage: Stage
    watcher: Watcher
    events: int
    rate: float
    base: datetime
    record: SentRecord
    say: Callable[[str], None]
    scheduler: Scheduler | None = None
    seam: Seam = NO_TABLE
    conditions: Mapping[str, Condition] = field(default_factory=dict)

    def generate(self, since: int, until: int, *, at_least_s: float = 0.0) -> DemoChild:
        """Start sending the samples from `since` to `until`, at a rate at which it lasts this long."""
        rate = self.rate if not at_least_s else min(self.rate, max((until - since) / at_least_s, 1.0))
        which = {"events": until, "skip": since, "seed": 1, "base": self.base.isoformat(), "rate": rate}
        options = [f"--{name}={value}" for name, value in which.items()]
        return self.stage.start("generate", *options, f"--truth={self.truth_file(until)}")

    def truth_file(self, until: int) -> Path:
        """The file of the expected answers for all samples before `until`."""
        return self.stage.state / "demo" / f"truth-{until}.json"

    def batch(self) -> None:
        """Archive, then recompute; with Airflow, wait for a run of the DAG that begins after this call."""
        if self.scheduler is not None:
            with self.record.timed("airflow"):
                since, runs = clock.now(), self.scheduler
                run = wait_for(
                    "Airflow to recompute", lambda: runs.published(since), seconds=_JOB_S, meanwhile=self.sample_and_check
                )
            self.say(f"Airflow has done {run['dag_run_id']} of DAG {run['dag_id']}")
            return
        with self.record.timed("recompute"):
            self.stage.finish(self.stage.start("recompute", "--archive"), seconds=_JOB_S, meanwhile=self.sample)

    def sample_and_check(self) -> None:
        """Record the positions, and check that all parts are alive."""
        self.stage.check()
        self.sample()

    def sample(self) -> None:
        """Record the end of the log and the position of answers; on a cluster, executors die meanwhile."""
        self.stage.disturb()
        log_end, counted = self.watcher.log_end(), self.watcher.realtime()
        if counted is not None:
            self.record.freshness.look(time.monotonic(), log_end, counted)

    def caught_up(self, *, batch: bool = False) -> Look:
        """Wait until answers count everything in the log; with `batch`, until the batch views do."""
        end = self.watcher.log_end()

        def look() -> Look | None:
            found = self.watcher.look()
            at = None if found is None else found.cut if batch else found.realtime
            return found if at is not None and end.at_or_below(at) else None

        layer = "batch views" if batch else "the speed layer"
        return wait_for(f"{layer} to reach the end of the log at {end}", look, seconds=_CATCH_UP_S, meanwhile=self.stage.check)

    def check(self, name: str, until: int, look: Look) -> None:
        """Compare every exact answer with the expected one for all samples sent so far."""
        self.stage.inspect()
        with self.record.timed("check"):
            truth = expected_answers.read(self.truth_file(until))
            check = compare(name, self.watcher.every_view, truth, self.watcher.answers())
        self.record.checks.append(check)
        self.record.positions[name] = look.to_json()
        self.say(f"{name}: {check.answers} answers compared with the expected ones, {_outcome(check)}")
        call = self.stage.call
        for sink, compared in comparable_sinks(call, self.conditions).items():
            if compared.view.name in self.watcher.every_view:
                self.check_sink(name, sink, compared, truth)
        for alert in comparable_alerts(call.definitions().alerts, self.conditions).values():
            if alert.view.name in self.watcher.every_view:
                self.check_alert(name, alert, truth)

    def check_sink(self, name: str, sink: str, compared: ComparedSink, truth: Mapping[str, Sequence[Row]]) -> None:
        """Compare what a sink has stored with the same expected answers, once its token counts what these answers count."""
        view, end = compared.view, self.watcher.commit_end(compared.view.source.name)
        rows = self._wait(f"the token of sink {sink} to reach {end}", lambda: compared.read(end))
        wanted = [row for row in truth.get(view.name, ()) if compared.meets(row)]
        of_view = compare(name, {view.name: view}, {view.name: wanted}, {view.name: rows})
        check = SinkCheck(**vars(of_view), target=compared.kind)
        self.record.sinks.setdefault(sink, []).append(check)
        self.say(f"{name}: {check.answers} values in the {compared.kind} of sink {sink} compared with them, {_outcome(check)}")

    def check_alert(self, name: str, alert: Alert, truth: Mapping[str, Sequence[Row]]) -> None:
        """Compare the rows for which an alert is raised with those that meet its condition in the same expected answers."""
        end, tables = self.watcher.commit_end(alert.view.source.name), Tables.of(self.stage.call.settings())
        document = self._wait(f"the token of alert {alert.name} to reach {end}", lambda: alert_document(tables, alert.name, end))
        check = compare_alert(name, alert, self.conditions[alert.name], truth.get(alert.view.name, ()), document)
        self.record.alerts.setdefault(alert.name, []).append(check)
        raised = f"of which alert {alert.name} is raised for {check.raised}"
        self.say(f"{name}: {check.answers} rows, {raised}, compared with them, {_outcome(check)}")

    def _wait(self, what: str, read: Callable[[], _T | None]) -> _T:
        return wait_for(what, read, seconds=_CATCH_UP_S, meanwhile=self.stage.check)


def _outcome(check: DemoCheck) -> str:
    return "all agree" if check.passed else f"{check.differ} differ"


def play(play: Play) -> None:
    """Run all parts. Raises TandemError if anything fails or does not finish in time, or leaves traces."""
    stage, say = play.stage, play.say
    start, flowing, tail, every = play.seam.tables_end, int(play.events * _FLOWING), int(play.events * _TAIL), play.events

    if start:
        # Batch drops these duplicates over all history, the speed layer within the dedup window: the first cut is after them.
        say(f"sending {start - play.seam.topics_start} events that the tables have, too")
        stage.finish(play.generate(play.seam.topics_start, start), seconds=_GENERATE_S, meanwhile=play.sample)
    say(f"sending {flowing - start} events while archive and recompute run, twice")
    generator = play.generate(start, flowing, at_least_s=_FLOWING_S)
    for _ in range(2):
        play.batch()
    with play.record.timed("generate"):
        stage.finish(generator, seconds=_GENERATE_S + (flowing - start) / play.rate, meanwhile=play.sample)

    say(f"sending {tail - flowing} more events after the last batch")
    stage.finish(play.generate(flowing, tail), seconds=_GENERATE_S, meanwhile=play.sample)
    look = play.caught_up()
    if not look.tail:
        raise TandemError("the cut is at the end of the log, so realtime views cover no events that could be checked")
    play.check("tail", tail, look)

    say("archive and recompute of everything")
    play.batch()
    play.check("batch", tail, play.caught_up(batch=True))

    say(f"sending the last {every - tail} events, and killing the speed layer meanwhile")
    before = play.watcher.log_end()
    generator = play.generate(tail, every, at_least_s=_RESTART_S)
    half = sum(before.values()) + (every - tail) // 2

    def sent() -> bool | None:
        return sum(play.watcher.log_end().values()) >= half or None

    wait_for("half of the last events", sent, seconds=_GENERATE_S, meanwhile=stage.check)
    stage.kill(SPEED)
    with play.record.timed("restart"):
        stage.up(seconds=UP_S)
    stage.finish(generator, seconds=_GENERATE_S)
    play.check("restart", every, play.caught_up())
    if stage.cluster is not None and not stage.cluster.killed:
        raise TandemError(
            "no executor of the cluster was killed, so nothing shows that answers stay exact then; send more events"
        )
    if stage.traces:
        raise TandemError(f"the demo left what must not be there: {'; '.join(stage.traces)}")


def figures(record: SentRecord, events: int, seconds: float) -> dict[str, Any]:
    """The measurements for the demo's document: seconds, events per second, positions at each check."""
    return {
        "seconds": round(seconds, 1),
        "events_per_s": round(events / seconds, 1),
        "freshness_s": record.freshness.to_json(),
        "durations_s": record.durations,
        "positions": record.positions,
    }


def base(now: datetime) -> datetime:
    """The first event time: this hour of yesterday, so that event times are not ahead of the clock."""
    return (now.astimezone(UTC) - timedelta(days=1)).replace(minute=0, second=0, microsecond=0)
