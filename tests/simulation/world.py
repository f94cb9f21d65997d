"""The environment of the ledger in a simulation: clock, locks, topic, and a few counting lines instead of Spark.

What decides runs as it is: all of ledger/; archive, recompute, apply, maintain of batch/; tail and upkeep of speed/; following of
serving/. What that calls to copy, decode and fold is replaced by functions that read and write the same tables
through the same waist, ledger/delta/delta_tables.py.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tandem.batch.archive.copy
import tandem.batch.archive.decode_runs
import tandem.batch.archive.decode_to_files
import tandem.batch.archive.write_archive
import tandem.batch.maintain.maintain
import tandem.batch.recompute.build
import tandem.batch.recompute.recompute
import tandem.batch.recompute.wait_for_cut
import tandem.batch.release.apply
import tandem.batch.runtime.scratch
import tandem.batch.runtime.table_locks
import tandem.infra.kafka.source_topics
import tandem.ledger.delta.delta_tables
import tandem.ledger.delta.journal
import tandem.ledger.delta.one_writer.write_leases
import tandem.ledger.files.file_ranges
import tandem.ledger.publish.adoption
import tandem.ledger.publish.batch_parts
import tandem.ledger.publish.publications
import tandem.ledger.realtime.commit_files
import tandem.ledger.realtime_writer
import tandem.speed.micro_batch.log_tail
import tandem.speed.micro_batch.maintenance
import tandem.speed.source.follow
import tandem.speed.source.query
import tandem.speed.source.start_position
from tandem.batch.archive.copy_task import Copied as CopiedFiles
from tandem.batch.archive.decode_to_files import DecodeResult, Decoding
from tandem.batch.fold.fold_job import VERSION, ViewFile
from tandem.batch.rebuild.account import BatchViews, refuse_unexplained
from tandem.batch.rebuild.inputs import SERVED, Comparison, EarlierStates, LogRange, ViewTarget
from tandem.batch.recompute.estimate import Expected
from tandem.batch.runtime import delta_commits
from tandem.batch.runtime.parquet_writer import Written
from tandem.batch.runtime.spark_jobs import TaskFailed
from tandem.infra.kafka import Address, NoTopic, Topic
from tandem.infra.settings import BatchSettings, KeepSettings, LineageSettings, RegistrySettings, SpeedSettings, StorageSettings
from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.delete_table_files import Freed
from tandem.ledger.delta.location import Location
from tandem.ledger.delta.one_writer import write_leases
from tandem.ledger.delta.one_writer.write_leases import Lease, Owner
from tandem.ledger.files.file_ranges import RECORDS, FileRange
from tandem.ledger.log.archived_range import archived_range
from tandem.ledger.log.counts import Counts
from tandem.ledger.log.positions import Position, ranges
from tandem.ledger.log.registry_schemas import RegistrySchemas
from tandem.ledger.publish.batch_parts import files_of, starting_within, still_live
from tandem.ledger.publish.releases import Releases
from tandem.ledger.publish.standing import StandingReleases
from tandem.speed.dedup.dedup_window import DedupWindow
from tandem.speed.micro_batch.fold import MicroBatchResult
from tandem.speed.micro_batch.maintenance import tend
from tandem.speed.source.counted_at import CountedLog, divided
from tandem.speed.source.restore_identities import begun
from tandem.speed.source.start_position import Beginning
from tandem.views.errors import TandemError
from tandem.views.project.project import Project
from tandem.views.source.offset_ranges import Interval, Partition, Ranges
from tandem.views.source.source import Source
from tests.simulation import numbers
from tests.simulation.numbers import SOURCE, Event, Found, Log, States, decode, encode, from_rows, states, to_rows, united
from tests.simulation.plain_tables import ARROW, PARQUET, Rows, Within
from tests.simulation.processes import Process, Schedule
from tests.simulation.store import DeltaTable, Files, Handles, Store, write_deltalake

ROOT = "/simulated"


@dataclass(frozen=True)
class Addresses(Tables):
    """Without a look at the file system: addresses are asked for all the time.

    If they are `leased`, the tables are on an object store, where leases guard them.
    """

    root: str = ROOT
    leased: bool = False

    @property
    def local(self) -> bool:
        return not self.leased

    def _at(self, *names: str) -> str:
        return "/".join((ROOT, *names))


@dataclass
class World:
    """Everything that a schedule has in common; `definitions` is the number of those in the working tree."""

    store: Store = field(default_factory=Store)
    schedule: Schedule = field(default_factory=Schedule)
    log: Log = field(default_factory=Log)
    tables: Tables = field(default_factory=Addresses)
    time: datetime = numbers.BEGIN
    definitions: int = 0
    keep: KeepSettings = field(default_factory=KeepSettings)
    locks: dict[str, Process] = field(default_factory=dict)
    trace: list[str] = field(default_factory=list)
    numbers: int = 0
    received: list[tuple[Event, datetime]] = field(default_factory=list)
    """The newest events that are no copies, and when the log received them."""
    topics: int = 1
    """How many topics have had the name."""
    machines: int = 2
    """On how many the processes run, if tables are on an object store."""
    counted_of_former: dict[Partition, int] = field(default_factory=dict)
    """How far topics that are gone were archived or counted by the live release, when they went."""

    def copy(self) -> "World":
        """The same tables and log, to go on from; no process runs."""
        return replace(
            self,
            store=self.store.copy(),
            schedule=Schedule(),
            log=self.log.copy(),
            locks={},
            trace=[],
            received=[*self.received],
            counted_of_former={**self.counted_of_former},
        )

    def now(self) -> datetime:
        """The clock, which goes on whenever it is read."""
        self.time += timedelta(milliseconds=7)
        return self.time

    def number(self) -> int:
        """Another one each time: in place of what else is drawn at random."""
        self.numbers += 1
        return self.numbers

    def say(self, what: str) -> None:
        """Add a line to the trace, under the name of the process that runs."""
        process = self.schedule.current
        self.trace.append(f"{process.name}: {what}" if process else what)

    def working_tree(self) -> Project:
        return numbers.definitions(self.definitions)

    def looks(self, what: str) -> None:
        """An I/O call that no table takes part in."""
        self.store.io.step(what)

    def rows(self, address: str) -> list[Mapping[str, Any]]:
        """What a table holds now, for the oracle: no I/O call of the process that runs."""
        stored = self.store.tables.get(address)
        return [] if stored is None else [row for path in stored.versions[-1].files for row in stored.content[path].rows]

    @property
    def missing(self) -> set[tuple[Partition, int]]:
        """The offsets that named gaps have, with their partitions."""
        found = (Ranges.from_json(json.loads(row["ranges"])) for row in self.rows(self.tables.control("gaps")))
        return {
            (partition, offset)
            for gap in found
            for partition, intervals in gap.intervals
            for interval in intervals
            for offset in range(*interval)
        }

    def hold(self, tables: Tables, name: str) -> Lease | None:
        """Wait until no process of the same machine holds the lock, which is free as soon as its process has ended.

        Then take the lease, if tables have leases. Whoever has waited for others sees what they wrote: a file system that locks
        sees to that, and an object store shows each commit to all reads after it.
        """
        process, lease = self.schedule.current, None
        machine = process.site % self.machines if process is not None and not tables.local else 0
        lock = f"{name} of machine {machine}"
        while (holder := self.locks.get(lock)) is not None and not holder.done:
            self.schedule.change_over(waits=True, before=f"wait for lock {name}")
        if process is not None:
            self.locks[lock] = process
        if not tables.local:
            owner, clock = Owner(process.name if process else "a test", "", 0, numbers.BEGIN, lock), _Stopped(self)
            lease = write_leases.take(tables, name, owner, patience=math.inf, say=self.say, clock=clock, sleep=clock.sleep)
        if process is not None:
            process.seen |= {address: len(stored.versions) - 1 for address, stored in self.store.tables.items()}
            process.tokens |= {} if lease is None else {name: lease.token}
        return lease

    def has_lost(self, process: Process) -> bool:
        """Whether another process has taken a lease from this one."""
        rows = {name: self.rows(self.tables.control("leases", name)) for name in process.tokens}
        return any(row["token"] > process.tokens[name] for name, found in rows.items() for row in found)


@dataclass
class _Stopped:
    """A clock that stands still, so that its process never stops by itself: it is for the tokens to stop it.

    While it waits for a lease, all of the lease's duration may go by at any look, whatever the holder does.
    """

    world: World
    time: float = 0.0

    def __call__(self) -> float:
        return self.time

    def sleep(self, _: float) -> None:
        self.world.schedule.change_over(before="wait for a lease")
        self.time += write_leases.DURATION_S if self.world.store.io.overtakes() else 0


@dataclass(frozen=True)
class Run:
    """In place of tandem.batch.runtime.session.Run."""

    world: World
    by: str
    session: None = None
    parallelism: int = 1
    leases: dict[str, Lease] = field(default_factory=dict)

    @cached_property
    def tables(self) -> Tables:
        return replace(self.world.tables, leases=self.leases)

    def schemas_of(self, _: object) -> RegistrySchemas:
        """No source of a simulation reads a registry."""
        return RegistrySchemas(RegistrySettings())

    @cached_property
    def standing(self) -> StandingReleases:
        return StandingReleases(self.tables)

    @cached_property
    def releases(self) -> Releases:
        return Releases(self.tables)

    @property
    def settings(self) -> Any:
        return settings(self.world)

    def now(self) -> datetime:
        for lease in self.leases.values():
            if self.world.store.io.renews():
                with suppress(TandemError):
                    lease.renew()
        return self.world.now()

    def say(self, what: str) -> None:
        self.world.say(what)

    def hold(self, name: str) -> None:
        if name not in self.leases and (lease := self.world.hold(self.tables, name)) is not None:
            self.leases[name] = lease

    @contextmanager
    def releasing(self) -> Iterator[Any]:
        """Release the leases at the end; a process that is killed cannot."""
        try:
            yield self
        finally:
            for lease in self.leases.values():
                lease.release()


def settings(world: World) -> Any:
    return SimpleNamespace(
        storage=StorageSettings(root=ROOT),
        folder=Path(ROOT),
        state=ROOT,
        keep=world.keep,
        batch=BatchSettings(),
        lineage=LineageSettings(),
        speed=SpeedSettings(),
    )


class Present:
    """The world that the replaced functions belong to now."""

    world = World()

    @classmethod
    def enter(cls, world: World) -> None:
        cls.world, Handles.store = world, world.store


def world() -> World:
    return Present.world


@contextmanager
def surroundings() -> Iterator[None]:
    """Replace what lies below the waist and beside the decisions, in favour of the world that is entered then."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (
            *(tandem.ledger.delta.delta_tables, tandem.ledger.delta.journal, tandem.ledger.delta.one_writer.write_leases),
            *(tandem.ledger.realtime.commit_files, tandem.ledger.publish.batch_parts),
        ):
            patch.setattr(module, "pa", ARROW)
        patch.setattr(tandem.ledger.delta.delta_tables, "pq", PARQUET)
        patch.setattr(tandem.ledger.delta.delta_tables, "DeltaTable", DeltaTable)
        patch.setattr(
            tandem.ledger.delta.delta_tables, "column_names", lambda _: tandem.ledger.realtime.commit_files.SCHEMA.names
        )
        patch.setattr(tandem.ledger.delta.delta_tables, "write_deltalake", write_deltalake)
        patch.setattr(tandem.ledger.delta.delta_tables, "storage", Files.of)
        patch.setattr(tandem.ledger.delta.delta_tables, "do_without_pandas", lambda: None)
        patch.setattr(Tables, "make_root", lambda _: None)
        patch.setattr(tandem.ledger.delta.journal, "time", SimpleNamespace(sleep=sleep))
        patch.setattr(tandem.ledger.delta.journal, "_FILES", 2)
        patch.setattr(tandem.ledger.publish.batch_parts, "_starting_within", Within)
        for module in (tandem.ledger.realtime.commit_files, tandem.ledger.publish.publications):
            patch.setattr(module, "json", SimpleNamespace(loads=_parsed, dumps=json.dumps))
        patch.setattr(tandem.ledger.publish.publications, "from_row", _remembered(tandem.ledger.publish.publications.from_row))
        span_columns = tandem.ledger.realtime.commit_files._SPAN_COLUMNS
        patch.setattr(
            tandem.ledger.realtime.commit_files,
            "_span_values",
            _remembered(tandem.ledger.realtime.commit_files._span_values, *span_columns),
        )
        for module in (
            tandem.ledger.delta.delta_tables,
            tandem.ledger.delta.journal,
            tandem.ledger.delta.one_writer.write_leases,
        ):
            patch.setattr(module, "uuid4", lambda: _Name(f"{world().number():032x}"))
        patch.setattr(tandem.batch.recompute.build, "secrets", SimpleNamespace(randbits=lambda _: world().number()))
        patch.setitem(tandem.ledger.realtime_writer.Writer.compact.__kwdefaults__, "fanout", 2)
        patch.setattr(
            tandem.ledger.realtime_writer.Writer, "compact", _as("compaction", tandem.ledger.realtime_writer.Writer.compact)
        )
        patch.setattr(tandem.ledger.realtime_writer, "_CHECKPOINT_EVERY", 8)
        patch.setattr(tandem.ledger.publish.adoption, "fingerprint", numbers.known_fingerprint)
        patch.setattr(tandem.ledger.publish.adoption, "decoder_fingerprint", numbers.known_fingerprint)

        patch.setattr(tandem.infra.kafka.source_topics, "kafka", BROKER)
        patch.setattr(tandem.batch.archive.write_archive, "kafka", BROKER)
        patch.setattr(
            tandem.batch.archive.write_archive, "broker", SimpleNamespace(address=lambda _: Address("simulated", {}, 1))
        )
        patch.setattr(tandem.batch.archive.copy, "copy", _copy)
        patch.setattr(tandem.batch.archive.copy, "_absent", _absent)
        patch.setattr(tandem.speed.source.start_position, "kafka", BROKER)
        # The log of a schedule deletes records and is created again; it is never cut back.
        for module in (tandem.batch.archive.write_archive, tandem.speed.source.start_position):
            patch.setattr(module, "refuse_cut_log", lambda *_: None)
        patch.setattr(tandem.speed.source.follow, "kafka_options", lambda _: {})
        patch.setattr(tandem.speed.source.follow, "record_frames", SimpleNamespace(of_archive=_copied))
        patch.setattr(tandem.speed.source.follow, "seen", _seen)
        patch.setattr(tandem.speed.source.query, "record_frames", SimpleNamespace(of_kafka=lambda fetched, *_: fetched))
        patch.setattr(tandem.speed.source.query, "planned_end", partial(_planned_end, tandem.speed.source.query.planned_end))
        patch.setattr(tandem.speed.source.query.Query, "start", _started)
        patch.setattr(tandem.speed.source.follow, "tend", _as("upkeep", tend))
        patch.setattr(tandem.batch.archive.decode_to_files, "decode", _decode)
        patch.setattr(tandem.batch.archive.write_archive, "file_ranges", _spans)
        patch.setattr(tandem.ledger.files.file_ranges, "file_ranges", _spans)
        patch.setattr(tandem.batch.archive.decode_runs, "cut", lambda _, covered, rows: covered)
        patch.setattr(tandem.batch.recompute.wait_for_cut, "_STILL_S", 0.2)
        patch.setattr(
            tandem.batch.recompute.recompute, "with_cuts", partial(tandem.batch.recompute.wait_for_cut.with_cuts, sleep=sleep)
        )
        patch.setattr(tandem.batch.recompute.build, "rebuild", _rebuild)
        # How long runs take is no part of a schedule.
        patch.setattr(tandem.batch.recompute.build, "estimate", SimpleNamespace(RAW=None, expected=_expected))
        patch.setattr(tandem.batch.recompute.build, "RunRates", lambda _: SimpleNamespace(record=lambda *_: None))
        patch.setattr(tandem.batch.release.apply, "diffs", lambda *_: {})
        patch.setattr(tandem.batch.release.apply, "_STILL_S", 1.0)
        patch.setattr(tandem.batch.runtime.scratch, "clear", lambda _: Freed())
        patch.setattr(tandem.batch.runtime.scratch, "drop", _drop)
        patch.setattr(tandem.batch.runtime.table_locks, "write_locks", SimpleNamespace(own=_own))
        patch.setattr(tandem.batch.runtime.table_locks, "hold", _hold)
        patch.setattr(tandem.batch.runtime.table_locks, "Tables", SimpleNamespace(of=lambda _: world().tables))
        patch.setattr(tandem.batch.maintain.maintain, "compact", SimpleNamespace(compact=lambda *_, **__: (0, 0)))
        patch.setattr(tandem.speed.micro_batch.log_tail, "fold_records", fold_records)
        patch.setattr(tandem.speed.micro_batch.maintenance, "merging", lambda _: merge_partials)
        yield


