"""Decide where a source continues: in Kafka if it still has the records, else in the archive."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tandem.infra import kafka
from tandem.infra.kafka.source_topics import topics_of
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.fetch_checks import refuse_changed_log, refuse_new_topic
from tandem.ledger.log.positions import Position, upper
from tandem.ledger.losses import first_offsets
from tandem.ledger.realtime.commits import Commit
from tandem.ledger.same_log import PresentLog, refuse_cut_log
from tandem.views.errors import TandemError
from tandem.views.source.offset_ranges import Offsets, Partition
from tandem.views.source.source import Source


@dataclass(frozen=True)
class KafkaLog:
    """Topics, identified by their ids."""

    connection: kafka.BrokerConnection
    topics: tuple[kafka.Topic, ...]

    @property
    def partitions(self) -> list[Partition]:
        """The partitions of all topics."""
        return [(topic.id, number) for topic in self.topics for number in range(topic.partitions)]

    def now(self) -> tuple[kafka.Topic, ...]:
        """The topics that now have these names. Raises NoBroker, NoTopic."""
        return kafka.topics(self.connection, [topic.name for topic in self.topics])

    def require(self, start: Position, firsts: Offsets) -> Position:
        """The end of the log. Refuses other topics under the names, and a log that lost records from `start` on.

        `firsts` are the first offsets of partitions that `start` lacks. If it returns, records that were read before existed
        while they were read. Raises LogChanged, NoBroker, NoTopic.
        """
        planned = {partition: start.get(partition, firsts.get(partition, 0)) for partition in self.partitions}
        now = self.now()
        lows, ends = kafka.starts(self.connection, now), kafka.ends(self.connection, now)
        refuse_changed_log(planned, firsts=lows, ends=ends)
        return Position.of(ends)


class OffsetsLost(TandemError, code="offsets-lost"):
    """Neither the log nor the archive has these offsets."""


@dataclass(frozen=True)
class Beginning:
    """Read the archive up to `archived`, then the log from `starts` on, which has every partition of its topics.

    `firsts` are the first offsets of partitions, of log and archive together, for those that a position lacks.
    """

    log: KafkaLog
    starts: Offsets
    firsts: Offsets
    archived: Position


def beginning(
    tables: Tables,
    source: Source,
    start: Position,
    connection: kafka.BrokerConnection,
    *,
    at: datetime,
    commits: Sequence[Commit] = (),
) -> Beginning:
    """Decide how to continue from `start`, and record topics and first offsets that are new, at the time `at`.

    `commits` are those of the release. Raises OffsetsLost, LogChanged if the log ends below `start` or is another log, NoBroker,
    NoTopic.
    """
    now = topics_of(connection, source)
    names, topics = {topic.id: topic.name for topic in now}, {topic.name: topic.id for topic in now}
    lows, ends = kafka.starts(connection, now), kafka.ends(connection, now)
    refuse_changed_log({p: at for p, at in start.items() if p in ends}, firsts=dict.fromkeys(ends, 0), ends=ends)
    refuse_cut_log(tables, source, present_log(connection, now), commits)
    ledger = ArchiveLedger(tables, source.name)
    held = ledger.accounted()
    # Only the archive decides which topic is the log.
    recorded = ledger.topic_names()
    refuse_new_topic(topics, upper(start, held), recorded)
    known = ledger.firsts()
    firsts = first_offsets(lows, topics, known=known, names=recorded)
    ledger.name_topics(topics, at=at)
    firsts = ledger.record_firsts(firsts, at=at)
    starts: dict[Partition, int] = {}
    # Generations of the topic before this one are in the archive only.
    behind = {partition: end for partition, end in held.items() if partition not in lows}
    firsts |= {partition: known.get(partition, 0) for partition in behind}
    for partition, low in lows.items():
        begin, kept = start.get(partition, firsts[partition]), held.get(partition, 0)
        if begin < low:
            if kept < low:
                raise OffsetsLost(
                    f"offsets {max(begin, kept)} to {low - 1} of partition {partition[1]} of topic '{names[partition[0]]}' are "
                    f"lost to source '{source.name}': the log now starts at {low}, and the archive ends at {kept}; `tandem "
                    "archive` records the gap, then the speed layer continues after it; `tandem recompute --accept-gap` "
                    "continues without these records"
                )
            behind[partition] = low
        starts[partition] = max(begin, low)
    return Beginning(KafkaLog(connection, now), starts, firsts, upper(start, Position.of(behind)))


def present_log(connection: kafka.BrokerConnection, topics: Sequence[kafka.Topic]) -> PresentLog:
    """The topics' log at the broker, to compare with what was read of it."""
    return PresentLog(
        {topic.id: topic.name for topic in topics},
        lambda: kafka.starts(connection, topics),
        lambda offsets: kafka.records_at(connection, topics, offsets),
    )


def without_newcomers(source: Source, topics: Sequence[kafka.Topic], recorded: Mapping[str, str]) -> tuple[kafka.Topic, ...]:
    """The topics without those that have joined the source's pattern since their names were `recorded`, by id."""
    return tuple(each for each in topics if source.pattern is None or each.id in recorded or each.name in recorded.values())


def steps(start: Position, end: Position, firsts: Offsets, *, most: int) -> Iterator[Position]:
    """Positions from `start`, excluded, to `end`, included, each at most `most` offsets on from the one before."""
    at = {partition: start.get(partition, firsts.get(partition, 0)) for partition in end}
    while any(at[partition] < end[partition] for partition in end):
        left = most
        for partition in end:
            step = min(left, max(0, end[partition] - at[partition]))
            at[partition] += step
            left -= step
        yield upper(start, Position.of(at))
