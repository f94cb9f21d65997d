"""Archive the log: copy new records of every source into Delta, and decode them into events and quarantine.

One Spark job reads each record once, and writes its bytes and its decoded events or reject. The ledger records a run's range
before anything is written, and each of the three tables gets its rows in one conditional commit with the run's number. So the
next run finishes a run that was killed at any point: no record is lost, and none is archived twice. Records that the killed run
has archived are decoded from the archive.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tandem.batch.archive import copy
from tandem.batch.archive.archive_lineage import archiving
from tandem.batch.archive.copy_task import BOUNDED, Copied, refuse_torn
from tandem.batch.archive.decode_runs import TypedTables, decode_archived, decode_run, typed_tables
from tandem.batch.archive.decode_to_files import DecodeResult, Decoding
from tandem.batch.runtime import delta_commits, spark_jobs
from tandem.batch.runtime.session import BatchRun, Lock
from tandem.infra import kafka
from tandem.infra.kafka import broker
from tandem.infra.kafka.source_topics import topics_of
from tandem.infra.lineage.runs import reporting
from tandem.infra.logs.telling import bound
from tandem.infra.spark.errors import broker_away, broker_refusal, lacks_offsets
from tandem.ledger import losses
from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.location import Location
from tandem.ledger.files.file_ranges import RECORDS, file_ranges
from tandem.ledger.log.archive_runs import ADOPT, APP_ID, ArchiveLedger, ArchiveRun
from tandem.ledger.log.counts import Counts, plus
from tandem.ledger.log.fetch_checks import refuse_changed_log, refuse_new_topic
from tandem.ledger.log.gaps import Gaps
from tandem.ledger.log.positions import LOG_START, Position, ranges, upper
from tandem.ledger.publish import adoption
from tandem.ledger.publish.releases import Release
from tandem.ledger.publish.standing import Followed
from tandem.ledger.same_log import PresentLog, refuse_cut_log
from tandem.views.errors import TandemError
from tandem.views.project import project
from tandem.views.project.project import Project
from tandem.views.source.offset_ranges import Offsets, Ranges
from tandem.views.source.source import RECORDS_SCHEMA, Source

_BROKER_WAIT_S: Final = 120
_COPY_PAUSES_S: Final = (1, 5, 15, 60)


class ImportUnfinished(TandemError, code="import-unfinished"):
    """An import of the archive is incomplete."""


@dataclass(frozen=True)
class ArchiveResult:
    """The result for one source: the end of its archive, the outcomes of the new records, and the names of new gaps."""

    source: str
    end: Position
    counts: Counts
    gaps: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class _ArchivedLog:
    """The log of one source, whose offsets can be polled at any moment."""

    source: Source
    connection: kafka.BrokerConnection
    may_be_new: bool = False

    @classmethod
    def of(cls, source: Source, connection: kafka.BrokerConnection, *, may_be_new: bool) -> "_ArchivedLog":
        """The log of a source whose topics exist. Raises NoTopic."""
        log = cls(source, connection, may_be_new)
        log.now()
        return log

    def now(self) -> tuple[kafka.Topic, ...]:
        """The topics that now have the source's topic names."""
        return topics_of(self.connection, self.source)

    def refuse_new_topic(self, reached: Position, known: Mapping[str, str]) -> None:
        """Raise LogChanged if another topic was read under one of the names before, unless `may_be_new`."""
        if not self.may_be_new:
            refuse_new_topic({topic.name: topic.id for topic in self.now()}, reached, known)

    def starts(self, topics: Sequence[kafka.Topic]) -> Offsets:
        """The first offset that each partition of these topics has now."""
        return kafka.starts(self.connection, topics)

    def present(self, topics: Sequence[kafka.Topic]) -> PresentLog:
        """The log of these topics, to compare with what was read of it."""
        return PresentLog(
            {topic.id: topic.name for topic in topics},
            lambda: self.starts(topics),
            lambda offsets: kafka.records_at(self.connection, topics, offsets),
        )

    def ends(self, topics: Sequence[kafka.Topic]) -> Offsets:
        """The offset after the last committed record of each partition of these topics."""
        return kafka.ends(self.connection, topics)


