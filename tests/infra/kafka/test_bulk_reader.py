"""The bulk reader on a real broker: each committed record once and whole, holes by their ends, and no log that has moved."""

import time
from collections.abc import Sequence
from contextlib import closing

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from kafka import KafkaProducer

from tandem.infra import kafka
from tandem.infra.kafka.bulk_reader import BulkReader, LogMoved
from tandem.infra.kafka.kafka_python.client import configuration
from tandem.views.source.offset_ranges import Offsets, Partition
from tandem.views.source.source import RECORDS_SCHEMA
from tests.infra.kafka.test_contract import BASE, HARD
from tests.stack import create_as, delete_below, librdkafka, new_topic, produce

pytestmark = pytest.mark.broker

PLACE = ["partition", "offset", "value"]
_AT_MOST_S = 60.0


def reader(
    broker: kafka.BrokerConnection, topics: Sequence[kafka.Topic], starts: Offsets, columns: Sequence[str] = PLACE
) -> BulkReader:
    return BulkReader(broker.address, topics, starts, columns=columns)


def all_of(reading: BulkReader, expected: Offsets, *, most: int = 100) -> tuple[pa.Table, dict[Partition, int]]:
    """What is read until the reader has heard of these ends."""
    found, ends, until = [reading.nothing()], dict[Partition, int](), time.monotonic() + _AT_MOST_S
    while any(ends.get(place, -1) < end for place, end in expected.items()):
        assert time.monotonic() < until, (ends, expected)
        read = reading.read(most=most, wait_s=0.2)
        assert read.records.num_rows <= most
        for place, end in read.ends.items():
            assert end >= ends.get(place, 0), "it does not go back"
        found.append(read.records)
        ends |= read.ends
    return pa.concat_tables(found), ends


def transaction(broker: kafka.BrokerConnection, topic: kafka.Topic, number: int, *, commit: bool) -> None:
    producer = Producer({**librdkafka(broker), "transactional.id": f"{topic.name}-{number}", "log_level": 0})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic.name, b"%d" % number, partition=0)
    producer.flush(20)
    producer.commit_transaction(20) if commit else producer.abort_transaction(20)


def test_each_record_has_every_column_as_it_was_sent(broker: kafka.BrokerConnection) -> None:
    topic = new_topic(broker)
    with kafka.Sender(broker.address) as sender:
        for record in HARD:
            sender.send_as(topic.name, 1, record)
    with closing(reader(broker, [topic], {(topic.id, 1): 0}, RECORDS_SCHEMA.names)) as reading:
        found, ends = all_of(reading, {(topic.id, 1): len(HARD)})
    assert ends == {(topic.id, 1): len(HARD)}
    assert found.schema == RECORDS_SCHEMA
    assert [(row["topic_id"], row["partition"], row["offset"], row["timestamp_type"]) for row in found.to_pylist()] == [
        (topic.id, 1, offset, 0) for offset in range(len(HARD))
    ]
    assert found["timestamp"].cast(pa.int64()).to_pylist() == [(BASE + number) * 1000 for number in range(len(HARD))]
    assert [(row["key"], row["value"]) for row in found.to_pylist()] == [(one.key, one.value) for one in HARD]
    headers = [tuple((each["key"], each["value"]) for each in row["headers"] or ()) for row in found.to_pylist()]
    assert headers == [one.headers for one in HARD]


def test_the_brokers_own_time_is_told_from_the_producers(broker: kafka.BrokerConnection) -> None:
    topic = create_as(broker, f"{new_topic(broker).name}-own", {"message.timestamp.type": "LogAppendTime"})
    produce(broker, topic, [b"x"])
    with closing(reader(broker, [topic], {(topic.id, 0): 0}, ["timestamp_type", "value"])) as reading:
        found, _ = all_of(reading, {(topic.id, 0): 1})
    assert found.to_pylist() == [{"timestamp_type": 1, "value": b"x"}]


def test_each_record_is_read_once_however_few_at_a_time(broker: kafka.BrokerConnection) -> None:
    topics = [new_topic(broker, partitions=1), new_topic(broker)]
    first, second = topics
    produce(broker, first, [b"%d" % number for number in range(7)])
    produce(broker, second, [b"%d" % number for number in range(4)], partition=1)
    expected = {(first.id, 0): 7, (second.id, 0): 0, (second.id, 1): 4}
    with closing(reader(broker, topics, {(first.id, 0): 2, (second.id, 0): 0, (second.id, 1): 0})) as reading:
        found, ends = all_of(reading, expected, most=3)
        assert ends == expected
        rows = sorted((row["partition"], row["offset"], row["value"]) for row in found.to_pylist())
        assert rows == sorted(
            [(0, number, b"%d" % number) for number in range(2, 7)] + [(1, number, b"%d" % number) for number in range(4)]
        )
        produce(broker, first, [b"later"])
        later, _ = all_of(reading, {(first.id, 0): 8}, most=3)
        assert later.to_pylist() == [{"partition": 0, "offset": 7, "value": b"later"}]


