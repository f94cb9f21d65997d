"""Spark's tasks and a topic in this process, for laws of whole commands that need neither a JVM nor a broker.

Tasks run one after the other, in the partitions that Spark would give them; functions and items are pickled as they are on the
way to Spark's workers. What Spark and Kafka themselves do is tested with the real ones.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain, count
from threading import Event
from types import SimpleNamespace
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle

import tandem.speed.hot.follow
from tandem.batch.runtime.session import BatchRun, Lock
from tandem.infra import kafka
from tandem.infra.kafka import Address, Record, Topic, broker
from tandem.infra.kafka.bulk_reader import LogMoved, ReadRecords
from tandem.infra.spark.header_texts import with_texts
from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.location import Location
from tandem.ledger.delta.one_writer import write_leases
from tandem.ledger.delta.one_writer.write_leases import Owner
from tandem.ledger.log.positions import Position
from tandem.speed.source import record_frames
from tandem.speed.source.query import Query
from tandem.views.errors import TandemError
from tandem.views.instant import microseconds
from tandem.views.source.offset_ranges import Interval, Offsets, Partition, Ranges
from tandem.views.source.source import RECORDS_SCHEMA, Source, record_columns
from tandem.views.topic_names import TopicPattern
from tests.stack import environ

_IDS = count(1)
_AT_ONCE: Final = 1000
ADDRESS: Final = Address("in this process", {}, 1)


def _sent(value: Any) -> Any:
    """The value as a worker gets it."""
    return cloudpickle.loads(cloudpickle.dumps(value))


@dataclass(frozen=True)
class _Partitions:
    """For an RDD: its partitions."""

    parts: Sequence[Iterable[Any]]

    def map(self, work: Callable[[Any], Any]) -> "_Partitions":
        return self.mapPartitions(partial(map, _sent(work)))

    def flatMap(self, work: Callable[[Any], Iterable[Any]]) -> "_Partitions":  # noqa: N802  Spark's name
        each = _sent(work)
        return self.mapPartitions(lambda items: chain.from_iterable(map(each, items)))

    def partitionBy(self, partitions: int, of: Callable[[Any], int]) -> "_Partitions":  # noqa: N802  Spark's name
        found: list[list[Any]] = [[] for _ in range(partitions)]
        for pair in _sent(self.collect()):
            found[of(pair[0]) % partitions].append(pair)
        return _Partitions(found)

    def mapPartitions(self, work: Callable[[Iterator[Any]], Iterable[Any]]) -> "_Partitions":  # noqa: N802  Spark's name
        return _Partitions([list(work(iter(part))) for part in self.parts])

    def collect(self) -> list[Any]:
        return [value for part in self.parts for value in part]


@dataclass(frozen=True)
class Tasks:
    """For a SparkSession, of which tasks need nothing but this."""

    defaultParallelism: int = 2  # noqa: N815  Spark's name

    @property
    def sparkContext(self) -> "Tasks":  # noqa: N802  Spark's name
        return self

    def parallelize(self, items: Sequence[Any], partitions: int) -> _Partitions:
        assert partitions == len(items), "one task each"
        return _Partitions([[item] for item in _sent(list(items))])


@dataclass(frozen=True)
class Run(BatchRun):
    """A batch run whose tasks run in this process, alone on its tables."""

    _session: Any = field(default_factory=Tasks)

    def hold(self, name: Lock) -> None:
        """Nobody else runs, and no thread renews a lease."""
        if not self.tables.local and name not in self._leases:
            owner = Owner(f"tandem {self.by}", "here", 1, self.now(), place=self.settings.state)
            self._leases[name] = write_leases.take(self.tables, name, owner, patience=0, say=self.say, duration_s=3600)


def run(settings: Any, command: str, *, say: Callable[[str], None] = lambda _: None, tasks: int = 2) -> Run:
    return Run(settings, command, now=lambda: datetime.now(UTC), say=say, environ=environ(), _session=Tasks(tasks))


@dataclass
class MemoryTopic:
    """A topic: the records of each partition, `None` where an offset has no record, and the first offset that is left."""

    topic: Topic
    rows: dict[int, list[Mapping[str, Any] | None]]
    starts: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, *, partitions: int = 2) -> "MemoryTopic":
        number = next(_IDS)
        return cls(Topic(f"topic{number}", f"id-{number:020}", partitions), {each: [] for each in range(partitions)})

    def append(self, values: Sequence[bytes | None], *, partition: int = 0, at: datetime | None = None) -> None:
        moment = at or datetime.now(UTC)
        moment = moment.replace(microsecond=moment.microsecond // 1000 * 1000)  # a record's timestamp is in milliseconds
        for value in values:
            place = {"topic_id": self.topic.id, "partition": partition, "offset": len(self.rows[partition])}
            more = {"timestamp": moment, "timestamp_type": 0, "key": None, "value": value, "headers": None}
            self.rows[partition].append({**place, **more})

    @property
    def end(self) -> Position:
        return Position.of({(self.topic.id, number): len(rows) for number, rows in self.rows.items()})

    def grow(self, partitions: int) -> None:
        """Have more partitions."""
        self.topic = replace(self.topic, partitions=partitions)
        self.rows |= {number: [] for number in range(len(self.rows), partitions)}

    def again(self) -> None:
        """Be deleted, and created again under the name."""
        self.topic = replace(self.topic, id=f"id-{next(_IDS):020}")
        self.rows, self.starts = {number: [] for number in self.rows}, {}

    def skip(self, partition: int, offsets: int = 1) -> None:
        """Offsets without a record, as a transaction leaves them."""
        self.rows[partition] += [None] * offsets

    def cut_back(self, partition: int, end: int) -> None:
        """As an older copy of a broker's volume does."""
        del self.rows[partition][end:]

    def delete_below(self, offsets: Mapping[int, int]) -> None:
        """As retention does."""
        self.starts |= offsets

    def fetched(self, topic: Topic, covered: Ranges) -> dict[int, list[Mapping[str, Any]]]:
        """The records of these ranges that are left, by partition: by the topic's name, under the id that the reader knows."""
        found: dict[int, list[Mapping[str, Any]]] = {}
        for (of, number), intervals in covered.intervals:
            if of == topic.id:
                ranges = chain.from_iterable(range(max(low, self.starts.get(number, 0)), high) for low, high in intervals)
                rows = [self.rows[number][offset] for offset in ranges]
                found[number] = [{**row, "topic_id": topic.id} for row in rows if row is not None]
        return found


