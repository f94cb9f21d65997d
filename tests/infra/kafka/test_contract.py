"""The port's contract on a real broker, with Kafka's own command-line tools as the oracle: offsets, records, outcomes."""

import gc
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer
from kafka import KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType

from tandem.infra import kafka
from tandem.infra.kafka import Appended, NotAppended, Outcome, Record
from tandem.infra.kafka.kafka_python.client import configuration
from tandem.infra.settings import KafkaSettings, Settings
from tests.frozen import frozen, own_broker
from tests.infra.kafka.tools import Tools
from tests.stack import add_partitions, consumed, delete_below, delete_topic, librdkafka, new_topic

pytestmark = pytest.mark.broker

BASE = 1_700_000_000_000
HARD = [
    Record(1_700_000_000_000, None, None),
    Record(1_700_000_000_001, b"", b""),
    Record(1_700_000_000_002, b"k", None, (("null", None), ("empty", b""), ("bytes", b"\x00\xff"), ("null", b"again"))),
    Record(1_700_000_000_003, None, b"\x00\xff" * 1000, (("é", None),)),
    Record(1_700_000_000_004, None, None, (("only", None),)),
]


@pytest.fixture
def tools(broker: kafka.BrokerConnection) -> Tools:
    return Tools(broker.address)


def test_every_valid_record_can_be_sent_and_read(broker: kafka.BrokerConnection, tools: Tools) -> None:
    topic = new_topic(broker)
    with kafka.Sender(broker.address) as sender:
        for record in HARD:
            sender.send_as(topic.name, 1, record)
    assert (sender.acknowledged, sender.positions) == (len(HARD), {(topic.name, 1): len(HARD)})
    assert list(tools.records(topic, 1, len(HARD)).values()) == HARD
    assert kafka.records(broker, [topic], {(topic.id, 1): 0}, most=99) == {(topic.id, 1): HARD}


def test_offsets_belong_to_the_described_topics(broker: kafka.BrokerConnection) -> None:
    """Kafka answers by a topic's name, whichever topic has it: one deleted and created again meanwhile is not the one meant."""
    former, other = new_topic(broker, partitions=2), new_topic(broker)
    delete_topic(broker, former.name)
    for ask in (kafka.starts, kafka.ends):
        with pytest.raises((kafka.NoBroker, kafka.NoTopic)):
            ask(broker, [former])
    now = kafka.create(broker, [former.name], Settings(kafka=KafkaSettings(partitions=1)))[former.name]
    for ask in (kafka.starts, kafka.ends):
        for fewer in (former, replace(former, partitions=1)):
            with pytest.raises((kafka.NoBroker, kafka.NoTopic)):
                ask(broker, [other, fewer])
        with pytest.raises(
            kafka.NoTopic, match=f"topic '{former.name}' was deleted or created again while its offsets were asked"
        ):
            ask(broker, [replace(former, partitions=1)])
        assert ask(broker, [now]) == {(now.id, 0): 0}


def test_a_broker_of_small_batches_gets_smaller_ones(broker: kafka.BrokerConnection, tools: Tools) -> None:
    topic = new_topic(broker, partitions=1)
    broker.admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic.name, {"max.message.bytes": "20000"})])
    with kafka.Sender(broker.address, most_bytes=20_000) as sender:
        for number in range(300):
            sender.send(topic.name, b"%03d" % number + os.urandom(500), b"k")
    assert sender.acknowledged == 300
    assert [int((one.value or b"")[:3]) for one in tools.records(topic, 0, 300).values()] == list(range(300))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_every_compression_is_read(broker: kafka.BrokerConnection, codec: str) -> None:
    topic, values = new_topic(broker, partitions=1), [b"%d" % n * 300 for n in range(500)]
    producer = Producer({**librdkafka(broker), "compression.type": codec, "linger.ms": 50})
    for value in values:
        producer.produce(topic.name, value)
    assert producer.flush(20) == 0
    found = kafka.records(broker, [topic], {(topic.id, 0): 100}, most=350)[topic.id, 0]
    assert [one.value for one in found] == values[100:450]


