"""For any event times and timestamps both layers, at any cut, give the labels of plain Python that reads the log once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import chain, count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from tandem.batch.fold import fold, fold_job
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.location import Location
from tandem.ledger.files.file_ranges import EVENTS
from tandem.ledger.files.splits import Slice
from tandem.ledger.log.counts import Counts, plus
from tandem.ledger.log.positions import LOG_START, Position, ranges
from tandem.ledger.publish import adoption
from tandem.ledger.publish.label_counts import labels_below
from tandem.ledger.realtime.commits import Commit
from tandem.ledger.realtime.follower import Follower
from tandem.ledger.realtime_writer import Writer
from tandem.speed.dedup.dedup_window import DedupWindow
from tandem.speed.micro_batch import log_tail
from tandem.speed.micro_batch.fold import MicroBatchResult, fold_shares
from tandem.speed.micro_batch.follower_state import FollowerState
from tandem.speed.micro_batch.log_tail import UncommittedLog
from tandem.speed.micro_batch.task import Share, Task, share_of
from tandem.views.arrow.arrays import from_ipc, to_ipc
from tandem.views.kernel.kernel import decode, deduplicate, merge, merge_states, present
from tandem.views.kernel.partial import Partial
from tandem.views.project.project import load_files
from tandem.views.source.offset_ranges import Ranges
from tandem.views.source.source import RECORDS_SCHEMA, record_columns
from tandem.views.source.watermark import later, newest, watermark
from tandem.views.view import View
from tests.samples import share

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
US, SECOND, MINUTE = timedelta(microseconds=1), timedelta(seconds=1), timedelta(minutes=1)
LATENESS, IDLE, SKEW = 10 * SECOND, 60 * SECOND, timedelta(hours=1)
FILES = {
    "tandem.toml": b"",
    "definitions.py": b"""
from datetime import datetime, timedelta
from tandem import Event, Source, View, count, tumbling

class Tick(Event):
    id: int
    at: datetime

ticks = Source(
    topic="ticks", event=Tick, event_time="at", identity=("id",), lateness=timedelta(seconds=10), idle=timedelta(minutes=1),
    clock_skew=timedelta(hours=1),
)
per_minute = View(source=ticks, window=tumbling(minutes=1), measures={"n": count()})
SOURCES = (ticks,)
VIEWS = (per_minute,)
""",
}
PROJECT = load_files(FILES)
TICKS, VIEW = PROJECT.sources["ticks"], PROJECT.views["per_minute"]
PARTITIONS = (("T", 0), ("T", 1))

near = st.integers(-150, 150).map(lambda seconds: NOW + seconds * SECOND)
stamps = st.integers(-40, 40).map(lambda seconds: NOW + seconds * SECOND)
bounds = st.sampled_from([SKEW, SKEW + US])
"""By how much an event is after its record."""
hostile = st.sampled_from(
    [
        EPOCH,
        NOW + timedelta(hours=1),
        NOW + timedelta(hours=1) + US,
        NOW + timedelta(minutes=50),
        NOW - timedelta(minutes=50),
        NOW - timedelta(days=40),
        NOW + timedelta(days=40),
        datetime(2099, 12, 31, tzinfo=UTC),
    ]
)
"""Of events that the source takes for plausible, and of records."""


@dataclass(frozen=True)
class Told:
    """A record: its event's identity and time, its own timestamp."""

    id: int
    at: datetime
    stamp: datetime

    @property
    def ahead(self) -> bool:
        return self.at - self.stamp > SKEW


@st.composite
def logs(draw: st.DrawFn) -> list[list[list[Told]]]:
    """Micro-batches of what each partition adds; now and then a copy, whose timestamp is another."""
    numbers = count()
    times = near | near | near | hostile.filter(lambda at: at > EPOCH)
    records_of = st.lists(st.tuples(times, stamps | stamps | stamps | bounds | hostile, st.integers(0, 5)), max_size=4)
    made = []
    for _ in range(draw(st.integers(1, 5))):
        chunks = []
        for _ in PARTITIONS:
            chunk: list[Told] = []
            for at, stamp, copy in draw(records_of):
                told = chunk[0] if chunk and copy == 0 else Told(next(numbers), at, at)
                chunk.append(replace(told, stamp=told.at - stamp if isinstance(stamp, timedelta) else stamp))
            chunks.append(chunk)
        made.append(chunks)
    return [chunks for chunks in made if any(chunks)] or [[[Told(next(numbers), NOW, NOW)], []]]