def _as(kind: str, work: Callable[..., Any]) -> Callable[..., Any]:
    """The same work, done by the process under another kind, for the account of which steps were interleaved."""

    def done(*arguments: Any, **named: Any) -> Any:
        process = world().schedule.current
        if process is None:
            return work(*arguments, **named)
        before, process.kind = process.kind, kind
        try:
            return work(*arguments, **named)
        finally:
            process.kind = before

    return done


class _Name(str):
    """In place of a UUID."""

    __slots__ = ()

    @property
    def hex(self) -> str:
        return self


@lru_cache(maxsize=1 << 14)
def _parsed(text: str) -> Any:
    """Nobody changes what was parsed, and the same few texts are parsed over and over."""
    return json.loads(text)


def _remembered(convert: Callable[[Mapping[str, Any]], Any], *names: str) -> Callable[[Mapping[str, Any]], Any]:
    """A pure function of these columns of a row, of all if none are named."""
    known: dict[tuple[Any, ...], Any] = {}

    def remembered(row: Mapping[str, Any]) -> Any:
        key = tuple([row[name] for name in names or row])
        if key not in known:
            known[key] = convert(row)
        return known[key]

    return remembered


def sleep(_: float) -> None:
    world().schedule.change_over(before="wait")


def _connect(_: object) -> Any:
    return SimpleNamespace(address=SimpleNamespace(bootstrap="simulated"))


