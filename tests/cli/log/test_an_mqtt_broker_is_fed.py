"""`tandem feed mqtt://...`: each message is a record, over ends of the command and of the broker; a message may come twice."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from paho.mqtt.client import Client, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tandem.cli.__main__ import main
from tandem.infra import kafka
from tandem.infra.settings import Settings
from tests.mosquitto_server import MosquittoServer, mosquitto_server
from tests.stack import PYTHONPATH, consumed, environ, kafka_toml

pytestmark = pytest.mark.broker

DEFINITIONS = """
from datetime import datetime
from tandem import Event, Source, View, count

class Reading(Event):
    at: datetime
    n: int

readings = Source(topic="{topic}", event=Reading, event_time="at", identity=("n",), key="n % 5")
hits = View(source=readings, measures={{"n": count()}})
"""


@pytest.fixture
def project(tmp_path: Path, broker: kafka.BrokerConnection) -> Path:
    topic = f"mqtt-{time.monotonic_ns()}"
    (tmp_path / topic).mkdir()
    (tmp_path / topic / "definitions.py").write_text(DEFINITIONS.format(topic=topic))
    (tmp_path / topic / "tandem.toml").write_text(kafka_toml(broker))
    kafka.create(broker, [topic], Settings())
    return tmp_path / topic


@contextmanager
def run_feed(project: Path, server: MosquittoServer, *words: str) -> Iterator["subprocess.Popen[str]"]:
    """The command, once it has subscribed."""
    place = f"mqtt://127.0.0.1:{server.port}/site/+/reading"
    process = subprocess.Popen(
        [sys.executable, "-m", "tandem.cli", "feed", place, "--source", "readings", "--json", *words],
        cwd=project,
        env={**environ(), "PYTHONPATH": PYTHONPATH},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        assert any("subscribed to site/+/reading" in line for line in iter(process.stderr.readline, ""))
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield process
    finally:
        process.kill()
        process.communicate()


def publish(server: MosquittoServer, numbers: range) -> None:
    """Publish a message for each number, each acknowledged by the broker."""
    properties = Properties(PacketTypes.PUBLISH)
    properties.UserProperty = [("idempotency-key", "k")]
    client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTv5)
    client.connect("127.0.0.1", server.port)
    client.loop_start()
    for number in numbers:
        value = json.dumps({"at": "2026-11-01T00:00:00Z", "n": number})
        client.publish(f"site/{number % 3}/reading", value, qos=1, properties=properties).wait_for_publish(20)
    client.disconnect()
    client.loop_stop()


def records(project: Path, broker: kafka.BrokerConnection) -> "list[kafka.Record]":
    return [*consumed(broker, kafka.topic(broker, project.name))]


def wait_for(project: Path, broker: kafka.BrokerConnection, number: int) -> None:
    """Wait until the topic has this many records."""
    deadline = time.monotonic() + 300
    topic = kafka.topic(broker, project.name)
    while sum(kafka.ends(broker, [topic]).values()) < number:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def numbers(project: Path, broker: kafka.BrokerConnection) -> Counter[int]:
    return Counter(json.loads(record.value or b"")["n"] for record in records(project, broker))


@pytest.mark.slow
def test_messages_are_records_once_the_log_has_them(project: Path, broker: kafka.BrokerConnection, tmp_path: Path) -> None:
    with mosquitto_server(tmp_path / "mosquitto") as server:
        with run_feed(project, server) as process:
            publish(server, range(50))
            wait_for(project, broker, 50)
            process.send_signal(signal.SIGTERM)
            out, _ = process.communicate(timeout=300)
            assert (process.returncode, json.loads(out)["sent"]) == (0, 50)
        # The session waits at the broker.
        publish(server, range(50, 80))
        with run_feed(project, server):
            publish(server, range(80, 100))
            wait_for(project, broker, 100)
    assert numbers(project, broker) == Counter(range(100))
    first = records(project, broker)[0]
    assert ("idempotency-key", b"k") in first.headers
    assert dict(first.headers)["mqtt.topic"] in {b"site/0/reading", b"site/1/reading", b"site/2/reading"}


@pytest.mark.slow
def test_nothing_is_lost_when_command_and_broker_are_killed(
    project: Path, broker: kafka.BrokerConnection, tmp_path: Path
) -> None:
    with mosquitto_server(tmp_path / "mosquitto") as server:
        for turn in range(4):
            with run_feed(project, server) as process:
                publish(server, range(100 * turn, 100 * turn + 100))
                process.kill()
        with run_feed(project, server):
            server.stop()
            server.start()
            publish(server, range(400, 420))
            wait_for(project, broker, 420)
            deadline = time.monotonic() + 300
            while set(numbers(project, broker)) < set(range(420)):
                assert time.monotonic() < deadline
                time.sleep(0.1)
    assert set(numbers(project, broker)) == set(range(420))


def test_of_two_commands_with_one_session_one_ends(project: Path, broker: kafka.BrokerConnection, tmp_path: Path) -> None:
    del broker
    with mosquitto_server(tmp_path / "mosquitto") as server:
        place = f"mqtt://127.0.0.1:{server.port}/site/+/reading"
        command = [sys.executable, "-m", "tandem.cli", "feed", place, "--source", "readings"]
        env = {**environ(), "PYTHONPATH": PYTHONPATH}
        both = [subprocess.Popen(command, cwd=project, env=env, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        try:
            deadline = time.monotonic() + 300
            # Each takes the session from the other, until one gives up.
            while all(process.poll() is None for process in both):
                assert time.monotonic() < deadline
                time.sleep(0.1)
        finally:
            for process in both:
                process.terminate()
            said = [process.communicate(timeout=300)[1] for process in both]
    (ended,) = [number for number, process in enumerate(both) if process.returncode]
    last = " ".join(said[ended].splitlines()[-1].split())
    assert "another client may use the id tandem.mqtt-" in last or "ended the connection: " in last


def test_a_broker_that_refuses_the_login_is_one_sentence(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with mosquitto_server(tmp_path / "mosquitto", "allow_anonymous false\n") as server:
        place = f"mqtt://127.0.0.1:{server.port}/site/#"
        assert main(["feed", place, "--source", "readings", "--project", str(project)]) == 1
        assert f"{place} refuses the client: Not authorized" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["mqtt://127.0.0.1:1/a"], "cannot reach mqtt://127.0.0.1:1/a: "),
        (["mqtt://ann:secret@127.0.0.1/a"], "mqtt://...@127.0.0.1: a login does not belong in an address"),
        (["mqtt://127.0.0.1"], "'' is not a topic filter"),
        (["mqtt://127.0.0.1/a/#/b"], "'a/#/b' is not a topic filter"),
        (["mqtt://127.0.0.1/a+/b"], "'a+/b' is not a topic filter"),
        (["mqtt://:1883/a"], "expected mqtt://HOST:PORT/FILTER"),
        (["mqtt://127.0.0.1/a", "--wait"], "leave --follow and --wait out"),
        (["tcp://:0", "--client-id", "a"], "--client-id needs an address that begins with mqtt://"),
    ],
)
def test_an_address_that_is_not_complete_is_one_sentence(
    project: Path, capsys: pytest.CaptureFixture[str], words: list[str], sentence: str
) -> None:
    assert main(["feed", *words, "--source", "readings", "--project", str(project)]) in (1, 2)
    said = " ".join(capsys.readouterr().err.split())
    assert sentence in said
    assert "secret" not in said
