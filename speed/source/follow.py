"""Follow one source's log under one release: claim its realtime table, catch up, then run a query, restarted as needed."""

import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Event
from typing import Final
from uuid import uuid4

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tandem.infra import kafka
from tandem.infra.lineage.runs import Reporter
from tandem.infra.settings import Settings
from tandem.infra.spark.errors import broker_away, broker_refusal, sentence, worded
from tandem.infra.spark.kafka_source import kafka_options
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.hot.report import healthy, pause
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.fetch_checks import LogChanged
from tandem.ledger.log.last_records import newest_of
from tandem.ledger.log.positions import Position, distance, ranges
from tandem.ledger.log.registry_client import RegistryAway
from tandem.ledger.log.registry_schemas import of_source
from tandem.ledger.publish.publications import Publication
from tandem.ledger.publish.releases import Release
from tandem.ledger.publish.standing import Followed, StandingReleases
from tandem.ledger.realtime.commits import Commit
from tandem.ledger.realtime.follower import Follower
from tandem.ledger.realtime_writer import NotContiguous, Writer
from tandem.speed import progress
from tandem.speed.dedup.siphash import SECRET_BYTES
from tandem.speed.micro_batch.follower_state import FollowerState
from tandem.speed.micro_batch.log_tail import UncommittedLog
from tandem.speed.micro_batch.maintenance import tend
from tandem.speed.micro_batch.task import KnownVersions, Task
from tandem.speed.source import record_frames
from tandem.speed.source.counted_at import counted
from tandem.speed.source.known_tables import KnownTables, Patience, tables_of_views
from tandem.speed.source.overflow import overflow_of_layer
from tandem.speed.source.query import Query
from tandem.speed.source.restore_identities import seen, unseen
from tandem.speed.source.start_position import Beginning, KafkaLog, beginning, steps
from tandem.views.errors import TandemError
from tandem.views.source.source import Source
from tandem.views.source.watermark import later, newest
from tandem.views.view import View

_DISCOVERY: Final = timedelta(seconds=5)
"""The time between two looks at which topics match a pattern: each takes a list of all topics' names."""


@dataclass(frozen=True)
class Surroundings:
    """The resources that all sources of a speed layer share.

    * `connection`, `options`: the connection to the log.
    * `checkpoints`: a folder of this process.
    * `now`: the clock.
    * `warn`: prints a sentence for the user.
    * `reporter`: reports runs to the lineage server.
    * `stopping`: is set when the layer must end; it also ends a long catch-up early.
    * `recorder`: records micro-batches and waiting sources for `status`.
    """

    spark: SparkSession
    settings: Settings
    tables: Tables
    connection: kafka.BrokerConnection
    checkpoints: Path
    by: str
    now: Callable[[], datetime]
    warn: Callable[[str], None]
    reporter: Reporter
    stopping: Callable[[], bool]
    recorder: progress.ProgressRecorder

    @property
    def options(self) -> dict[str, str]:
        """The options of Spark's Kafka source."""
        return kafka_options(self.connection.address)