def _topics(*_: object) -> tuple[Topic, ...]:
    world().looks("ask the broker for topics")
    return (Topic(SOURCE, world().log.topic, len(world().log.partitions)),)


def _describe(*_: object) -> dict[str, Topic]:
    return {topic.name: topic for topic in _topics()}


def _starts(_: object, topics: Sequence[Topic]) -> dict[Partition, int]:
    world().looks("ask the broker for starts")
    log = world().log
    found = {(topic.id, number): log.starts.get(number, 0) for topic in topics for number in _numbers(topic)}
    return _still_of(topics, found)


def _ends(_: object, topics: Sequence[Topic], *, committed: bool = True) -> dict[Partition, int]:
    world().looks("ask the broker for ends")
    found = {(topic.id, number): len(world().log.partitions[number]) for topic in topics for number in _numbers(topic)}
    return _still_of(topics, found)


def _still_of(topics: Sequence[Topic], found: dict[Partition, int]) -> dict[Partition, int]:
    """What Kafka answered by the topics' names, if the names have the same ids after the answer."""
    (now,) = _topics()
    for topic in topics:
        if topic.id != now.id:
            raise NoTopic(f"topic '{topic.name}' was deleted or created again while its offsets were asked for")
    return found


def _numbers(topic: Topic) -> range:
    return range(min(topic.partitions, len(world().log.partitions)))


