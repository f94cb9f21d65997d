"""Replay: rebuild a topic from the archive, each record in the partition and the order in which the log had it. Needs no Spark.

The topic has nothing but what replays of the same wrote, so the number of its records says where a killed one goes on. Offsets
are not kept: where the log had gaps, or markers of transactions, the new topic has nothing, and all generations of a topic
become one.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import pyarrow as pa

from batch.transfer.archived_records import Records
from infra import kafka
from infra.kafka import Record, broker
from infra.settings import Settings
from ledger.delta.addresses import Tables
from ledger.log import archive
from ledger.log.manifest import covered
from ledger.log.positions import Position, ranges
from views.errors import TandemError
from views.source.offset_ranges import Interval, Partition
from views.source.source import Source

_ROWS: Final = 10_000
# The broker alone says how large a record may be.
_MOST_BYTES: Final = 1_000_000_000


class NotReplayed(TandemError):
    """A topic that cannot be rebuilt as asked."""


@dataclass(frozen=True)
class Replayed:
    """The topic that has the records now, how many in each partition, and how many of them this run sent."""

    topic: kafka.Topic
    records: Mapping[int, int]
    sent: int


@dataclass(frozen=True)
class _Log:
    """What is to be replayed: for each number of a partition, its parts in the order of the log."""

    there: Records
    parts: Mapping[int, tuple[tuple[Partition, Interval], ...]]

    def records(self, number: int) -> Iterator[Record]:
        """The records of the partitions of this number, one after the other."""
        for partition, interval in self.parts[number]:
            for table in self.there.of(partition).read(partition, interval, rows=_ROWS):
                # As numbers: a producer's clock may have left the years that a datetime has.
                stamps = table["timestamp"].cast(pa.int64())
                rows = table.select(["key", "value", "headers"]).append_column("timestamp", stamps)
                yield from map(_record, rows.to_pylist())


def run(settings: Settings, source: Source, to: str, start: Position, *, say: Callable[[str], None]) -> Replayed:
    """Send what is archived of a source from `start` on to the topic `to`, which is made if there is none.

    Raises NotReplayed if the topic has anything but what an earlier replay of the same sent, or has other records in the end;
    kafka.NotSent, kafka.NoBroker.
    """
    if to in source.topics:
        raise NotReplayed(
            f"'{to}' is a topic of source {source.name!r}, so a replay would count every record again; name another topic"
        )
    log = _log(Tables(settings.state), source.name, start)
    connection = kafka.connect(broker.address(settings))
    topic = _topic(connection, settings, to, max(log.parts) + 1)
    there = _there(connection, topic)
    for number, records in there.items():
        if records:
            _refuse_others(connection, topic, number, records, log)
    expected = dict.fromkeys(there, 0)
    if not kafka.bulk_installed():
        say(kafka.SLOWER)
    with kafka.sender(connection.address, most_bytes=_MOST_BYTES) as sender:
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
    return Replayed(topic, found, sender.acknowledged)


def _log(tables: Tables, source: str, start: Position) -> _Log:
    """What is archived from `start` on. Raises NotReplayed."""
    end, known = archive.archived(tables, source), archive.firsts(tables, source)
    if not end:
        raise NotReplayed(f"source {source!r} has no archived records; run `tandem archive` first")
    if not start.at_or_below(end):
        raise NotReplayed(f"the archive of source {source!r} ends at {end}; it has no records from {start} on")
    order = {topic: place for place, topic in enumerate(archive.generations(tables, source))}
    parts: dict[int, tuple[tuple[Partition, Interval], ...]] = {}
    there = covered(ranges(start, end, known))
    for partition, interval in sorted(there.items(), key=lambda part: order[part[0][0]]):
        parts[partition[1]] = (*parts.get(partition[1], ()), (partition, interval))
    if not parts:
        raise NotReplayed(f"the archive of source {source!r} has no records from {start} on")
    return _Log(Records.archived(tables, source), parts)


def _topic(connection: kafka.Connection, settings: Settings, name: str, partitions: int) -> kafka.Topic:
    """The topic, made for records of any time if there is none. Raises NotReplayed if it cannot take them as they are."""
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


def _there(connection: kafka.Connection, topic: kafka.Topic) -> dict[int, int]:
    """How many records each partition has been sent."""
    return {number: end for (_, number), end in sorted(kafka.ends(connection, [topic]).items())}


def _refuse_others(connection: kafka.Connection, topic: kafka.Topic, number: int, records: int, log: _Log) -> None:
    """Raise NotReplayed unless the partition's last record is the record that a replay that was killed there had sent last."""
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