@pytest.mark.slow
def test_offsets_equal_those_of_kafkas_tools_after_transactions_and_deletions(
    broker: kafka.BrokerConnection, tools: Tools
) -> None:
    """Aborted records, markers at the end, a deleted beginning, a partition that is empty and one that was added."""
    topic = new_topic(broker)
    # No more requests under way than an idempotent producer may have; and tools may take their time while a transaction is open.
    options = configuration(broker.address) | {"max_in_flight_requests_per_connection": 5, "transaction_timeout_ms": 600_000}
    producer = KafkaProducer(**options, transactional_id=topic.name)
    producer.init_transactions()
    for number, commit in enumerate((True, False, True, False)):
        producer.begin_transaction()
        for _ in range(3):
            producer.send(topic.name, b"%d" % number, partition=0, timestamp_ms=BASE + 1_000 * (number + 1))
        # What the client has not sent yet, it does not send when it aborts.
        producer.flush(20)
        producer.commit_transaction() if commit else producer.abort_transaction()
    # The marker that ends a transaction is in the log a moment after the client knows that it ended.
    while sum(kafka.ends(broker, [topic]).values()) < 4 * (3 + 1):
        time.sleep(0.02)
    before = tools.ends(topic)
    assert kafka.ends(broker, [topic]) == before
    producer.begin_transaction()
    producer.send(topic.name, b"open", partition=0, timestamp_ms=BASE + 9_000).get(20)
    # kafka-get-offsets counts what is not committed; the log that may be read ends where the open transaction begins.
    assert kafka.ends(broker, [topic]) == before != tools.ends(topic)
    delete_below(broker, topic, {0: 2})
    topic = add_partitions(broker, topic, 3)
    assert kafka.starts(broker, [topic]) == tools.starts(topic) == {(topic.id, 0): 2, (topic.id, 1): 0, (topic.id, 2): 0}
    found = kafka.records(broker, [topic], dict.fromkeys(kafka.starts(broker, [topic]), 0), most=100)
    assert found[topic.id, 0] == list(tools.records(topic, 0, 4).values())
    assert [one.value for one in found[topic.id, 0]] == [b"0", *[b"2"] * 3]
    producer.abort_transaction()
    producer.close()


def test_a_recreated_topic_is_another_topic_with_its_own_offsets(broker: kafka.BrokerConnection, tools: Tools) -> None:
    topic = new_topic(broker)
    with kafka.Sender(broker.address) as sender:
        for number in range(50):
            sender.send(topic.name, b"old", b"%d" % number)
        sender.finish()
        delete_topic(broker, topic.name)
        again = kafka.create(broker, [topic.name], Settings(kafka=KafkaSettings(partitions=2)))[topic.name]
        assert again.id == tools.topic_id(topic.name) != topic.id
    assert kafka.ends(broker, [again]) == tools.ends(again) == {(again.id, 0): 0, (again.id, 1): 0}
    with kafka.Sender(broker.address) as sender:
        sender.send(topic.name, b"new", b"k")
    assert [one.value for one in consumed(broker, again)] == [b"new"]


def test_four_threads_poll_and_send_at_once(broker: kafka.BrokerConnection) -> None:
    topic, wrong = new_topic(broker), list[BaseException]()

    def work(number: int) -> None:
        try:
            with kafka.Sender(broker.address) as sender:
                for count in range(200):
                    sender.send(topic.name, b"%d/%d" % (number, count), b"%d" % number)
                    if count % 20 == 0:
                        assert kafka.topic(broker, topic.name) == topic
                        assert sum(kafka.ends(broker, [topic]).values()) <= 800
            assert sender.acknowledged == 200
        except Exception as error:  # noqa: BLE001 - raised where it is looked at
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    counts = Counter(one.value for one in consumed(broker, topic))
    assert len(counts) == 800
    assert set(counts.values()) == {1}


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def reconnected(broker: kafka.BrokerConnection, times: int, *, at_once: int) -> None:
    topic = new_topic(broker)

    def once() -> None:
        connection = kafka.connect(broker.address)
        kafka.describe(connection, [topic.name])
        with kafka.Sender(broker.address) as sender:
            sender.send(topic.name, b"x")
        kafka.records(connection, [topic], {(topic.id, 0): 0, (topic.id, 1): 0}, most=1)
        nowhere = kafka.Address("127.0.0.1:1", {}, 1)
        with pytest.raises(kafka.NoBroker):
            kafka.connect(nowhere)

    once()
    threads, files = threading.active_count(), open_files()
    # A sender of librdkafka's waits half a second for its producer id, so several reconnect at once.
    with ThreadPoolExecutor(at_once) as pool:
        for done in [pool.submit(once) for _ in range(times)]:
            done.result()
    # A connection that an exception's frame refers to is closed by the collector; its thread ends a moment later.
    gc.collect()
    deadline = time.monotonic() + 300
    while (threading.active_count() > threads or open_files() > files + 5) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert threading.active_count() <= threads
    assert open_files() <= files + 5