LOG_CALLS = frozenset({"ask the broker for topics", "ask the broker for starts", "ask the broker for ends", "fetch from the log"})
"""What is asked of the broker, each an I/O call."""
BROKER = SimpleNamespace(connect=_connect, topics=_topics, describe=_describe, starts=_starts, ends=_ends)
"""For `kafka` where the log is asked for."""


def written(address: str, rows: list[dict[str, Any]], **more: Any) -> Written:
    store = world().store
    store.io.step(f"write {address}")
    path = store.write(address, Rows(rows))
    bounds = more.pop("bounds", {})
    return Written(path, len(rows), len(rows), bounds, more, store.io.now())


def _copy(
    session: object, options: object, topics: Sequence[Topic], ranges: Ranges, work: Decoding, *, parallelism: int, typed: bool
) -> CopiedFiles:
    """In place of Spark's job that copies the log into the archive and decodes it: files of one partition each.

    Of some ranges the decoder ends its process.
    """
    assert {topic for (topic, _), _ in ranges.intervals} <= {topic.id for topic in topics}
    rows: dict[Partition, list[dict[str, Any]]] = {}
    for (topic, number), offset, event in Fetched(world()).within(ranges):
        row = {"topic": topic, "partition": number, "offset": offset, **vars(event)}
        rows[topic, number] = [*rows.get((topic, number), []), row]
    if typed and ranges.length % 5 == 4:
        raise TaskFailed("a worker ended")
    files = [_copied_file(work.archive.address, place, each) for place, each in rows.items()]
    return CopiedFiles(tuple(files), _typed(work, [row for each in rows.values() for row in each]) if typed else None)