def run(
    batch: BatchRun, working_tree: Callable[[], Project], *, new_topic: bool = False, locks: Sequence[Lock] = ("archive",)
) -> list[ArchiveResult]:
    """Archive every source of the published release, and finish earlier runs. The first run publishes the project.

    The records are also decoded for standing releases. A topic that was deleted and created again is refused, unless `new_topic`
    accepts it, also while it is still empty. Waits for another run that holds one of the locks, which are taken in order. Raises
    TandemError.
    """
    live = adoption.live(batch.tables, working_tree, by=batch.by, at=batch.now())
    release = batch.releases.load(live.release)
    # Before Spark starts, so that an absent broker is reported at once. A frozen broker is waited for; a broker that refuses
    # connections is reported at once.
    address = broker.address(batch.settings)
    connection = kafka.connect(replace(address, timeout_s=max(address.timeout_s, _BROKER_WAIT_S)))
    sources = project.load_files(release.files).sources
    logs = [_ArchivedLog.of(source, connection, may_be_new=new_topic) for source in sources.values()]
    for lock in locks:
        batch.hold(lock)
    with reporting(batch.settings, now=batch.now, warn=batch.say) as reporter:
        archived = []
        for log in logs:
            with archiving(reporter, batch, release, log.source):
                archived.append(_archive(batch, release, log))
    for number in _followed(batch)[1:]:
        archived += _archive_standing(batch, batch.releases.load(number), release, connection)
    return archived


def _followed(batch: BatchRun) -> list[int]:
    """The numbers of the releases that are kept up to date, the live one first."""
    return [state.release for state in Followed(batch.standing, batch.settings.keep.release_days).states(batch.now())]


def _archive_standing(
    batch: BatchRun, release: Release, live: Release, connection: kafka.BrokerConnection
) -> Iterator[ArchiveResult]:
    """Archive and decode for a standing release the sources that the live one does not read, or decodes differently."""
    for name, source in project.load_files(release.files).sources.items():
        if name not in live.sources:
            yield _archive(batch, release, _ArchivedLog.of(source, connection, may_be_new=False))
        elif live.sources[name] != release.sources[name]:
            decode_archived(batch, release, source)


def _archive(batch: BatchRun, release: Release, log: _ArchivedLog) -> ArchiveResult:
    """Finish the unfinished runs of a source, and copy and decode what is new."""
    tables, name = batch.tables, log.source.name
    with bound(source=name, release=release.number):
        typed = typed_tables(tables, release, log.source)
        counts, found = [], []
        # Before anything is read that this run decides on: from here on no archive run before it commits.
        delta_commits.make_table(tables, tables.archive(name), RECORDS_SCHEMA, bounded=BOUNDED)
        ledger = ArchiveLedger(tables, name)
        ledger.claim()
        # The run before may have been killed before its gaps were recorded.
        left = ledger.unchecked()
        if left is not None:
            found += _gaps(batch, log, ledger, left)[0]
        for run in _to_do(batch, log, ledger, typed.decoder):
            decoded = None
            if run.number > ledger.progress(typed.decoder).archive:
                decoded = _copy(batch, log, run, typed)
                names, whole = _gaps(batch, log, ledger, run)
                found += names
                # Events of records that were removed from the archive do not count.
                decoded = decoded if whole else None
            counts.append(decode_run(batch, typed, run, decoded))
        return ArchiveResult(name, ledger.archived(), plus(*counts), tuple(found))


def _to_do(batch: BatchRun, log: _ArchivedLog, ledger: ArchiveLedger, decoder: str) -> Iterator[ArchiveRun]:
    """The unfinished runs, then a run for new records, if there are any; its intent is recorded first."""
    tables, name = batch.tables, log.source.name
    if any(run.imported for run in ledger.unwritten()):
        adopts = any(run.by == ADOPT for run in ledger.unwritten())
        again = "`tandem adopt` again with the same table" if adopts else "`tandem import` again with the same folder"
        raise ImportUnfinished(f"an {'adoption' if adopts else 'import'} of source {name!r} is incomplete; run {again}")
    yield from ledger.unfinished(decoder)
    runs, names = ledger.runs(), ledger.topic_names()
    known = ledger.firsts()
    start = runs[-1].end if runs else LOG_START
    now = log.now()
    starts, ends = log.starts(now), log.ends(now)
    # Counted records of a deleted topic belong to the log, though no broker has them: the run covers them, as a gap.
    former = losses.counted_of_former(tables, name, releases=_followed(batch), present={topic for topic, _ in starts})
    log.refuse_new_topic(upper(start, former), names)
    _refuse_another_log(start, starts, ends)
    refuse_cut_log(tables, log.source, log.present(now))
    topics = {topic.name: topic.id for topic in now}
    firsts = losses.first_offsets(starts, topics, known=known, names=names)
    ledger.name_topics(topics, at=batch.now())
    firsts = ledger.record_firsts(firsts, at=batch.now())
    end = upper(start, Position.of(ends), former)
    fresh = {partition: offset for partition, offset in {**known, **firsts}.items() if partition not in start}
    # Also if the range has no offsets: the speed layer follows the log's end, and the archive must not stay behind it.
    if start != end:
        yield ledger.intend(start=start, end=end, firsts=fresh, by=batch.by, at=batch.now())


