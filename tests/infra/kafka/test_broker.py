"""The embedded broker: real Kafka, on loopback, with constant port and data, and plain sentences if it cannot start."""

import socket
import uuid
from contextlib import closing
from pathlib import Path

import pytest

from tandem.infra import kafka
from tandem.infra.kafka import broker as embedded
from tandem.infra.process import background
from tandem.infra.settings import KafkaSettings, Settings
from tests.infra.kafka.secured.authority import Authority
from tests.stack import environ

pytestmark = pytest.mark.broker


def start(settings: Settings) -> background.Process:
    with background.starting(settings.folder):
        return embedded.start(settings, environ=environ())


def stop(settings: Settings) -> None:
    if process := background.running(settings.folder, embedded.NAME):
        background.stop(settings.folder, process, seconds=20)


@pytest.mark.slow
def test_a_restart_keeps_topics_data_and_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # One cluster id in 64 begins with a dash, as an option does.
    monkeypatch.setattr("uuid.uuid4", lambda: uuid.UUID(bytes=b"\xf8" * 16))
    settings = Settings(state=str(tmp_path), kafka=KafkaSettings(memory="256m", timeout_s=20))
    try:
        first = start(settings)
        assert start(settings) == first
        address = embedded.address(settings)
        kept = kafka.create(kafka.connect(address), ["kept"], settings)["kept"]
        with kafka.Sender(address) as sender:
            sender.send("kept", b"one")
        stop(settings)
        with pytest.raises(kafka.NoBroker, match="is not running; start it with `tandem up`"):
            embedded.address(settings)
        second = start(settings)
        assert second.pid != first.pid
        assert embedded.address(settings) == address
        connection = kafka.connect(address)
        assert kafka.describe(connection, ["kept"]) == {"kept": kept}
        assert sum(kafka.ends(connection, [kept]).values()) == 1
    finally:
        stop(settings)


@pytest.mark.slow
def test_a_transaction_fails_in_time_where_the_broker_stops(tmp_path: Path) -> None:
    """The next appender ends it, once a broker runs."""
    settings = Settings(state=str(tmp_path), kafka=KafkaSettings(memory="256m", timeout_s=5))
    try:
        start(settings)
        address = embedded.address(settings)
        topic = kafka.create(kafka.connect(address), ["out"], settings)["out"]
        first = kafka.ExactlyOnceAppender(address, topic, "out", {})
        first.append([kafka.Record(0, None, b"one")], "one")
        stop(settings)
        with pytest.raises(kafka.NoBroker, match="did not complete a transaction of topic 'out'"):
            first.append([], "two")
        start(settings)
        with kafka.ExactlyOnceAppender(address, topic, "out", {}) as second:
            assert (stored := second.newest()) is not None
            assert stored.text == "one"
            second.append([kafka.Record(0, None, b"two")], "two")
    finally:
        stop(settings)


def test_a_port_in_use_is_reported_before_anything_starts(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        port = other.getsockname()[1]
        settings = Settings(state=str(tmp_path), kafka=KafkaSettings(port=port))
        with pytest.raises(embedded.BrokerPortTaken, match=rf"^another program uses port {port} on 127\.0\.0\.1 \(kafka\.port\)"):
            start(settings)
    assert background.names(tmp_path) == []


def test_the_broker_listens_only_on_loopback(broker: kafka.BrokerConnection) -> None:
    port = int(broker.address.bootstrap.rpartition(":")[2])
    with closing(socket.create_server(("127.0.0.2", port))):
        # Nothing holds the port on another address, which it would if it were bound to all.
        assert broker.address.bootstrap == f"127.0.0.1:{port}"


def test_an_outside_broker_is_reached_as_configured(tmp_path: Path) -> None:
    certificates = str(Authority(tmp_path).file)
    settings = Settings(
        kafka=KafkaSettings(
            bootstrap="a:9093,b:9093",
            security="sasl_ssl",
            mechanism="SCRAM-SHA-512",
            username="me",
            password="x",
            ca_file=certificates,
        )
    )
    address = embedded.address(settings)
    assert address.bootstrap == "a:9093,b:9093"
    assert address.options == {
        "security.protocol": "sasl_ssl",
        "ssl.ca.location": certificates,
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "me",
        "sasl.password": "x",
    }