def _copied_file(address: str, place: Partition, rows: list[dict[str, Any]]) -> Written:
    offsets = [row["offset"] for row in rows]
    values = ((place[0],) * 2, (place[1],) * 2, (min(offsets), max(offsets)))
    return written(address, rows, bounds=dict(zip(RECORDS.names, values, strict=True)))


def _spans(handle: Any, columns: object, time: str = "") -> list[FileRange]:
    """In place of the statistics of files, which the simulated ones have not."""
    content = world().store.tables[handle.table_uri].content
    found = []
    for path in delta_tables.files(handle):
        rows = content[path].rows
        topics, numbers, offsets = ([row[name] for row in rows] for name in ("topic", "partition", "offset"))
        if rows:
            bounds = (min(offsets), max(offsets) + 1)
            found.append(FileRange(path, len(rows), (min(topics), max(topics)), (min(numbers), max(numbers)), bounds))
    return found


def _decode(session: object, work: Decoding, covered: Ranges, _: object) -> DecodeResult:
    """In place of Spark's job that decodes the archive."""
    return _typed(work, [dict(row) for row in stored(work.archive.address) if inside(row, covered)])


def _typed(work: Decoding, rows: list[dict[str, Any]]) -> DecodeResult:
    """What records are decoded into."""
    if not rows:
        return DecodeResult(0, 0, (), (), {})
    times = [datetime.fromtimestamp(row["appended"] / 1_000_000, UTC) for row in rows]
    file = written(work.events.address, rows, bounds={"_append_time": (min(times), max(times))})
    return DecodeResult(len(rows), 0, (file,), (), {})


