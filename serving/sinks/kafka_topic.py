"""A topic of Kafka as a sink's target: records and token are one transaction.

With the output update the topic is compacted and holds rows: the key is the row's keys and window, the value the row, and a
tombstone deletes it. With the outputs append and changes it is a log of messages. The transactional id and the group that holds
the token are named for the topic, so a second sink of the topic fences the first, whatever project it is of.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from tandem.infra import kafka
from tandem.infra.kafka import broker as embedded
from tandem.infra.kafka.bulk_reader import LogMoved
from tandem.infra.settings import Settings
from tandem.serving.sinks.log_messages import SinkMessage
from tandem.serving.sinks.sink_token import Stamp
from tandem.serving.sinks.target import SinkInProject, SinkRefused
from tandem.views.kernel.rows import written
from tandem.views.sinks.kafka_topic import SinkTopic

KIND: Final = "tandem.kind"
PUBLICATION: Final = "tandem.publication"
"""Headers of a record: the kind of message, and the publication that answers came from."""

_MOST_RECORDS: Final = 10_000
_WAIT_S: Final = 1.0
_COLUMNS: Final = ("partition", "key", "value")

Headers = tuple[tuple[str, bytes | None], ...]


def check_target(defined: SinkInProject) -> None:
    """Raise SinkRefused for a topic that a source of the project reads: the sink's records would be its events."""
    topic = _topic(defined)
    for source in defined.project.sources.values():
        if source.reads(topic):
            raise SinkRefused(
                f"sink {defined.sink.name!r}: source {source.name!r} reads topic {topic!r}, so the sink would feed its own view; "
                "name another topic"
            )


def open_target(defined: SinkInProject) -> "CompactedTopic | MessageTopic":
    """The topic of a sink, created if it does not exist; this fences an earlier process that writes to it.

    Raises SinkRefused for a topic with another cleanup policy, NoBroker, BrokerRefused.
    """
    connection = kafka.connect(embedded.address(defined.settings))
    return open_topic(connection, defined.settings, _topic(defined), defined.sink.output)


def open_topic(connection: kafka.BrokerConnection, settings: Settings, name: str, output: str) -> "CompactedTopic | MessageTopic":
    """The topic of this name. Raises as `open_target`."""
    rows = output == "update"
    topic = kafka.create(connection, [name], settings, compacted=rows)[name]
    policy = kafka.configurations(connection, [name])[name]["cleanup.policy"]
    if rows and policy != "compact":
        raise SinkRefused(
            f"topic {name!r} has cleanup.policy={policy}, and output update needs compact: else Kafka deletes rows; "
            "name a new topic, or change its policy"
        )
    if not rows and "compact" in policy:
        raise SinkRefused(
            f"topic {name!r} has cleanup.policy={policy}, and output {output} needs delete: compaction removes messages; "
            "name a new topic"
        )
    address, ends = connection.address, kafka.ends(connection, [topic], committed=False)
    appender = kafka.ExactlyOnceAppender(address, topic, f"tandem.sink.{name}", ends)
    return CompactedTopic(connection, topic, appender) if rows else MessageTopic(connection, topic, appender)


def _topic(defined: SinkInProject) -> str:
    assert isinstance(defined.sink.to, SinkTopic)
    return defined.sink.to.name


@dataclass
class CompactedTopic:
    """Rows as the newest records of a compacted topic. A converted row has each value as JSON."""

    connection: kafka.BrokerConnection
    topic: kafka.Topic
    appender: kafka.ExactlyOnceAppender

    def token(self) -> str | None:
        """The token of the newest transaction, committed again; None if the topic has other records. Raises NoBroker."""
        stored = self.appender.newest()
        ends = kafka.ends(self.connection, [self.topic], committed=False)
        # The marker that ends a transaction may be missing for a moment; more is missing where the topic was created again.
        foreign = stored is None or any(not 0 <= stored.ends.get(place, 0) - end <= 1 for place, end in ends.items())
        if stored is None or foreign:
            return None
        self.appender.renew(stored)
        return stored.text

    def newest(self) -> str | None:
        """The text of the newest transaction, whatever records the topic has after it. Raises NoBroker."""
        stored = self.appender.newest()
        return None if stored is None else stored.text

    def convert(self, rows: pa.Table) -> pa.Table:
        """Each value as JSON, as answers over HTTP have it."""
        columns = [written(rows[field.name].combine_chunks(), field) for field in rows.schema]
        texts = [pa.array(map(_text, column), pa.string()) for column in columns]
        return pa.Table.from_arrays(texts, names=rows.column_names)

    def content(self, columns: pa.Schema, identity: Sequence[str]) -> pa.Table | None:
        """The rows of the topic; None if a record has other columns, or another form or partition of the key. Raises NoBroker."""
        rows: list[dict[str, str]] = []
        for (partition, key), value in self._latest().items():
            row = _parse(value)
            if row is None or sorted(row) != sorted(columns.names):
                return None
            rows.append({name: _text(row[name]) for name in columns.names})
            if (partition, key) != self._place(_object(rows[-1], identity)):
                return None
        return pa.Table.from_pylist(rows, columns)

    def write(self, rows: pa.Table, gone: pa.Table, stamp: Stamp) -> None:
        """Append rows, tombstones and token in one transaction. Raises NotSent, ProducerFenced, NoBroker."""
        identity, headers = gone.column_names, _headers(stamp)
        records = [kafka.Record(0, _object(row, identity), None, headers) for row in gone.to_pylist()]
        self.appender.append([], stamp.text, placed=_with_partitions(self.topic, [*records, *_records(rows, identity, headers)]))

    def replace(self, rows: pa.Table, identity: Sequence[str], stamp: Stamp) -> None:
        """Append all rows, and tombstones of all other keys, in one transaction. Raises as `write`, and SinkRefused."""
        headers = _headers(stamp)
        records = _records(rows, identity, headers)
        partitions = {key: partition for partition, key in (self._place(record.key or b"") for record in records)}
        tombstones = []
        for partition, key in self._latest():
            place = partitions.get(key)
            if place is None:
                tombstones.append((partition, kafka.Record(0, key, None, headers)))
            elif place != partition:
                # A consumer may read a tombstone there after the row here.
                raise SinkRefused(
                    f"topic {self.topic.name!r} has a row in partition {partition} whose key belongs in partition {place}, "
                    "as after partitions were added; delete the topic, and the sink creates it again"
                )
        self.appender.append([], stamp.text, placed=[*tombstones, *_with_partitions(self.topic, records)])

    def close(self) -> None:
        """Close the producer's group."""
        self.appender.close()

    def _place(self, key: bytes) -> tuple[int, bytes]:
        return kafka.partition_of(key, self.topic.partitions), key

    def _latest(self) -> dict[tuple[int, bytes], bytes]:
        """The newest value of each key that has one."""
        latest: dict[tuple[int, bytes], bytes] = {}
        for records in records_to_the_end(self.connection, self.topic):
            for partition, key, value in zip(*(records[name].to_pylist() for name in _COLUMNS), strict=True):
                latest.pop((partition, key), None)
                if value is not None:
                    latest[partition, key] = value
        return latest