def _milliseconds(row: Mapping[str, Any]) -> int:
    return microseconds(row["timestamp"]) // 1000


@dataclass
class MemoryBroker:
    """Topics by name, as `tandem.infra.kafka` asks for them."""

    topics: dict[str, MemoryTopic] = field(default_factory=dict)

    def new_topic(self, name: str | None = None, *, partitions: int = 2) -> MemoryTopic:
        made = MemoryTopic.of(partitions=partitions)
        made.topic = replace(made.topic, name=name or made.topic.name)
        self.topics[made.topic.name] = made
        return made

    def stand_in(self, patch: pytest.MonkeyPatch) -> None:
        """Be asked and copied from in place of a broker."""
        patch.setattr(kafka, "connect", lambda _: SimpleNamespace(address=ADDRESS))
        patch.setattr(broker, "address", lambda _: ADDRESS)
        patch.setattr(kafka, "topics", self._topics)
        patch.setattr(
            kafka, "describe", lambda _, names: {name: self.topics[name].topic for name in names if name in self.topics}
        )
        patch.setattr(kafka, "matching", self._matching)
        patch.setattr(kafka, "starts", self._starts)
        patch.setattr(kafka, "ends", self._ends)
        patch.setattr(kafka, "first_at", self._first_at)
        patch.setattr(kafka, "records_at", self._records_at)
        kept = {"cleanup.policy": "delete", "retention.ms": "604800000", "retention.bytes": "-1"}
        patch.setattr(kafka, "configurations", lambda _, names: dict.fromkeys(names, kept))
        patch.setattr(kafka, "records_within", self._records_within)

    def _topics(self, _: object, names: Sequence[str]) -> tuple[Topic, ...]:
        if missing := [name for name in names if name not in self.topics]:
            raise kafka.NoTopic(f"topic '{missing[0]}' does not exist")
        return tuple(self.topics[name].topic for name in names)

    def _matching(self, _: object, pattern: TopicPattern) -> tuple[Topic, ...]:
        return tuple(self.topics[name].topic for name in sorted(self.topics) if pattern.matches(name))

    def _starts(self, _: object, topics: Sequence[Topic]) -> Offsets:
        return {(each.id, n): self.topics[each.name].starts.get(n, 0) for each in topics for n in range(each.partitions)}

    def _ends(self, _: object, topics: Sequence[Topic]) -> Offsets:
        return {(each.id, n): len(self.topics[each.name].rows[n]) for each in topics for n in range(each.partitions)}

    def _first_at(self, _: object, topics: Sequence[Topic], milliseconds: int) -> Offsets:
        found: dict[tuple[str, int], int] = {}
        for topic, number in ((each, number) for each in topics for number in range(each.partitions)):
            log = self.topics[topic.name]
            rows = enumerate(log.rows[number][log.starts.get(number, 0) :], log.starts.get(number, 0))
            late = (offset for offset, row in rows if row is not None and _milliseconds(row) >= milliseconds)
            if (first := next(late, None)) is not None:
                found[topic.id, number] = first
        return found

    def _records_at(self, _: object, topics: Sequence[Topic], offsets: Offsets) -> dict[tuple[str, int], Record | None]:
        found: dict[tuple[str, int], Record | None] = {}
        for topic in topics:
            for (of, number), offset in offsets.items():
                rows = self.topics[topic.name].fetched(topic, Ranges.of({(of, number): (offset, offset + 1)})).get(number, [])
                if of == topic.id:
                    found[of, number] = next((Record(_milliseconds(row), row["key"], row["value"]) for row in rows), None)
        return found

    def _records_within(
        self, _: object, topics: Sequence[Topic], place: Partition, interval: Interval, *, columns: Sequence[str]
    ) -> Iterator[pa.Table]:
        """In tables of a few records, and one without any."""
        yield pa.Table.from_pylist([], RECORDS_SCHEMA).select(columns)
        (topic,) = (each for each in topics if each.id == place[0])
        rows = self.topics[topic.name].fetched(topic, Ranges.of({place: interval})).get(place[1], [])
        for start in range(0, len(rows), _AT_ONCE):
            yield pa.Table.from_pylist(rows[start : start + _AT_ONCE], RECORDS_SCHEMA).select(columns)