@dataclass(frozen=True)
class Fetched:
    """The log's records as Spark fetches them, by the topic's name; in place of a DataFrame."""

    world: World

    def within(self, covered: Ranges) -> list[Found]:
        log = self.world.log
        if self.world.schedule.current is None:  # nothing happens meanwhile
            return list(log.within(covered))
        self.world.looks("fetch from the log")
        return list(log.fetched(covered))


@dataclass(frozen=True)
class Copied:
    """The archive's records, as the speed layer reads those that the log has no longer."""

    tables: Tables

    def within(self, covered: Ranges) -> list[Found]:
        return [found_in(row) for row in stored(self.tables.archive(SOURCE)) if inside(row, covered)]


def _copied(spark: object, tables: Tables, source: Source, covered: Ranges) -> Copied:
    return Copied(tables)


def found_in(row: Mapping[str, Any]) -> Found:
    """The event of a row of the archive."""
    return (row["topic"], row["partition"]), row["offset"], Event(row["minute"], row["value"], row["appended"], row["id"])


def _absent(place: Location, files: object, partition: Partition, interval: Interval) -> list[Interval]:
    """In place of the scan for offsets that the archive lacks."""
    there = {row["offset"] for row in stored(place.address) if (row["topic"], row["partition"]) == partition}
    return [(offset, offset + 1) for offset in range(*interval) if offset not in there]


