"""What duplicates cost a warm micro-batch: `python -m tandem.bench.micro_batch`, with Spark on this machine and without Kafka.

Micro-batches of new events, of events of which one in a hundred is a duplicate, and of duplicates alone take turns. Spark caches
their records, so the time is that of the job and of the driver's part: decode, find duplicates, fold one view, merge. It prints
the medians, their ratios to the first kind and the number of Spark jobs. It compares all counts with those of the events sent.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from statistics import median
from typing import Final

import numpy as np
import psutil
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tandem.infra.process.returned_memory import of_executors, return_freed_memory
from tandem.infra.settings import Settings, Spark
from tandem.infra.spark.session import get_or_create_session
from tandem.speed.dedup.dedup_window import DedupWindow
from tandem.speed.micro_batch.fold import fold_records
from tandem.speed.micro_batch.task import Task
from tandem.speed.micro_batch.workers import Workers
from tandem.speed.source.query import CONF
from tandem.views.project.project import load_files
from tandem.views.source.offset_ranges import Ranges
from tandem.views.source.source import RECORDS_SCHEMA

PARTITIONS: Final = 2
WARM_UP: Final = 6
"""Rounds that are not measured: Spark's JVM needs many triggers until it is fast."""
BACK: Final = 30_000
"""Maximum number of events between an event and its duplicate."""
KINDS: Final = ("none", "1 %", "all")
_COLUMNS: Final = ("topic_id", "partition", "offset", "timestamp", "value")
_CONF: Final = {"spark.sql.unionOutputPartitioning": "false"}
"""Spark otherwise reads a union of frames of one partition each as one partition."""
_START: Final = datetime(2026, 11, 1, tzinfo=UTC)
_FILES: Final = {
    "tandem.toml": b"",
    "definitions.py": b"""
from datetime import datetime
from tandem import Event, Source, View, count, total, tumbling

class Request(Event):
    id: str
    at: datetime
    user: str
    path: str
    bytes: int

requests = Source(topic="requests", event=Request, event_time="at", identity=("id",))
pages = View(
    source=requests, keys={"page": "path"}, window=tumbling(minutes=1), measures={"hits": count(), "bytes": total("bytes")}
)
SOURCES = (requests,)
VIEWS = (pages,)
""",
}


def value(number: int) -> bytes:
    """The record of an event. A duplicate has the number of its event."""
    at = f"2026-11-01T{number // 3_600_000 % 24:02}:{number // 60_000 % 60:02}:{number // 1000 % 60:02}.{number % 1000:03}Z"
    return (
        f'{{"id":"request-{number:012}","at":"{at}","user":"user{number % 2000}","path":"/page/{number % 50}",'
        f'"bytes":{number * 7919 % 99_991}}}'
    ).encode()


class Log:
    """Numbers of events, in the order in which they are sent."""

    def __init__(self) -> None:
        self.next = 0
        self.last = np.empty(0, np.int64)
        self._dice = np.random.default_rng(1)

    def batch(self, kind: str, events: int) -> tuple[list[int], int]:
        """The numbers of one micro-batch, and how many of them are new."""
        if kind == "all":
            return self.last.tolist(), 0
        duplicates = self._dice.random(events) < (0.01 if kind == "1 %" else 0.0)
        fresh = int(events - duplicates.sum())
        numbers = np.empty(events, np.int64)
        numbers[~duplicates] = np.arange(self.next, self.next + fresh)
        sent = np.cumsum(~duplicates) + self.next
        back = self._dice.integers(1, BACK, events)
        numbers[duplicates] = np.maximum(sent - back, 0)[duplicates]
        self.next += fresh
        self.last = np.unique(numbers)
        return numbers.tolist(), fresh


def frame(spark: SparkSession, numbers: list[int], first: int) -> tuple[DataFrame, Ranges]:
    """The records of one micro-batch, by turns of both partitions, in Spark's memory."""
    schema = pa.schema([RECORDS_SCHEMA.field(name) for name in _COLUMNS])
    frames, ends = [], {}
    for partition in range(PARTITIONS):
        own = numbers[partition::PARTITIONS]
        columns = {
            "topic_id": ["T"] * len(own),
            "partition": [partition] * len(own),
            "offset": range(first, first + len(own)),
            "timestamp": [_START] * len(own),
            "value": list(map(value, own)),
        }
        frames.append(spark.createDataFrame(pa.table(columns, schema)).coalesce(1))
        ends["T", partition] = (first, first + len(own))
    records = frames[0]
    for each in frames[1:]:
        records = records.union(each)
    records = records.cache()
    records.count()
    return records, Ranges.of(ends)


def measured(spark: SparkSession, events: int, rounds: int) -> Iterator[tuple[str, float, float, int]]:
    """Of each micro-batch its kind, seconds, seconds of CPU of all processes, and number of jobs."""
    project = load_files(_FILES)
    task, views = Task(_FILES, "requests", {"pages": "f"}), {"f": project.views["pages"]}
    log, dedup_window, first = Log(), DedupWindow(600_000_000), 0
    # As in three speed layers: what one does next depends on the duplicates of the micro-batch before.
    workers = {kind: Workers() for kind in KINDS}
    for number in range(WARM_UP + rounds):
        for kind in KINDS:
            numbers, fresh = log.batch(kind, events)
            records, ranges = frame(spark, numbers, first)
            group = f"{number} {kind}"
            spark.sparkContext.setJobGroup(group, group)
            began, used = time.perf_counter(), _cpu()
            folded = fold_records(records, task, views, ranges, dedup_window, workers=workers[kind])
            dedup_window = dedup_window.extended(folded.identities, at=number, caught_up=number)
            seconds, cpu = time.perf_counter() - began, _cpu() - used
            jobs = len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))
            records.unpersist(blocking=True)
            first = max(end for _, ((_, end),) in ranges.intervals)
            assert folded.counts.events == fresh, f"{folded.counts.events} events of {fresh}"
            assert folded.counts.duplicates == len(numbers) - fresh
            if number >= WARM_UP:
                yield kind, seconds, cpu, jobs


def _cpu() -> float:
    """Seconds of CPU that this process and those below it have used."""
    this = psutil.Process()
    times = [each.cpu_times() for each in (this, *this.children(recursive=True))]
    used: float = sum(each.user + each.system for each in times)
    return used


def main() -> None:
    """Print a line for each kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=40_000, help="events of a micro-batch")
    parser.add_argument("--rounds", type=int, default=12)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return_freed_memory()  # as the speed layer does
        settings = Settings(state=folder, spark=Spark(master=f"local[{PARTITIONS}]"))
        spark = get_or_create_session(settings, "bench", environ=dict(os.environ), conf=CONF | of_executors() | _CONF)
        found = list(measured(spark, chosen.events, chosen.rounds))
        spark.stop()
    base = median(seconds for kind, seconds, _, _ in found if kind == "none")
    used = median(cpu for kind, _, cpu, _ in found if kind == "none")
    for kind in KINDS:
        own = [each for each in found if each[0] == kind]
        seconds, cpu = median(each[1] for each in own), median(each[2] for each in own)
        jobs = sum(each[3] for each in own)
        print(
            f"duplicates: {kind:<5} {seconds * 1000:7.0f} ms {seconds / base:6.2f} times none   "
            f"CPU {cpu * 1000:7.0f} ms {cpu / used:6.2f} times none   {jobs} jobs in {len(own)} micro-batches"
        )


if __name__ == "__main__":
    main()