@dataclass(frozen=True)
class Frame:
    """For a DataFrame of records: what each task reads of them."""

    tasks: tuple[pa.Table, ...]

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]], source: Source) -> "Frame":
        """A task for each partition that has records, and one without any."""
        found: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
        for row in rows:
            found.setdefault((row["topic_id"], row["partition"]), []).append(row)
        tables = (pa.Table.from_pylist(each, RECORDS_SCHEMA) for each in ([], *found.values()))
        return cls(tuple(table.select(record_columns(source)) for table in tables))

    def mapInArrow(self, work: Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]], _: str) -> Any:  # noqa: N802
        each = _sent(work)
        found = [batch for table in self.tasks for batch in each(map(with_texts, table.to_batches()))]
        schema = pa.schema([("share", pa.binary())])
        return SimpleNamespace(toArrow=lambda: pa.Table.from_batches(found, schema))


@dataclass
class Streaming:
    """For a StreamingQuery: its micro-batches come when they are asked for, from `at` on, of at most `most` offsets."""

    query: Query
    broker: MemoryBroker
    at: dict[tuple[str, int], int]
    most: int
    batches: int = 0
    isActive: bool = True  # noqa: N815  Spark's name
    id: str = "query"
    raised: BaseException | None = None

    def exception(self) -> BaseException | None:
        """What Spark says; what a micro-batch raised, the query itself has kept."""
        return self.raised

    def fails(self, error: BaseException | None = None) -> None:
        """End, as a query does that cannot fetch."""
        self.isActive, self.raised = False, error

    def stop(self) -> None:
        self.isActive = False

    def trigger(self, shares: Callable[[], float] = lambda: 1.0) -> int:
        """One micro-batch, if there is something new, of a share of what each partition has. Returns the planned offsets."""
        topics, left, ends = self.query.log.topics, self.most, {}
        for topic in topics:
            for number in range(topic.partitions):
                start = self.at[topic.id, number]
                there = len(self.broker.topics[topic.name].rows[number]) - start
                ends[topic.id, number] = start + min(left, round(there * shares()))
                left -= ends[topic.id, number] - start
        if ends == self.at:
            return 0
        covered = Ranges.of({place: (start, ends[place]) for place, start in self.at.items()})
        found = [
            row for topic in topics for rows in self.broker.topics[topic.name].fetched(topic, covered).values() for row in rows
        ]
        planned = {topic.name: {str(n): ends[topic.id, n] for n in range(topic.partitions)} for topic in topics}
        plan = self.query.checkpoint / "offsets" / str(self.batches)
        plan.parent.mkdir(parents=True, exist_ok=True)
        plan.write_text(f"v1\n{{}}\n{json.dumps(planned)}\n")
        try:
            self.query.trigger(found, self.batches)  # type: ignore[arg-type]
        except TandemError:
            self.isActive = False
        self.batches, self.at = self.batches + 1, ends
        return covered.length


