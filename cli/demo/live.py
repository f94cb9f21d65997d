"""`tandem demo`: shows the running platform on a terminal, until Ctrl-C."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Final

from rich.console import Console
from rich.live import Live

from tandem.cli.demo.late_event import DAYS, LateEvent, late_sample
from tandem.cli.demo.layered_values import observe, screen_views
from tandem.cli.demo.scheduler import Scheduler
from tandem.cli.demo.screen import Activity, screen
from tandem.cli.demo.stage import DemoChild, Stage
from tandem.cli.demo.watcher import Watcher
from tandem.cli.log import generate
from tandem.cli.log.generate import Generator
from tandem.infra import clock

_TICK_S = 0.5
_PAUSE_S = 20.0
_RATE_OVER_S = 10.0
_LOOK_S = 5.0
_BACK: Final = timedelta(days=30)
"""How far back event times begin: they pass many times as fast as the clock, and none may be ahead of it."""
_LATE_SEED: Final = 2


def show(stage: Stage, watcher: Watcher, console: Console, rate: float, *, generator: Generator, runs: Scheduler | None) -> None:
    """Send events without end, run one batch after another, and show the progress. Ends by KeyboardInterrupt.

    With a scheduler, the scheduler runs the batches.
    """
    base = (clock.now() - _BACK).replace(minute=0, second=0, microsecond=0)
    stage.start("generate", f"--rate={rate}", f"--base={base.isoformat()}")
    activities = _batches(stage, watcher.anything, rate) if runs is None else _scheduled(runs)
    late, names = _late_event(watcher, generator, base), screen_views(watcher.every_view)
    ends: deque[tuple[float, int]] = deque()
    with Live(console=console, auto_refresh=False) as live:
        while True:
            stage.check()
            activity, scene = next(activities), observe(watcher, names)
            if scene is not None:
                ends.append((time.monotonic(), sum(scene.look.log_end.values())))
                while ends[-1][0] - ends[0][0] > _RATE_OVER_S:
                    ends.popleft()
                if late is not None:
                    late.step(scene.look)
            live.update(screen(scene, activity, _slope(ends), late.notes() if late is not None else ()), refresh=True)
            time.sleep(_TICK_S)


def _late_event(watcher: Watcher, generator: Generator, base: datetime) -> LateEvent | None:
    samples = generate.samples(generator, _LATE_SEED, None, base - timedelta(days=DAYS), 0.0)
    late = late_sample(watcher.every_view.values(), samples)
    return None if late is None else LateEvent(late, watcher, lambda: watcher.append(late.sample))


def _batches(stage: Stage, anything: Callable[[], bool], rate: float) -> Iterator[Activity]:
    """The work of the batch layer: archive and recompute once the log has records, then a pause, and so on."""
    while not anything():
        yield Activity("the generator and the speed layer start", "batch 1 runs as soon as the log has records")
    number = 1
    while True:
        start, child = time.monotonic(), stage.start("recompute", "--archive")
        while _runs(child):
            seconds = time.monotonic() - start
            yield Activity(
                f"batch {number} archives the log and folds what is new ({seconds:.0f} s)",
                "it publishes a cut: below it answers come from batch",
            )
        number += 1
        until = time.monotonic() + _PAUSE_S
        while (left := until - time.monotonic()) > 0:
            yield Activity(
                f"{rate:,.0f} events a second arrive at most; speed counts them from the cut on",
                f"batch {number} in {left:.0f} s",
            )


def _runs(child: DemoChild) -> bool:
    return child.popen.poll() is None


def _scheduled(runs: Scheduler) -> Iterator[Activity]:
    """The current work of Airflow, polled every few seconds."""
    while True:
        status = runs.told()
        until = time.monotonic() + _LOOK_S
        while time.monotonic() < until:
            yield Activity(status, "Airflow archives and recomputes each minute")


def _slope(ends: deque[tuple[float, int]]) -> float:
    seconds = ends[-1][0] - ends[0][0] if ends else 0.0
    return (ends[-1][1] - ends[0][1]) / seconds if seconds else 0.0
