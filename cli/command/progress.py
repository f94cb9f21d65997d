"""Progress of a command's Spark tasks on stderr: a bar on a terminal, elsewhere a line at intervals."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from typing import Final

from pyspark import StatusTracker
from pyspark.sql import SparkSession
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tandem.cli.command.call import Call
from tandem.infra.spark.errors import SPARK_ERRORS

_LOOK_S: Final = 0.3
_LINE_S: Final = 15.0


@dataclass(frozen=True)
class Tasks:
    """`done` of the `total` tasks of the running stages are done."""

    done: int = 0
    total: int = 0


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
    return Tasks(sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known))


def _bar(call: Call, look: Callable[[], Tasks], ended: Event) -> None:
    columns = (TextColumn("tasks"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=call.console(), transient=True) as shown:
        bar = shown.add_task("", total=None)
        while not ended.wait(_LOOK_S):
            now = look()
            shown.update(bar, completed=now.done, total=now.total or None)


def _say(call: Call, look: Callable[[], Tasks], ended: Event) -> None:
    said = Tasks()
    while not ended.wait(_LINE_S):
        now = look()
        if now not in (said, Tasks()):
            call.say(f"{now.done} of {now.total} tasks of this stage done")
            said = now