def records(log: Sequence[Sequence[Told]], start: Position, end: Position) -> pa.Table:
    rows = [
        {
            "topic_id": topic,
            "partition": number,
            "offset": offset,
            "timestamp": one.stamp,
            "timestamp_type": 0,
            "value": msgspec.json.encode({"id": one.id, "at": one.at.isoformat()}),
        }
        for (topic, number), values in zip(PARTITIONS, log, strict=True)
        for offset, one in enumerate(values)
        if start.get((topic, number), 0) <= offset < end.get((topic, number), 0)
    ]
    names = record_columns(TICKS)
    return pa.Table.from_pylist(
        [{name: row[name] for name in names} for row in rows], pa.schema([RECORDS_SCHEMA.field(n) for n in names])
    )


@dataclass
class Plain:
    """Plain Python that reads the log once, micro-batch by micro-batch, and knows every event's window by itself."""

    seen: set[int] = field(default_factory=set)
    maxima: dict[int, tuple[datetime, datetime]] = field(default_factory=dict)
    late: int = 0
    ahead: int = 0
    after_final: int = 0
    reached: datetime | None = None
    rows: dict[datetime, int] = field(default_factory=dict)

    def read(self, chunks: Sequence[Sequence[Told]]) -> None:
        before = self.reached
        for number, chunk in enumerate(chunks):
            for one in chunk:
                self.ahead += one.ahead
                if one.id not in self.seen:
                    self.seen.add(one.id)
                    self.count(number, one, before)
        self.reached = max((time for time in (before, self.at_once()) if time), default=None)

    def count(self, number: int, one: Told, before: datetime | None) -> None:
        if not one.ahead:
            times = (one.at, one.stamp)
            self.maxima[number] = tuple(map(max, self.maxima.get(number, times), times))  # type: ignore[assignment]
        self.late += number in self.maxima and self.maxima[number][0] - one.at > LATENESS
        end = self.window(one.at) + MINUTE
        self.after_final += before is not None and end + LATENESS <= before
        self.rows[self.window(one.at)] = self.rows.get(self.window(one.at), 0) + 1

    def at_once(self) -> datetime | None:
        """The watermark of what has been read, whatever it was before."""
        last = max((stamp for _, stamp in self.maxima.values()), default=EPOCH)
        return min((at for at, stamp in self.maxima.values() if last - stamp <= IDLE), default=None)

    @staticmethod
    def window(at: datetime) -> datetime:
        return EPOCH + (at - EPOCH) // MINUTE * MINUTE

    def labelled(self) -> dict[datetime, tuple[int, str]]:
        """The rows and their labels."""
        return {start: (n, self.label(start + MINUTE)) for start, n in self.rows.items()}

    def label(self, end: datetime) -> str:
        if self.reached is None or self.reached < end:
            return "open"
        return "final" if end + LATENESS <= self.reached else "on_time"


def us(time: datetime | None) -> int | None:
    return None if time is None else (time - EPOCH) // US


def by_shares(
    records: pa.Table, task: Task, views: dict[str, View], covered: Ranges, dedup_window: DedupWindow, **_: object
) -> MicroBatchResult:
    """A micro-batch as `fold_records` folds it, a task for each partition, without Spark."""

    def run(task: Task) -> list[Share]:
        parts = (records.filter(pa.compute.equal(records["partition"], number)) for _, number in PARTITIONS)
        return [share_of(task, part) for part in parts if part.num_rows]

    return fold_shares(run, task, views, covered, dedup_window)


def tail_of(tables: Tables, live: Any) -> UncommittedLog:
    """A speed layer that starts, as `Follow` starts one: it knows what its commits say."""
    fingerprint = live.views["per_minute"].fingerprint
    writer = Writer.claim(tables, live.release, "ticks", by="test", at=NOW)
    commits = Follower(tables, live.release, "ticks").poll()
    state = FollowerState(
        DedupWindow(0),
        end=writer.end,
        maxima=newest(one.maxima for one in commits),
        watermark=later(*(one.watermark for one in commits)),
        epoch=writer.epoch,
        by="test",
        idle=TICKS.idle,
    )
    task = Task(FILES, "ticks", {"per_minute": fingerprint})
    return UncommittedLog(task, TICKS, {fingerprint: VIEW}, writer, live, lambda: NOW, state)


def in_batch(
    folder: Path, log: Sequence[Sequence[Told]], start: Position, end: Position, number: int
) -> fold_job.TaskCounts | None:
    """What a batch task finds in a range, duplicates that the whole log has left out."""
    whole = deduplicate(TICKS, decode(TICKS, records(log, LOG_START, end)).events).events
    events = decode(TICKS, records(log, start, end)).events
    if not events.num_rows:
        return None
    kept = set(zip(*(whole[name].to_pylist() for name in EVENTS.names), strict=True))
    every = list(zip(*(events[name].to_pylist() for name in EVENTS.names), strict=True))
    drops = events.select(EVENTS.names).filter(pa.array([place not in kept for place in every]))
    pq.write_table(events, folder / f"events-{number}.parquet")
    pq.write_table(drops, folder / f"drops-{number}.parquet")
    here = Location(str(folder))
    work = fold_job.FoldJob(FILES, "ticks", here, {"per_minute": here}, here, (f"drops-{number}.parquet",), None, 1)
    (found,) = [
        one
        for _, one in fold._fold(work, Slice(ranges(start, end), (f"events-{number}.parquet",), 0))
        if isinstance(one, fold_job.TaskCounts)
    ]
    return found