def speed_stands_in(patch: pytest.MonkeyPatch, broker: MemoryBroker) -> None:
    """Have the speed layer read records in this process, and start queries that wait for `Streaming.trigger`."""

    def of_log(_: object, __: object, topics: Sequence[Topic], source: Source, *, starts: Offsets, ends: Offsets) -> Frame:
        assert starts.keys() == ends.keys() == {(each.id, n) for each in topics for n in range(each.partitions)}
        covered = Ranges.of({place: (start, ends[place]) for place, start in starts.items()})
        found = (broker.topics[topic.name].fetched(topic, covered).values() for topic in topics)
        return Frame.of((row for each in found for rows in each for row in rows), source)

    def of_archive(_: object, tables: Tables, source: Source, covered: Ranges) -> Frame:
        assert covered.intervals, "records of no range are not read"
        address = tables.archive(source.name)
        handle = delta_tables.open_table(tables, address)
        files = (
            [] if handle is None else [Location.of(tables, address).address + "/" + each for each in delta_tables.files(handle)]
        )
        rows = (row for file in files for row in pq.read_table(file).cast(RECORDS_SCHEMA).to_pylist())
        within = dict(covered.intervals)

        def inside(row: Mapping[str, Any]) -> bool:
            intervals = within.get((row["topic_id"], row["partition"]), ())
            return any(start <= row["offset"] < end for start, end in intervals)

        return Frame.of((row for row in rows if inside(row)), source)

    def start(query: Query, _: object, __: object, *, starts: Offsets, most: int, pause_ms: int) -> Streaming:
        assert pause_ms >= 0
        return Streaming(query, broker, dict(starts), most)

    patch.setattr(record_frames, "of_kafka", lambda rows, _, source: Frame.of(rows, source))
    patch.setattr(record_frames, "of_log", of_log)
    patch.setattr(record_frames, "of_archive", of_archive)
    patch.setattr(Query, "start", start)


@dataclass
class Reading:
    """For a BulkReader: what topics in memory have under the names of these."""

    broker: MemoryBroker
    topics: Sequence[Topic]
    at: dict[tuple[str, int], int]
    columns: Sequence[str]

    def read(self, *, most: int, wait_s: float) -> ReadRecords:
        """Up to `most` records, the first partition's first; without any it waits."""
        found: list[Mapping[str, Any]] = []
        for topic in self.topics:
            there = self.broker.topics[topic.name]
            for number in range(topic.partitions):
                start = self.at[topic.id, number]
                if start < there.starts.get(number, 0):
                    raise LogMoved("out of range")
                end = max(start, min(len(there.rows[number]), start + most - len(found)))
                found += there.fetched(topic, Ranges.of({(topic.id, number): (start, end)})).get(number, [])
                self.at[topic.id, number] = end
        if not found:
            Event().wait(wait_s)
        return ReadRecords(self._table(found), dict(self.at))

    def nothing(self) -> pa.Table:
        """No records."""
        return self._table([])

    def close(self) -> None:
        """Nothing is open."""

    def _table(self, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
        return pa.Table.from_pylist([*rows], RECORDS_SCHEMA).select(self.columns)


def hot_stands_in(patch: pytest.MonkeyPatch, broker: MemoryBroker) -> None:
    """Have hot tails read records in this process."""

    def reader(_: Address, topics: Sequence[Topic], starts: Offsets, *, columns: Sequence[str]) -> Reading:
        return Reading(broker, topics, dict(starts), columns)

    patch.setattr(tandem.speed.hot.follow, "BulkReader", reader)
