"""Where each source stands: the end of its topics, what is archived, what may be lost, its gaps."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import fmean
from typing import Any

from tandem.infra import kafka
from tandem.infra.kafka import Record, broker
from tandem.infra.kafka.source_topics import topics_of, topics_there
from tandem.infra.settings import Settings
from tandem.ledger import losses
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.archive_runs import ArchiveLedger, ArchiveRun, Summary
from tandem.ledger.log.counts import NOTHING, Counts, plus
from tandem.ledger.log.gaps import Gap
from tandem.ledger.log.positions import LOG_START, Position, distance
from tandem.ledger.log.retention import Retention, UnarchivedOffsets, UntilLoss, until_loss
from tandem.ledger.publish.standing import Followed, StandingReleases
from tandem.serving.read.realtime_tail import RealtimeTail
from tandem.serving.status.open_transactions import BlockedPartition, partitions_with_transactions
from tandem.views.instant import nearest_time
from tandem.views.source.offset_ranges import Partition
from tandem.views.source.source import Source


@dataclass(frozen=True)
class LogEnd:
    """The position after the last record that can be read, or why it is not known; and what waits behind open transactions.

    `topics` are those that the source reads now, if the broker answers.
    """

    position: Position | None = None
    problem: str | None = None
    blocked: tuple[BlockedPartition, ...] = ()
    topics: tuple[kafka.Topic, ...] = ()

    def lag(self, reached: Position) -> int | None:
        """How many offsets the log has beyond a position; None if that is not known."""
        return None if self.position is None else distance(reached, self.position)


def log_ends(settings: Settings, sources: Iterable[Source]) -> dict[str, LogEnd]:
    """The end of each source's topics by the source's name."""
    wanted = list(sources)
    try:
        address = broker.address(settings)  # without one, Kafka's client is not imported
        connection = kafka.connect(address)
        topics = topics_there(connection, wanted)
        ends = kafka.ends(connection, topics.values())
        transactions = kafka.open_transactions(connection, topics.values(), ends)
    except (kafka.NoBroker, kafka.NoTopic) as error:
        return {source.name: LogEnd(problem=str(error)) for source in wanted}
    found = {}
    for source in wanted:
        names_now = source.topics_among(topics)
        missing = [name for name in names_now if name not in topics]
        if missing:
            found[source.name] = LogEnd(problem=f"topic '{missing[0]}' does not exist; `tandem up` creates it")
        else:
            ids = {topics[name].id for name in names_now}
            end = Position.of({place: offset for place, offset in ends.items() if place[0] in ids})
            names = {topic.id: topic.name for topic in topics.values()}
            there = tuple(topics[name] for name in names_now)
            found[source.name] = LogEnd(end, topics=there, blocked=partitions_with_transactions(transactions, names, ids))
    return found


# The mean size of this many records stands for all records.
_SAMPLE = 20


def unarchived(settings: Settings, tables: Tables, sources: Iterable[Source], *, now: datetime) -> dict[str, UntilLoss]:
    """For each source by name, how far it is from a loss; empty without a broker. All topics of the sources exist."""
    found: dict[str, UntilLoss] = {}
    wanted = list(sources)
    if not wanted:
        return found
    warn = timedelta(hours=settings.kafka.warn_hours)
    with suppress(kafka.NoBroker, kafka.NoTopic):
        address = broker.address(settings)  # without one, Kafka's client is not imported
        connection = kafka.connect(address)
        names = topics_there(connection, wanted)
        kept = {name: Retention.of(told) for name, told in kafka.configurations(connection, names).items()}
        releases = [state.release for state in Followed(StandingReleases(tables), settings.keep.release_days).states(now)]
        for source in wanted:
            lost, waiting = _waiting(connection, tables, source, kept, releases, now=now)
            found[source.name] = until_loss(waiting, lost=lost, now=now, warn=warn)
    return found


def _waiting(
    connection: "kafka.Connection",
    tables: Tables,
    source: Source,
    kept: Mapping[str, Retention],
    releases: Iterable[int],
    *,
    now: datetime,
) -> tuple[int, list[UnarchivedOffsets]]:
    """The number of lost offsets, and the part of each partition that is neither archived nor retained without limit."""
    name, topics = source.name, topics_of(connection, source)
    ledger = ArchiveLedger(tables, name)
    reached, known = ledger.accounted(), ledger.firsts()
    names = ledger.topic_names()
    by_id = {topic.id: kept[topic.name] for topic in topics}
    # Retention deletes records whether or not they are committed.
    starts, ends = kafka.starts(connection, topics), kafka.ends(connection, topics, committed=False)
    former = losses.counted_of_former(tables, name, releases=releases, present=by_id)
    firsts = losses.first_offsets(starts, {topic.name: topic.id for topic in topics}, known=known, names=names)
    lost = losses.lost(starts, firsts={**known, **firsts}, archived=reached, former=former).length
    oldest = dict[Partition, int]()
    for place, end in ends.items():
        first = max(starts[place], reached.get(place, 0))
        if first < end and by_id[place[0]] != Retention():
            oldest[place] = first
    found = kafka.records(connection, topics, oldest, most=_SAMPLE, committed=False)
    return lost, [
        UnarchivedOffsets(by_id[place[0]], ends[place] - oldest[place], _oldest(records, now), fmean(map(_bytes, records)))
        for place, records in found.items()
        if records
    ]


def _oldest(records: Sequence[Record], now: datetime) -> datetime:
    """The timestamp of the first record that is not in the future; `now` if all are.

    Retention goes by timestamps, oldest record first. Kafka keeps a record from the future longer; other brokers do not.
    """
    times = (nearest_time(1000 * record.milliseconds) for record in records)
    return next((time for time in times if time <= now), now)


def _bytes(record: Record) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


@dataclass(frozen=True)
class ArchivePosition:
    """The result of the archive's finished runs: `counts` over everything below `end`."""

    end: Position = LOG_START
    counts: Counts = NOTHING

    @property
    def records(self) -> int:
        """How many records the archive has below `end`."""
        return self.counts.records + self.counts.whole_rejects + self.counts.others + self.counts.skipped