def positions(log: Sequence[Sequence[Sequence[Told]]]) -> Iterator[Position]:
    """Where each micro-batch ends."""
    ends = [0 for _ in PARTITIONS]
    for chunks in log:
        ends = [end + len(chunk) for end, chunk in zip(ends, chunks, strict=True)]
        yield Position.of({place: end for place, end in zip(PARTITIONS, ends, strict=True) if end})


@share(60, quick=12)
@given(logs(), st.integers(0, 5), st.integers(0, 5))
def test_both_layers_label_events_as_plain_python_does(log: list[list[list[Told]]], restart: int, cut: int) -> None:
    """Watermark, late, ahead, after_final, labels: after every micro-batch, over a restart, at any cut, by batch alone too."""
    whole = [list(chain.from_iterable(chunks)) for chunks in zip(*log, strict=True)]
    ends, plain = list(positions(log)), Plain()
    at_once: list[datetime | None] = []
    with TemporaryDirectory() as folder, patch.object(log_tail, "fold_records", by_shares):
        tables = Tables(folder)
        live = adoption.live(tables, lambda: PROJECT, by="test", at=NOW)
        speed, commits, start = tail_of(tables, live), list[Commit](), LOG_START
        for number, chunks in enumerate(log):
            if number == restart:
                speed = tail_of(tables, live)
            commits.append(speed.extend(records(whole, start, ends[number]), ends[number], still_there=lambda: None))
            start = ends[number]
            plain.read(chunks)
            at_once.append(plain.at_once())
            counts = plus(*(commit.counts for commit in commits))
            assert commits[-1].watermark == us(plain.reached)
            assert (counts.late, counts.ahead, counts.events) == (plain.late, plain.ahead, len(plain.seen))
            assert sum(sum(commit.after_final.values()) for commit in commits) == plain.after_final
            assert answered(commits) == plain.labelled()
        place = min(cut, len(ends) - 1)
        below, apart = ends[place], ends[place // 2]
        found = [
            one
            for number, (low, high) in enumerate(((LOG_START, apart), (apart, below)))
            if (one := in_batch(Path(folder), whole, low, high, number))
        ]
        maxima = newest(one.maxima for one in found)
        counted = plus(*(Counts(one.events, ahead=one.ahead) for one in found))
        passed = plus(*(commit.counts for commit in commits[: place + 1]))
        assert (counted.events, counted.ahead) == (passed.events, passed.ahead)
        assert max(one.newest or 0 for one in found) == max(us(one.newest) or 0 for one in commits[: place + 1] if one.newest)
        # Where nobody followed the log, what the batch has read tells how far event time has come; else what answers have said.
        assert watermark(maxima, TICKS.idle) == us(at_once[place])
        names = {"per_minute": live.views["per_minute"].fingerprint}
        labels = labels_below(tables, live, "ticks", below, views=names, maxima=maxima, idle=TICKS.idle)
        assert (labels.watermark, labels.late) == (commits[place].watermark, passed.late)
        assert labels.after_final == {"per_minute": sum(sum(one.after_final.values()) for one in commits[: place + 1])}


def answered(commits: Sequence[Commit]) -> dict[datetime, tuple[int, str]]:
    """The rows of all commits at the watermark of the last."""
    states = [Partial(from_ipc(blob)) for commit in commits for blob in commit.partials.values()]
    rows = present(VIEW, merge(VIEW, states), commits[-1].watermark).to_pylist()
    return {row["window_start"]: (row["n"], row["window_state"]) for row in rows}


def test_clocks_do_not_change_states() -> None:
    """What is ahead counts in every number: states do not depend on timestamps."""
    log = [[Told(number, NOW + timedelta(days=400 * (number % 2)), stamp) for number in range(4)] for stamp in (NOW, EPOCH)]
    ends = Position.of({("T", 0): 4})
    folded = [
        share_of(Task(FILES, "ticks", {"per_minute": "f"}), records([values, []], LOG_START, ends)).partials["f"]
        for values in log
    ]
    one, other = (to_ipc(merge_states(VIEW, [from_ipc(blob)])) for blob in folded)
    assert one == other
