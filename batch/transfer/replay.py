"""Replay: rebuild a topic from the archive, each record in its partition and in log order. Needs no Spark.

The topic holds only records of this replay, so a replay that was killed continues after their number. Offsets are not kept: the
new topic has no gaps and no transaction markers, and all generations of a topic become one.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import pyarrow as pa

from tandem.batch.transfer.archived_records import Records
from tandem.infra import kafka
from tandem.infra.kafka import Record, broker
from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.adoptions import TABLES
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.manifest import covered
from tandem.ledger.log.positions import Position, ranges
from tandem.views.errors import TandemError
from tandem.views.source.decoder import decoder_name
from tandem.views.source.formats.json import JSON
from tandem.views.source.offset_ranges import Interval, Partition
from tandem.views.source.source import Source

_ROWS: Final = 10_000
# Only the broker limits the size of a record.
_MOST_BYTES: Final = 1_000_000_000


class NotReplayed(TandemError, code="replay-impossible"):
    """The requested replay is not possible."""


@dataclass(frozen=True)
class ReplayedTopic:
    """The rebuilt topic, the number of records by partition, and how many of them this run sent."""

    topic: kafka.Topic
    records: Mapping[int, int]
    sent: int


@dataclass(frozen=True)
class _ReplayedLog:
    """The records to replay: for each partition number, its intervals in log order."""

    there: Records
    parts: Mapping[int, tuple[tuple[Partition, Interval], ...]]

    def records(self, number: int) -> Iterator[Record]:
        """The records of all partitions with this number, one after the other."""
        for partition, interval in self.parts[number]:
            for table in self.there.of(partition).read(partition, interval, rows=_ROWS):
                # As numbers: a wrong producer's clock may be outside the years of a datetime.
                stamps = table["timestamp"].cast(pa.int64())
                rows = table.select(["key", "value", "headers"]).append_column("timestamp", stamps)
                yield from map(_record, rows.to_pylist())


def run(settings: Settings, source: Source, to: str, start: Position, *, say: Callable[[str], None]) -> ReplayedTopic:
    """Send a source's archived records from `start` on to the topic `to`, which is created if it does not exist.

    Raises NotReplayed if the topic has records that an earlier replay of the same source did not send, or has other records at
    the end; kafka.NotSent, kafka.NoBroker.
    """
    if source.reads(to):
        raise NotReplayed(
            f"'{to}' is a topic of source {source.name!r}, so a replay would count every record again; name another topic"
        )
    log = _log(Tables.of(settings), source.name, start)
    if source.decoder != JSON and any(topic in TABLES for parts in log.parts.values() for (topic, _), _ in parts):
        raise NotReplayed(
            f"the archive of source {source.name!r} begins with rows of a table, which are JSON objects, and topic '{to}' "
            f"would be read by {decoder_name(source.decoder)}; replay from a position after these rows"
        )
    connection = kafka.connect(broker.address(settings))
    topic = _topic(connection, settings, to, max(log.parts) + 1)
    there = _there(connection, topic)
    for number, records in there.items():
        if records:
            _refuse_others(connection, topic, number, records, log)
    expected = dict.fromkeys(there, 0)
    with kafka.Sender(connection.address, most_bytes=_MOST_BYTES) as sender:
        for number in sorted(log.parts):
            say(f"partition {number}: continuing after {there[number]} records" if there[number] else f"partition {number}")
            for record in log.records(number):
                expected[number] += 1
                if expected[number] > there[number]:
                    sender.send_as(topic.name, number, record)
    found = _there(connection, topic)
    if found != expected:
        raise NotReplayed(
            f"topic '{to}' has {found} records by partition, but the archive has {expected}; another program wrote to it"
        )
    return ReplayedTopic(topic, found, sender.acknowledged)


def _log(tables: Tables, source: str, start: Position) -> _ReplayedLog:
    """The archived records from `start` on. Raises NotReplayed."""
    ledger = ArchiveLedger(tables, source)
    end, known = ledger.archived(), ledger.firsts()
    if not end:
        raise NotReplayed(f"source {source!r} has no archived records; run `tandem archive` first")
    if not start.at_or_below(end):
        raise NotReplayed(f"the archive of source {source!r} ends at {end}; it has no records from {start} on")
    order = {topic: place for place, topic in enumerate(ledger.generations())}
    parts: dict[int, tuple[tuple[Partition, Interval], ...]] = {}
    there = covered(ranges(start, end, known))
    for partition, interval in sorted(there.items(), key=lambda part: order[part[0][0]]):
        parts[partition[1]] = (*parts.get(partition[1], ()), (partition, interval))
    if not parts:
        raise NotReplayed(f"the archive of source {source!r} has no records from {start} on")
    return _ReplayedLog(Records.archived(tables, source), parts)


def _topic(connection: kafka.BrokerConnection, settings: Settings, name: str, partitions: int) -> kafka.Topic:
    """The topic, created without retention if it does not exist. Raises NotReplayed if it cannot keep records unchanged."""
    of_any_age = msgspec.structs.replace(settings.kafka, partitions=partitions, retention_hours=0)
    topic = kafka.create(connection, [name], msgspec.structs.replace(settings, kafka=of_any_age), ahead=None)[name]
    if topic.partitions < partitions:
        raise NotReplayed(f"topic '{name}' has {topic.partitions} partitions, but the archive has records of {partitions}")
    told = kafka.configurations(connection, [name])[name]
    if told["message.timestamp.type"] != "CreateTime":
        raise NotReplayed(
            f"topic '{name}' has message.timestamp.type={told['message.timestamp.type']}; only CreateTime keeps timestamps"
        )
    return topic


def _there(connection: kafka.BrokerConnection, topic: kafka.Topic) -> dict[int, int]:
    """The number of records in each partition."""
    return {number: end for (_, number), end in sorted(kafka.ends(connection, [topic]).items())}


def _refuse_others(connection: kafka.BrokerConnection, topic: kafka.Topic, number: int, records: int, log: _ReplayedLog) -> None:
    """Raise NotReplayed unless the partition's last record is what a replay of this source would have sent there."""
    last = kafka.records(connection, [topic], {(topic.id, number): records - 1}, most=1)[topic.id, number]
    ours = (
        (record for place, record in enumerate(log.records(number), 1) if place == records) if number in log.parts else iter(())
    )
    if last != [next(ours, None)]:
        raise NotReplayed(
            f"partition {number} of topic '{topic.name}' has {records} records that this replay did not send; name an empty or "
            "absent topic"
        )


def _record(row: Mapping[str, Any]) -> Record:
    milliseconds = row["timestamp"] // 1000
    if milliseconds == 0:
        raise NotReplayed("a record has the timestamp 1970-01-01T00:00:00Z, which a Kafka client treats as missing and replaces")
    headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
    return Record(milliseconds, row["key"], row["value"], headers)