@dataclass(frozen=True)
class SourcePosition:
    """`counts` over everything below `reached`, from the layer that is ahead."""

    reached: Position
    counts: Counts = field(hash=False)

    @property
    def decoded(self) -> int:
        """The records that are events or lists of events, duplicates too, whichever events of a list are rejected alone."""
        return self.counts.records


def standing(below_the_cut: Counts, tail: RealtimeTail, archived: ArchivePosition) -> SourcePosition:
    """The counts of a source: each record below `reached` is counted once.

    They are the batch's below the cut plus those of the realtime commits, or the archive's if that is further on every partition.
    """
    if archived.end != tail.end and tail.end.at_or_below(archived.end):
        return SourcePosition(archived.end, archived.counts)
    return SourcePosition(tail.end, plus(below_the_cut, tail.counts))


def archived(tables: Tables, source: str, decoder: str) -> ArchivePosition:
    """The archive of a source under a decoder's fingerprint, up to the first unfinished run."""
    ledger = ArchiveLedger(tables, source)
    return archived_by(ledger.runs(), ledger.summaries(decoder))


def archived_by(runs: Iterable[ArchiveRun], summaries: Iterable[Summary]) -> ArchivePosition:
    """The counts of the runs, first to last, until one has no summary."""
    found = {summary.run: summary.counts for summary in summaries}
    end, counts = LOG_START, []
    for run in runs:
        if run.number not in found:
            break
        end = run.end
        counts.append(found[run.number])
    return ArchivePosition(end, plus(*counts))


def gap_document(gap: Gap, *, accepted: bool) -> dict[str, Any]:
    """Its name, how many offsets are lost and why; `warning` says how to continue, and is null once a recompute accepted the
    gap.
    """
    return {
        "name": gap.name,
        "offsets": gap.ranges.length,
        "reason": gap.reason,
        "accepted": accepted,
        "warning": None if accepted else gap.way_on,
    }