def stored(address: str) -> list[Mapping[str, Any]]:
    handle = delta_tables.open_table(world().tables, address)
    files = [] if handle is None else delta_tables.files(handle)
    return [row for path in files for row in delta_tables.read_file(handle, path).rows]


def inside(row: Mapping[str, Any], covered: Ranges) -> bool:
    intervals = dict(covered.intervals).get((row["topic"], row["partition"]), ())
    return any(start <= row["offset"] < end for start, end in intervals)


def _rebuild(
    run: Run,
    log: LogRange,
    targets: Mapping[str, ViewTarget],
    comparison: Comparison,
    *,
    version: int | None,
    scratch: object,
    searched: object = None,
) -> BatchViews:
    """In place of Spark's job that folds: the events table's rows, added to the states of the parts that are merged."""
    tables, name = run.tables, log.source.name
    archived = archived_range(tables, name, log.decoder, log.start, log.cut)
    covered = archived.covered
    rows = [row for row in stored(tables.events(name, log.decoder)) if inside(row, covered)]
    known = _ids_below(tables.events(name, log.decoder), log.start)
    found = [one for one in map(found_in, rows) if one[2].id not in known]
    within = [event for _, _, event in found if log.windows is None or log.windows[0] <= event.at < log.windows[1]]
    files = []
    events = len({event.id for event in within})
    counts = Counts(events, duplicates=len(rows) - events, holes=covered.length - len(rows))
    if log.windows is None:
        refuse_unexplained(archived, holes=counts.holes, others=0)
    for view, target in targets.items():
        folded = states(within, numbers.least_by_fingerprint()[log.release.views[view]])
        address = target.batch_view.address(tables, view)
        if comparison.served is not None:
            _refuse_difference(run, log, comparison.served, (view, address), found)
        built = to_rows(united([folded, of_parts(tables, address, target.merged)]))
        if built:
            delta_commits.make_table(tables, address, None, partition_by=VERSION)
            files.append(ViewFile(view, written(address, built, **{VERSION: str(version)})))
    rejected: dict[str, dict[str, int]] = {view: {} for view in targets}
    same = {SERVED: dict.fromkeys(targets, ())}
    appended = max((datetime.fromtimestamp(event.appended / 1_000_000, UTC) for _, _, event in found), default=None)
    return BatchViews(tuple(files), counts, rejected, numbers.maxima(found), appended, same)


def of_parts(tables: Tables, address: str, parts: Sequence[tandem.ledger.publish.batch_parts.BatchPart]) -> States:
    """What the states of parts come to, each without what later ones stand in for."""
    found = []
    for number, part in enumerate(parts):
        handle, files = files_of(tables, address, part)
        found += [from_rows(still_live(delta_tables.read_file(handle, file.path), parts[number + 1 :]).rows) for file in files]
    return united(found)


def _refuse_difference(run: Run, log: LogRange, served: EarlierStates, written: tuple[str, str], found: Sequence[Found]) -> None:
    """In place of the comparison that batch does while it folds: here nothing explains a difference.

    `written` is the name of the view and the address of its table.
    """
    tables, (view, address) = run.tables, written
    fingerprint = log.release.views[view]
    handle = delta_tables.open_table(tables, tables.realtime(log.release.number, log.source.name))
    tail = [
        decode(tandem.ledger.realtime.commit_files.read_commit(handle, path).partials[fingerprint]) for path in served.commits
    ]
    told = united([of_parts(tables, address, served.parts.get(view, ())), *tail])
    events = (event for partition, offset, event in found if offset < served.end.get(partition, 0))
    folded = states(events, numbers.least_by_fingerprint()[fingerprint])
    if log.windows is not None:
        told, folded = (from_rows(starting_within(Rows(to_rows(each)), log.windows).rows) for each in (told, folded))
    assert told == folded, f"view {view} served {told} over [{log.start}, {served.end}), where batch found {folded}"


