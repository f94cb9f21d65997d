"""Progress of a command's Spark tasks on stderr: a bar on a terminal, elsewhere a line at intervals.

The figures are those of Spark's status store, which the driver keeps with the web page off too: tasks and records of the running
stages. Spark counts a task's records when the task ends, and every 10 s before that.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Final

from pyspark.sql import SparkSession
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from tandem.cli.command.call import Call
from tandem.infra import clock
from tandem.infra.spark.errors import SPARK_ERRORS
from tandem.views.counted import counted, remaining_time, share

_LOOK_S: Final = 0.3
_LINE_S: Final = 15.0
_BAR_COLUMNS: Final = 20


@dataclass(frozen=True)
class Tasks:
    """`done` of the `total` tasks of the running stages are done and read `records`, in the seconds since the stages began."""

    done: int = 0
    total: int = 0
    records: int = 0
    seconds: float = field(default=0.0, compare=False)

    def sentence(self) -> str:
        """The tasks, the share that is done, the records with their rate, and the time left."""
        parts = [f"{self.done} of {self.total} tasks of this stage", share(self.done, self.total)]
        if self.records:
            parts.append(counted(self.records, "record"))
        if self.records and self.seconds:
            parts.append(f"{self.records / self.seconds:.0f} a second")
        if self.done:
            parts.append(remaining_time(self.seconds, self.done, self.total))
        return ", ".join(parts)


@contextmanager
def progress(call: Call) -> Iterator[Callable[[SparkSession], None]]:
    """Show the progress of a session's tasks, from when the session is passed until the block ends."""
    ended = Event()
    threads: list[Thread] = []

    def watch(session: SparkSession) -> None:
        show = _bar if sys.stderr.isatty() else _say
        threads.append(Thread(target=show, args=(call, lambda: tasks(session), ended), daemon=True))
        threads[-1].start()

    try:
        yield watch
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def tasks(session: SparkSession) -> Tasks:
    """The progress of the running stages; none for a session that has ended."""
    try:
        running = session.sparkContext._jsc.sc().statusStore().activeStages()  # noqa: SLF001 - the only way to records of tasks
        stages = [running.apply(place) for place in range(running.size())]
        return Tasks(
            sum(stage.numCompleteTasks() for stage in stages),
            sum(stage.numTasks() for stage in stages),
            sum(stage.inputRecords() + stage.shuffleReadRecords() for stage in stages),
            max((_seconds_since(stage.submissionTime().get().getTime()) for stage in stages), default=0.0),
        )
    except SPARK_ERRORS:
        return Tasks()


def _seconds_since(milliseconds: int) -> float:
    return max(0.0, clock.now().timestamp() - milliseconds / 1000)


def _bar(call: Call, look: Callable[[], Tasks], ended: Event) -> None:
    columns = (BarColumn(_BAR_COLUMNS), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=call.console(), transient=True) as shown:
        bar = shown.add_task("", total=None)
        while not ended.wait(_LOOK_S):
            now = look()
            text = now.sentence() if now.total else ""
            shown.update(bar, completed=now.done, total=now.total or None, description=text)


def _say(call: Call, look: Callable[[], Tasks], ended: Event) -> None:
    said = Tasks()
    while not ended.wait(_LINE_S):
        now = look()
        if now.total and now != said:
            call.say(now.sentence())
            said = now
