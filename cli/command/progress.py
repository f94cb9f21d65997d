"""Progress of a command's Spark tasks on stderr: a bar on a terminal, elsewhere a line at intervals."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from typing import Final

from pyspark import StatusTracker
from pyspark.sql import SparkSession
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from tandem.cli.command.call import Call
from tandem.infra.spark.errors import SPARK_ERRORS
from tandem.views.counted import remaining_time, share

_LOOK_S: Final = 0.3
_LINE_S: Final = 15.0
_BAR_COLUMNS: Final = 20


@dataclass(frozen=True)
class Tasks:
    """`done` of the `total` tasks of the running stages are done; `stages` are their numbers."""

    done: int = 0
    total: int = 0
    stages: tuple[int, ...] = ()


@dataclass
class _StageClock:
    """When the running stages began, so that the time left is of them alone."""

    now: Callable[[], float]
    stages: tuple[int, ...] = ()
    begun: float = 0.0

    def sentence(self, tasks: Tasks) -> str:
        """The tasks of the stages, the share that is done, and the time left."""
        if tasks.stages != self.stages:
            self.stages, self.begun = tasks.stages, self.now()
        parts = [f"{tasks.done} of {tasks.total} tasks of this stage", share(tasks.done, tasks.total)]
        if tasks.done:
            parts.append(remaining_time(self.now() - self.begun, tasks.done, tasks.total))
        return ", ".join(parts)


@contextmanager
def progress(call: Call) -> Iterator[Callable[[SparkSession], None]]:
    """Show the progress of a session's tasks, from when the session is passed until the block ends."""
    ended = Event()
    threads: list[Thread] = []

    def watch(session: SparkSession) -> None:
        tracker = session.sparkContext.statusTracker()
        show = _bar if sys.stderr.isatty() else _say
        threads.append(Thread(target=show, args=(call, lambda: tasks(tracker), ended), daemon=True))
        threads[-1].start()

    try:
        yield watch
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def tasks(tracker: StatusTracker) -> Tasks:
    """The progress of the running stages; none for a session that has ended."""
    try:
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    except SPARK_ERRORS:
        return Tasks()
    known = [stage for stage in stages if stage is not None]
    numbers = tuple(sorted(stage.stageId for stage in known))
    return Tasks(sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known), numbers)


def _bar(call: Call, look: Callable[[], Tasks], ended: Event) -> None:
    clock = _StageClock(time.monotonic)
    columns = (BarColumn(_BAR_COLUMNS), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=call.console(), transient=True) as shown:
        bar = shown.add_task("", total=None)
        while not ended.wait(_LOOK_S):
            now = look()
            text = clock.sentence(now) if now.total else ""
            shown.update(bar, completed=now.done, total=now.total or None, description=text)


def _say(call: Call, look: Callable[[], Tasks], ended: Event) -> None:
    clock, said = _StageClock(time.monotonic), Tasks()
    while not ended.wait(_LINE_S):
        now = look()
        if now.total and now != said:
            call.say(clock.sentence(now))
            said = now