def _expected(_: Tables, source: Source, decoder: str, *, kind: str, views: int, **__: object) -> Expected:
    return Expected(source.name, kind, views, 0, 0, None)


def _drop(tables: Tables, folder: str) -> bool:
    store = world().store
    store.io.step(f"discard {folder}")
    if tables.local or folder.startswith(f"{ROOT}/realtime/"):
        return store.discard(folder)
    inside = {address: len(stored.content) for address, stored in store.tables.items() if f"{address}/".startswith(f"{folder}/")}
    return any([tandem.batch.runtime.scratch.empty(tables, address, files) for address, files in inside.items()])  # noqa: C419  # all


@contextmanager
def _own() -> Iterator[None]:
    yield


def _hold(tables: Tables, name: str, *_: object, **__: object) -> Lease | None:
    return world().hold(tables, name)


def _seen(
    spark: object,
    tables: object,
    options: object,
    source: Source,
    task: object,
    *,
    known: CountedLog,
    beginning: Beginning,
    identities_mb: int,
) -> DedupWindow:
    """In place of Spark's jobs that load identities: what counts of the log is there, be it in the archive or the log."""
    stretches = list(divided(known.within(source.dedup_window), beginning.firsts, most=3))
    dedup_window = begun(source, stretches, known, identities_mb)
    world().looks("fetch from the log")
    for number, one in reversed(list(enumerate(stretches))):
        events = [event for _, _, event in world().log.remembered(ranges(one.start, one.end, beginning.firsts))]
        if events:
            dedup_window = dedup_window.with_identities(numbers.identities(events), np.full(len(events), number, np.int32))
    return dedup_window


def _started(query: Any, *_: object, **__: object) -> Any:
    """In place of a streaming query, whose micro-batches the simulation triggers."""
    return SimpleNamespace(id=query.name, isActive=True, exception=lambda: None)


def _planned_end(read: Callable[..., Position], checkpoint: Path | Position, *rest: Any) -> Position:
    """A simulated query has the planned end itself in place of the folder where Spark wrote it."""
    return read(checkpoint, *rest) if isinstance(checkpoint, Path) else checkpoint


def fold_records(
    records: Fetched | Copied, task: object, views: Mapping[str, object], covered: Ranges, dedup_window: DedupWindow, **_: object
) -> MicroBatchResult:
    """In place of a micro-batch's Spark job."""
    found = records.within(covered)
    once = {event.id: event for _, _, event in reversed(found)}
    known = dedup_window.holds(numbers.keys(once)) if once else ()
    events = [event for event, counted in zip(once.values(), known, strict=True) if not counted]
    least, maxima = numbers.least_by_fingerprint(), numbers.maxima(found)
    appended = max((newest.append_time for newest in maxima.values()), default=None)
    return MicroBatchResult(
        counts=Counts(len(events), duplicates=len(found) - len(events), holes=covered.length - len(found)),
        rejected={},
        after_final={},
        maxima=maxima,
        newest=None if appended is None else datetime.fromtimestamp(appended / 1_000_000, UTC),
        partials={fingerprint: encode(states(events, least[fingerprint])) for fingerprint in views},
        identities=numbers.identities(events),
    )


def _ids_below(address: str, position: Position) -> set[int]:
    """The identities of all events below a position."""
    return {row["id"] for row in stored(address) if row["offset"] < position.get((row["topic"], row["partition"]), 0)}


def merge_partials(fingerprint: str, partials: Sequence[bytes]) -> bytes:
    return encode(united(map(decode, partials)))