@dataclass
class Follow:
    """One source under one release, followed from where its realtime table ends; `checkpoints` is a folder of its own."""

    around: Surroundings
    release: Release
    source: Source
    tail: UncommittedLog
    checkpoints: Path
    _query: Query | None = field(default=None, repr=False)
    _streaming: StreamingQuery | None = field(default=None, repr=False)
    _log: KafkaLog | None = field(default=None, init=False, repr=False)
    _asked: datetime | None = field(default=None, init=False, repr=False)
    _commits: int = 0
    _ended: Event = field(default_factory=Event, init=False, repr=False)
    _followed: Followed = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._followed = Followed(StandingReleases(self.around.tables), self.around.settings.keep.release_days)

    def begin(self) -> None:
        """Read what Kafka no longer has from the archive, then start the query. Raises OffsetsLost, LogChanged, NewerEpoch."""
        around, tail = self.around, self.tail
        while True:
            commits = Follower(around.tables, self.release.number, self.source.name).poll()
            begun = self._beginning(commits)
            tail.state = replace(tail.state, firsts=begun.firsts)
            tail.last_records = newest_of(each.last_records for each in commits)
            tail.task = replace(tail.task, generations=ArchiveLedger(around.tables, self.source.name).generations())
            if tail.schemas is not None:
                tail.schemas.load()
                tail.task = replace(tail.task, files=tail.schemas.attach(self.release.files))
            if tail.state.end != tail.writer.end:
                self._recall(begun)
            try:
                self._catch_up(begun)
                break
            except NotContiguous as bridged:
                self._say_again(bridged)
        if around.stopping():
            return
        self._log, self._asked = begun.log, tail.now()
        if not begun.log.topics:  # no topic matches the pattern yet, so all of the log is counted
            self._query = self._streaming = None
            around.recorder.heart.looked(self.release.number, self.source.name)
            return
        settings = around.settings.speed
        checkpoint = self.checkpoints / uuid4().hex
        name = progress.query_name(self.release.number, self.source.name, checkpoint.name)
        self._query = Query(name, tail, self.source, begun.log, checkpoint, self._committed_live)
        self._streaming = self._query.start(
            around.spark, around.options, starts=begun.starts, most=self._most, pause_ms=settings.trigger_ms
        )
        around.recorder.follows(self._streaming.id, self.release.number, self.source.name)

    def check(self) -> None:
        """Restart the query if it ended for a reason that allows a restart; else raise the reason in a sentence.

        A source whose topics match a pattern begins again, too, once other topics match. Raises NoBroker and RegistryAway if a
        later `begin` may succeed, BrokerRefused if it cannot.
        """
        if (others := self._other_topics()) is not None:
            self._say_again(others)
            if self._streaming is not None:
                self._streaming.stop()
            self.begin()
            return
        if self._streaming is None or self._query is None or self._streaming.isActive:
            return
        error = self._query.error or self._streaming.exception() or TandemError("the query stopped unexpectedly")
        if isinstance(error, RegistryAway):
            raise error
        if not isinstance(error, TandemError):
            if refusal := broker_refusal(error, self.around.connection.address):
                raise refusal from error
            fault = self._log_fault(self._query.log)
            if fault is None and broker_away(error):
                raise kafka.NoBroker(f"source '{self.source.name}' could not be read: {sentence(error)}") from error
            error = fault or error
        if not isinstance(error, NotContiguous) and not (isinstance(error, LogChanged) and self._same_topics(self._query.log)):
            raise worded(error, f"a micro-batch of source '{self.source.name}' failed and is not committed") or error
        self._say_again(error)
        self.begin()

    def is_over(self, seconds: float) -> bool:
        """Whether it is to end, or does so within this time."""
        return self.around.stopping() or self._ended.wait(seconds)

    def stop(self) -> None:
        """End the query; a running micro-batch is committed whole or not at all."""
        self._ended.set()
        if self._streaming is not None:
            self._streaming.stop()
        shutil.rmtree(self.checkpoints, ignore_errors=True)
        self.tail.workers.close()

    def _beginning(self, commits: Sequence[Commit]) -> Beginning:
        around, tail = self.around, self.tail
        try:
            return beginning(around.tables, self.source, tail.writer.end, around.connection, at=tail.now(), commits=commits)
        except kafka.NoTopic as error:
            if self.source.pattern is None:
                raise
            # It has been deleted since it was listed, so another look lists it no longer.
            raise kafka.NoBroker(str(error)) from error

    def _other_topics(self) -> str | None:
        """Which topics match the source's pattern that the query does not read, or match it no longer, in a sentence."""
        log, pattern, now = self._log, self.source.pattern, self.around.now()
        runs = self._streaming is None or self._streaming.isActive
        recent = self._asked is not None and timedelta() <= now - self._asked < _DISCOVERY
        if log is None or pattern is None or (runs and recent):
            return None
        self._asked = now
        try:
            there = kafka.matching(self.around.connection, pattern)
        except kafka.NoBroker:  # the query notices that, too, and says how long it waits
            return None
        if self._streaming is None:
            self.around.recorder.heart.looked(self.release.number, self.source.name)
        joined = [topic.name for topic in there if topic.id not in {each.id for each in log.topics}]
        gone = [topic.name for topic in log.topics if topic.id not in {each.id for each in there}]
        changes = [f"{verb} {', '.join(names)}" for verb, names in (("there is now", joined), ("gone is", gone)) if names]
        return f"of the topics of {pattern} {' and '.join(changes)}" if changes else None

    @property
    def _most(self) -> int:
        """The number of records that certainly have no more events than a micro-batch may have."""
        return max(1, self.around.settings.speed.max_events // (self.source.max_events_per_record or 1))

    def _catch_up(self, begun: Beginning) -> None:
        around, tail = self.around, self.tail
        start = tail.writer.end
        for position in steps(start, begun.archived, begun.firsts, most=self._most):
            if around.stopping():
                return
            covered = ranges(tail.writer.end, position, begun.firsts)
            if covered.length:
                found = record_frames.of_archive(around.spark, around.tables, self.source, covered)
                tail.extend(found, position, still_there=lambda: None)
                self._committed()

    def _recall(self, begun: Beginning) -> None:
        """Load the identities counted below the table's end that this process lacks: at the start, and after a bridge."""
        around, tail, name = self.around, self.tail, self.source.name
        commits = Follower(around.tables, self.release.number, name).poll()
        known = counted(around.tables, self.release, name, tail.writer.end, now=around.now())
        dedup_window = seen(
            around.spark,
            around.tables,
            around.options,
            self.source,
            tail.task,
            known=known,
            beginning=begun,
            identities_mb=around.settings.speed.identities_mb,
        )
        tail.state = replace(
            tail.state,
            dedup_window=dedup_window,
            end=tail.writer.end,
            maxima=newest(each.maxima for each in commits),
            watermark=later(*(each.watermark for each in commits)),
            caught_up=known.caught_up,
        )

    def _committed_live(self, start: Position) -> None:
        """After a micro-batch from `start` on: the next one need not hurry while a hot tail answers, unless the log has more."""
        self._committed()
        around, longest = self.around, self.around.settings.speed.hot_trigger_ms / 1000
        if longest and distance(start, self.tail.writer.end) < self._most:
            number, name = self.release.number, self.source.name
            pause(longest, healthy=lambda: healthy(around.settings.folder, number, name), ended=self._ended)

    def _committed(self) -> None:
        self.around.recorder.heart.looked(self.release.number, self.source.name)
        self._commits += 1
        if self._commits % self.around.settings.speed.compact_every == 0:
            around = self.around
            tend(
                self.tail.writer,
                around.tables,
                self.release,
                self.source.name,
                self.tail.views,
                followed=self._followed,
                keep=around.settings.keep,
                at=around.now(),
            )

    def _log_fault(self, log: KafkaLog) -> TandemError | None:
        """The fault of the log for which Spark failed to read it, if any."""
        try:
            log.require(self.tail.writer.end, self.tail.state.firsts)
            changed = [now for now, before in zip(log.now(), log.topics, strict=True) if now.partitions != before.partitions]
        except TandemError as fault:
            return fault
        return LogChanged(f"topic '{changed[0].name}' now has {changed[0].partitions} partitions") if changed else None

    def _same_topics(self, log: KafkaLog) -> bool:
        return [topic.id for topic in log.now()] == [topic.id for topic in log.topics]

    def _say_again(self, error: TandemError | str) -> None:
        why = "another run has bridged the log" if isinstance(error, NotContiguous) else error
        self.around.warn(f"source '{self.source.name}': {why}; continuing from {self.tail.writer.end}")


def _look_up(tail: UncommittedLog, look_ups: KnownTables, patience: Patience) -> KnownVersions:
    """What the tasks of the next micro-batch look up in."""
    look_ups.poll(tail.live)
    patience.wait(look_ups, lambda: look_ups.poll(tail.live))
    return look_ups.newest(tail.live)


def follow(around: Surroundings, release: Release, source: Source, views: Mapping[str, View], live: Publication) -> Follow:
    """Claim the source's realtime table, which fences every earlier writer, and begin. `views` are the source's by name."""
    writer = Writer.claim(around.tables, release.number, source.name, by=around.by, at=around.now())
    fingerprints = {name: release.views[name] for name in views}
    tail = UncommittedLog(
        task=Task(release.files, source.name, fingerprints, secret=secrets.token_bytes(SECRET_BYTES)),
        source=source,
        views={fingerprints[name]: view for name, view in views.items()},
        writer=writer,
        live=live,
        now=around.now,
        schemas=of_source(source, around.settings, around.tables, around.now),
        state=FollowerState(
            unseen(source, around.settings.speed.identities_mb), epoch=writer.epoch, by=around.by, idle=source.idle
        ),
    )
    following = Follow(around, release, source, tail, around.checkpoints / f"{source.name}-{writer.epoch}")
    settings = around.settings.speed
    realtime, scratch = around.tables.realtime(release.number, source.name), following.checkpoints / "tables"
    overflow = partial(overflow_of_layer, around.settings, around.tables, realtime, scratch)
    if (look_ups := tables_of_views(around.tables, release, views, overflow)) is not None:
        patience = Patience(around.connection, settings.table_wait_ms / 1000, following.is_over)
        tail.look_up = partial(_look_up, tail, look_ups, patience)
    following.begin()
    return following