def _copy(batch: BatchRun, log: _ArchivedLog, run: ArchiveRun, typed: TypedTables) -> DecodeResult | None:
    """Copy the records of the run's range that the log still has into the archive, in one commit with the run's number.

    Returns the files into which the same tasks decoded the records, which no table names yet; None if the records have to be
    decoded from the archive.
    """
    tables, name = batch.tables, log.source.name
    # The handle is older than the copy, so the commit fails if another process has committed meanwhile. All tables exist before
    # their files, so that `maintain` finds what a killed run leaves in them.
    handle = delta_commits.make_table(tables, tables.archive(name), RECORDS_SCHEMA, bounded=BOUNDED)
    typed.create()
    copied = _copied(batch, log, run, typed.work.with_schemas(batch.schemas_of(log.source)))
    lease = tables.lease(tables.archive(name))
    delta_commits.add_files(handle, copied.files, lease=lease, transaction=(APP_ID, run.number))
    # With new schemas the records are decoded from the archive: copying waits for no registry.
    return None if copied.decoded is None or copied.decoded.missing else copied.decoded


def _copied(batch: BatchRun, log: _ArchivedLog, run: ArchiveRun, work: Decoding) -> Copied:
    """Run the job that copies and decodes, again while the broker is away, and if the log deletes records before they are read.

    No table has the files of a failed job. Raises CopyIncomplete, TaskFailed.
    """
    address, pauses, typed = log.connection.address, iter(_COPY_PAUSES_S), True
    while True:
        topics = log.now()
        there = _present(run, log.starts(topics))
        batch.say(f"{log.source.name}: copying {there.length} offsets")
        try:
            copied = copy.copy(batch.session, address, topics, there, work, parallelism=batch.parallelism, typed=typed)
        except spark_jobs.TaskFailed as failed:
            if refusal := broker_refusal(failed.__cause__, address):
                raise refusal from failed
            if failed.__cause__ is not None and (broker_away(failed.__cause__) or lacks_offsets(failed.__cause__)):
                if (pause := next(pauses, None)) is None:
                    raise
                batch.say(f"{failed}; trying again in {pause} s")
                time.sleep(pause)
            elif typed:
                # Copying must not wait for a decoder that ends its process: meanwhile the log deletes records.
                batch.say(f"{failed}; copying without decoding")
                typed = False
            else:
                raise
        else:
            refuse_torn(copied, there)
            return copied


def _present(run: ArchiveRun, starts: Offsets) -> Ranges:
    """The part of the run's range that a log with these first offsets still has."""
    return Ranges.of(
        {
            partition: (min(end, max(start, starts[partition])), end)
            for partition, ((start, end),) in ranges(run.start, run.end, run.firsts).intervals
            if partition in starts
        }
    )


def _gaps(batch: BatchRun, log: _ArchivedLog, ledger: ArchiveLedger, run: ArchiveRun) -> tuple[list[str], bool]:
    """Record the offsets of the run that neither the archive nor the log has as gaps.

    Returns the gaps' names, and whether the archive still has all that the run copied.

    A missing offset that the log still covers after the copy is a harmless hole. Raises LogChanged if it is another log.

    Clients fetch by a topic's name. If a topic has been deleted since, it is unknown whether it still had the name when the run
    fetched, so the run's records of it are removed and become part of the gap.
    """
    tables, name = batch.tables, log.source.name
    now = log.now()
    starts, ends = log.starts(now), log.ends(now)
    log.refuse_new_topic(run.end, ledger.topic_names())
    _refuse_another_log(run.end, starts, ends)
    handle = delta_tables.open_table(tables, tables.archive(name))
    files = [] if handle is None else file_ranges(handle, RECORDS)
    whole = ranges(run.start, run.end, run.firsts)
    doubtful = copy.doubtful(files, whole, starts)
    if handle is not None and doubtful:
        batch.say(f"{name}: removing {len(doubtful)} files from the archive: their topic was deleted while they were copied")
        lease = tables.lease(tables.archive(name))
        delta_tables.conditional_exchange(handle, doubtful, [], at=batch.now(), lease=lease)
        files = [file for file in files if file.path not in doubtful]
    missing = copy.lost(Location.of(tables, tables.archive(name)), files, whole, starts)
    found = []
    if missing.length:
        gap = Gaps(tables).record(name, missing, reason="the log had deleted them before they were archived", at=batch.now())
        batch.say(gap.way_on)
        found.append(gap.name)
    ledger.check(run.number, at=batch.now())
    return found, not doubtful


def _refuse_another_log(reached: Position, starts: Offsets, ends: Offsets) -> None:
    """Raise LogChanged unless the log continues from here. A later start of the log is a gap, and accepted here."""
    refuse_changed_log(
        {partition: max(offset, starts[partition]) for partition, offset in reached.items() if partition in starts},
        firsts=starts,
        ends=ends,
    )