@pytest.mark.slow
def test_reconnecting_leaves_no_thread_and_no_connection_behind(broker: kafka.BrokerConnection) -> None:
    reconnected(broker, 25, at_once=1)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[tuple[kafka.Address, int]]:
    """A broker that may be frozen, and its process id."""
    with own_broker(tmp_path) as (connection, pid):
        yield connection.address, pid


@pytest.mark.slow
def test_a_request_to_a_paused_broker_times_out(own: tuple[kafka.Address, int]) -> None:
    address, pid = own
    connection = kafka.connect(address)
    topic = kafka.create(connection, ["x"], Settings())["x"]
    timer = frozen(pid, 2)
    assert kafka.ends(connection, [topic]) == {(topic.id, 0): 0, (topic.id, 1): 0}
    timer.join()
    timer, began = frozen(pid, 12), time.monotonic()
    with pytest.raises(kafka.NoBroker, match="did not answer in 5 s"):
        kafka.ends(connection, [topic])
    assert time.monotonic() - began < 11
    timer.join()
    assert kafka.topic(connection, "x") == topic


@pytest.mark.slow
@pytest.mark.parametrize("pause", [2, 45])
def test_acknowledged_records_are_in_the_log_once_and_in_order(own: tuple[kafka.Address, int], pause: int) -> None:
    """The broker is stopped in the middle of a feed, for less and for more than a record is waited for."""
    address, pid = own
    connection = kafka.connect(address)
    topic = kafka.create(connection, ["x"], Settings())["x"]
    sender, sent, why = kafka.Sender(address), 0, ""
    timer: threading.Timer | None = None
    try:
        while sent < 60_000:
            if sent == 20_000:
                timer = frozen(pid, pause)
            sender.send(topic.name, b"%d" % sent, b"%d" % (sent % 10))
            sent += 1
        sender.finish()
    except kafka.NotSent as error:
        why = str(error)
    assert timer is not None
    timer.join()
    connection = kafka.connect(address)
    settled(connection, topic)
    held = {number: [int(one.value or b"") for one in found] for (_, number), found in everything(connection, topic).items()}
    # Offsets of acknowledged records reach this far, and all below is there.
    assert sum(sender.positions.values()) == sender.acknowledged
    assert all(at <= len(held[number]) for (_, number), at in sender.positions.items())
    for values in held.values():
        assert len(set(values)) == len(values), "a record is in the log twice"
        assert values == sorted(values), "records are out of order"
    if pause > 30:
        assert f"{sender.acknowledged} were acknowledged" in why
    else:
        assert (sender.acknowledged, why) == (60_000, "")


def settled(connection: kafka.BrokerConnection, topic: kafka.Topic) -> dict[tuple[str, int], int]:
    """The ends, once nothing that was on its way arrives any more."""
    before: dict[tuple[str, int], int] = {}
    while (now := dict(kafka.ends(connection, [topic]))) != before:
        before = now
        time.sleep(1)
    return now


def everything(connection: kafka.BrokerConnection, topic: kafka.Topic) -> dict[tuple[str, int], list[Record]]:
    return kafka.records(connection, [topic], {(topic.id, number): 0 for number in range(topic.partitions)}, most=10**6)


@pytest.mark.slow
def test_an_appender_continues_after_a_pause_and_reports_unknown_outcomes(own: tuple[kafka.Address, int]) -> None:
    address, pid = own
    connection = kafka.connect(address)
    topic = kafka.create(connection, ["x"], Settings())["x"]
    appender = kafka.Appender(address, seconds=5)
    told: dict[int, Outcome] = {}

    def append(number: int) -> None:
        record = Record(0, b"%d" % (number % 5), b"%d" % number)
        appender.append(topic.name, [record], lambda outcomes: told.update({number: outcomes[0]}))

    for number in range(100):
        append(number)
    timer = frozen(pid, 20)
    for number in range(100, 200):
        append(number)
    timer.join()
    deadline = time.monotonic() + 300
    number = 200
    while not isinstance(told.get(number - 1), Appended) and time.monotonic() < deadline:
        if appender.broken:
            appender.close()
            appender = kafka.Appender(address, seconds=5)
        append(number)
        number += 1
        time.sleep(0.2)
    appender.close()
    assert len(told) == number
    settled(connection, topic)
    held = {place: [int(one.value or b"") for one in found] for place, found in everything(connection, topic).items()}
    counts = Counter(value for values in held.values() for value in values)
    for one, outcome in told.items():
        if isinstance(outcome, Appended):
            assert counts[one] == 1
            assert outcome.offset is None or held[topic.id, outcome.partition][outcome.offset] == one
        elif isinstance(outcome, NotAppended) and outcome.sure:
            assert counts[one] == 0
    assert max(counts.values()) == 1