@dataclass
class MessageTopic:
    """Messages about rows as the records of a topic."""

    connection: kafka.BrokerConnection
    topic: kafka.Topic
    appender: kafka.ExactlyOnceAppender

    def token(self) -> str | None:
        """The token of the newest transaction, committed again; None of an empty topic, empty if it expired. Raises NoBroker."""
        stored = self.appender.newest()
        if stored is not None:
            self.appender.renew(stored)
            return stored.text
        begun = any(kafka.starts(self.connection, [self.topic]).values())
        return "" if begun or any(records.num_rows for records in records_to_the_end(self.connection, self.topic)) else None

    def append(self, messages: Sequence[SinkMessage], stamp: Stamp) -> None:
        """Append a record for each message, or for all rows one in each partition. Raises NotSent, ProducerFenced, NoBroker."""
        placed = []
        for message in messages:
            headers = ((KIND, message.kind.encode()), *_headers(stamp))
            value = None if message.value is None else _text(message.value).encode()
            if message.key is None:
                placed += [(number, kafka.Record(0, None, value, headers)) for number in range(self.topic.partitions)]
            else:
                placed += _with_partitions(self.topic, [kafka.Record(0, _text(message.key).encode(), value, headers)])
        self.appender.append([], stamp.text, placed=placed)

    def close(self) -> None:
        """Close the producer's group."""
        self.appender.close()


def records_to_the_end(connection: kafka.BrokerConnection, topic: kafka.Topic) -> Iterator[pa.Table]:
    """The committed records of a topic up to its present end: partition, key and value, in their partitions' order.

    Raises NoBroker, NoTopic.
    """
    starts, ends = kafka.starts(connection, [topic]), kafka.ends(connection, [topic])
    left = {place: start for place, start in starts.items() if start < ends[place]}
    reader = kafka.BulkReader(connection.address, [topic], left, columns=_COLUMNS)
    deadline = time.monotonic() + connection.address.timeout_s
    try:
        while left:
            batch = reader.read(most=_MOST_RECORDS, wait_s=_WAIT_S)
            if batch.ends:
                deadline = time.monotonic() + connection.address.timeout_s
            elif time.monotonic() > deadline:
                raise kafka.NoBroker(f"Kafka at {connection.address.bootstrap} does not return the records of {topic.name!r}")
            left = {place: at for place, start in left.items() if (at := batch.ends.get(place, start)) < ends[place]}
            yield batch.records
    except LogMoved as error:
        raise kafka.NoTopic(f"topic {topic.name!r} was deleted or created again; run the command again") from error
    finally:
        reader.close()


def _with_partitions(topic: kafka.Topic, records: Sequence[kafka.Record]) -> list[tuple[int, kafka.Record]]:
    """The records in the partitions of their keys as they were when the topic was opened, also once it has more of them."""
    return [(kafka.partition_of(record.key or b"", topic.partitions), record) for record in records]


def _records(rows: pa.Table, identity: Sequence[str], headers: Headers) -> list[kafka.Record]:
    return [kafka.Record(0, _object(row, identity), _object(row, rows.column_names), headers) for row in rows.to_pylist()]


def _headers(stamp: Stamp) -> Headers:
    return ((PUBLICATION, str(stamp.publication).encode()),)


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _object(row: Mapping[str, str], names: Sequence[str]) -> bytes:
    """An object of values that are JSON already."""
    return f"{{{','.join(f'{_text(name)}:{row[name]}' for name in names)}}}".encode()


def _parse(value: bytes) -> dict[str, Any] | None:
    """The object of a record's value; None for another value."""
    try:
        row = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None
