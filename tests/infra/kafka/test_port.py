"""The Kafka client on a real broker: ids, offsets of committed records, and sending without loss or error."""

import os
import socket
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tandem.infra import kafka
from tandem.infra.folders import ROOT
from tandem.infra.settings import KafkaSettings, Settings
from tests.stack import consumed, new_topic

pytestmark = pytest.mark.broker


def test_topics_are_created_once_by_the_settings(broker: kafka.BrokerConnection) -> None:
    name = new_topic(broker).name + "-made"
    first = kafka.create(broker, [name], Settings(kafka=KafkaSettings(partitions=3)))
    assert first[name].partitions == 3
    assert kafka.create(broker, [name], Settings(kafka=KafkaSettings(partitions=5))) == first
    assert kafka.describe(broker, [name, "no-such-topic"]) == first
    with pytest.raises(kafka.NoTopic, match="topic 'no-such-topic' does not exist at"):
        kafka.topic(broker, "no-such-topic")


def test_a_topic_may_have_append_time(broker: kafka.BrokerConnection) -> None:
    names = [f"{new_topic(broker).name}-{kind}" for kind in ("own", "producer")]
    kafka.create(broker, names, Settings(), own_time=names[:1])
    told = kafka.configurations(broker, names)
    assert [told[name]["message.timestamp.type"] for name in names] == ["LogAppendTime", "CreateTime"]


@pytest.mark.parametrize(
    ("ahead", "written"), [(timedelta(hours=1), "3600000"), (timedelta(minutes=5), "300000"), (None, str(2**63 - 1))]
)
def test_a_topic_refuses_records_from_further_ahead(
    broker: kafka.BrokerConnection, ahead: timedelta | None, written: str
) -> None:
    """What bounds what one fast clock of a producer can do is the broker's clock, whatever the broker's own default is."""
    name, now = f"{new_topic(broker).name}-bounded", datetime.now(UTC)
    kafka.create(broker, [name], Settings(), ahead=ahead)
    (configuration,) = kafka.configurations(broker, [name]).values()
    assert configuration["message.timestamp.after.max.ms"] == written

    def send(stamp: datetime) -> None:
        with kafka.Sender(broker.address) as sender:
            sender.send_as(name, 0, kafka.Record(int(stamp.timestamp() * 1000), None, b"x"))

    send(now - timedelta(days=4000))
    send(now + (ahead or timedelta(days=4000)) - timedelta(seconds=60))
    if ahead is not None:
        with pytest.raises(kafka.NotSent, match="0 were acknowledged"):
            send(now + ahead + timedelta(seconds=60))


def test_sent_records_arrive_byte_for_byte_with_the_time_of_sending(broker: kafka.BrokerConnection) -> None:
    topic, before = new_topic(broker, partitions=1), int(time.time() * 1000)
    values = [b"", b"\x00\xff\xfe", b"line\r", b"x" * 100_000]
    with kafka.Sender(broker.address) as sender:
        for value in values:
            sender.send(topic.name, value, b"key")
        sender.send(topic.name, None)
    assert (sender.acknowledged, sender.positions) == (5, {(topic.name, 0): 5})
    found = consumed(broker, topic)
    assert [record.value for record in found] == [*values, None]
    assert [record.key for record in found] == [b"key"] * 4 + [None]
    assert all(before - 1000 <= record.timestamp <= time.time() * 1000 + 1000 for record in found)


def test_a_record_that_is_too_large_is_reported(broker: kafka.BrokerConnection) -> None:
    topic = new_topic(broker)
    with kafka.Sender(broker.address) as sender:
        sender.send(topic.name, b"small")
        sender.finish()
        with pytest.raises(kafka.NotSent, match="too large; 1 were acknowledged"):
            sender.send(topic.name, b"x" * 3_000_000)


@pytest.mark.timeout(60)
def test_a_broker_that_stands_still_before_tls_is_reported_in_time() -> None:
    """The kernel accepts connections for a frozen process, which never answers the handshake."""
    with socket.create_server(("127.0.0.1", 0)) as frozen:
        address = kafka.Address(f"127.0.0.1:{frozen.getsockname()[1]}", {"security.protocol": "ssl"}, 1)
        with pytest.raises(kafka.NoBroker, match="did not answer in 1 s"):
            kafka.connect(address)


def test_an_absent_broker_is_reported_at_once_in_one_sentence(broker: kafka.BrokerConnection) -> None:
    with closing(socket.socket()) as unused:
        unused.bind(("127.0.0.1", 0))
        nowhere = f"127.0.0.1:{unused.getsockname()[1]}"
    began = time.monotonic()
    with pytest.raises(kafka.NoBroker, match=rf"^no Kafka broker at {nowhere}: connection refused$"):
        kafka.connect(replace(broker.address, bootstrap=nowhere))
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("server", ["localhost", ":9092", "é..x:9092", ".x:9092", f"{'a' * 70}.b:9092", "h:²", f"h:{'9' * 5000}"])
def test_an_address_that_cannot_be_one_is_reported_as_such(server: str) -> None:
    with pytest.raises(kafka.NoBroker, match=r"expected host:port$"):
        kafka.connect(kafka.Address(server, {}, 1))


def test_a_port_that_does_not_answer_times_out_without_log_noise() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        script = (
            "from tandem.infra import kafka; import sys; address = kafka.Address(sys.argv[1], {}, 1)\n"
            "try: kafka.describe(kafka.connect(address), ['x'])\n"
            "except kafka.NoBroker as error: print(error)"
        )
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        done = subprocess.run(
            [sys.executable, "-c", script, where],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            cwd=ROOT,
            env=dict(os.environ),
        )
    assert done.stdout == f"the Kafka broker at {where} did not answer in 1 s\n"
    assert done.stderr == ""