def test_what_is_not_committed_is_a_hole_that_the_ends_pass(broker: kafka.BrokerConnection) -> None:
    topic = new_topic(broker)
    for number, commit in enumerate((True, False, True, False)):
        transaction(broker, topic, number, commit=commit)
    # A record and a marker each.
    with closing(reader(broker, [topic], {(topic.id, 0): 0})) as reading:
        found, ends = all_of(reading, {(topic.id, 0): 8})
        assert [(row["offset"], row["value"]) for row in found.to_pylist()] == [(0, b"0"), (4, b"2")]
        assert ends == {(topic.id, 0): 8}


def test_a_read_waits_for_the_first_record_and_for_no_second(broker: kafka.BrokerConnection) -> None:
    topic = new_topic(broker, partitions=1)
    produce(broker, topic, [b"x"])
    with closing(reader(broker, [topic], {(topic.id, 0): 0})) as reading:
        began = time.monotonic()
        assert reading.read(most=9, wait_s=_AT_MOST_S).records.num_rows == 1
        assert time.monotonic() - began < _AT_MOST_S
        while reading.read(most=9, wait_s=0.5).ends:
            began = time.monotonic()
        assert time.monotonic() - began > 0.4  # the client rounds times to milliseconds


def test_pieces_of_a_partition_hold_each_record_once(broker: kafka.BrokerConnection) -> None:
    topic = new_topic(broker)
    for number, commit in enumerate((True, False, True, True)):
        transaction(broker, topic, number, commit=commit)
    produce(broker, topic, [b"%d" % number for number in range(4, 9)])
    # A record and a marker each, then 5 records.
    committed = [(0, b"0"), (4, b"2"), (6, b"3"), *((4 + number, b"%d" % number) for number in range(4, 9))]
    for cut in range(14):
        pieces = [(0, cut), (cut, 13)]
        found = [
            (row["offset"], row["value"])
            for piece in pieces
            for table in kafka.records_within(broker.address, [topic], (topic.id, 0), piece, columns=PLACE)
            for row in table.to_pylist()
        ]
        assert found == committed, cut


def test_a_header_whose_name_is_not_utf8_hides_no_record(broker: kafka.BrokerConnection) -> None:
    class Name(str):
        __slots__ = ()

        def encode(self, *_: object) -> bytes:
            return b"caf\xe9"

    topic = new_topic(broker, partitions=1)
    producer = KafkaProducer(**configuration(broker.address))
    for value in (b"0", b"1"):
        producer.send(topic.name, value, headers=[("a", b"x"), (Name("cafe"), b"y")])
    producer.close()
    produce(broker, topic, [b"2"])
    samples = kafka.records_at(broker, [topic], {(topic.id, 0): 1})
    assert [(one.value, one.headers) for one in samples.values() if one] == [(b"1", (("a", b"x"), ("caf\ufffd", b"y")))]
    (found,) = kafka.records_within(broker.address, [topic], (topic.id, 0), (0, 3), columns=RECORDS_SCHEMA.names)
    headers = [{"key": "a", "value": b"x"}, {"key": "\ufffd", "value": b"y"}]
    assert found.select(["value", "headers"]).to_pylist() == [
        {"value": b"0", "headers": headers},
        {"value": b"1", "headers": headers},
        {"value": b"2", "headers": None},
    ]


def test_offsets_that_are_gone_end_the_reading(broker: kafka.BrokerConnection) -> None:
    topic = new_topic(broker, partitions=1)
    produce(broker, topic, [b"0", b"1", b"2"])
    delete_below(broker, topic, {0: 2})
    with closing(reader(broker, [topic], {(topic.id, 0): 2})) as reading:
        assert all_of(reading, {(topic.id, 0): 3})[0].num_rows == 1
    with closing(reader(broker, [topic], {(topic.id, 0): 1})) as reading, pytest.raises(LogMoved):
        all_of(reading, {(topic.id, 0): 3})
