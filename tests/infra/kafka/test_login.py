"""The embedded broker refuses clients without the project's login, at both ports; only its owner can read the login."""

import json
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tandem.infra import kafka
from tests.stack import consumed, librdkafka, new_topic

pytestmark = pytest.mark.broker

# How the broker was configured before it asked for a login.
OPEN = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={data}
offsets.topic.replication.factor=1
"""
# What another user of the machine can do: he has the port from /proc/net/tcp, and reads what he may.
STRANGER = """
import json, socket, struct, sys
folder, ports = sys.argv[1], json.loads(sys.argv[2])
found = {}
for path in json.loads(sys.argv[3]):
    try:
        open(path).read()
        found[path] = "read"
    except OSError as error:
        found[path] = type(error).__name__
# A request for metadata, version 0, of all topics: what any client without a login begins with.
request = struct.pack(">hhih", 3, 0, 7, 1) + b"x" + struct.pack(">i", 0)
for port in ports:
    with socket.create_connection(("127.0.0.1", port), 10) as asked:
        asked.settimeout(20)
        asked.sendall(struct.pack(">i", len(request)) + request)
        try:
            found[str(port)] = len(asked.recv(1000))
        except ConnectionError:
            found[str(port)] = 0
print(json.dumps(found))
"""
NOBODY = 65534


def home(connection: kafka.BrokerConnection) -> Path:
    """The folder of the shared broker, found by what its own process was started with."""
    port = connection.address.bootstrap.rpartition(":")[2]
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            told = command.read_bytes().decode("utf-8", "replace").split("\0")
            if "kafka.Kafka" in told and f":{port}," in (text := Path(told[told.index("kafka.Kafka") + 1])).read_text():
                return text.parent
    raise AssertionError(port)


def controller(connection: kafka.BrokerConnection) -> int:
    return int(json.loads((home(connection) / "ports.json").read_bytes())["controller"])


def logins(right: Mapping[str, str]) -> dict[str, Mapping[str, str]]:
    plain = {**right, "sasl.mechanism": "PLAIN"}
    return {
        "none": {},
        "wrong password": {**right, "sasl.password": "hush"},
        "unknown user": {**right, "sasl.username": "setup"},
        "its own password by PLAIN": plain,
        "setup without its password": {**plain, "sasl.username": "setup"},
    }


def refused(options: Mapping[str, str], bootstrap: str, topic: kafka.Topic) -> None:
    """Ask and write, in vain."""
    with pytest.raises(kafka.NoBroker) as told:
        kafka.describe(kafka.connect(kafka.Address(bootstrap, options, 2)), [topic.name])
    assert options.get("sasl.password", "no password") not in str(told.value)
    given = {"bootstrap.servers": bootstrap, "log_level": 0, **options}
    with pytest.raises(KafkaException):
        AdminClient(given).list_topics(timeout=1)
    producer = Producer({**given, "message.timeout.ms": "1000"})
    outcomes = list[object]()
    producer.produce(topic.name, b"forged", partition=0, on_delivery=lambda error, _: outcomes.append(error))
    producer.flush(10)
    assert len(outcomes) == 1
    assert outcomes[0] is not None


def test_without_the_login_the_broker_refuses_everybody(broker: kafka.BrokerConnection) -> None:
    """Neither at the port of clients nor at the controller's; nothing is read and nothing written."""
    topic = new_topic(broker)
    ports = (broker.address.bootstrap, f"127.0.0.1:{controller(broker)}")
    tries = {(name, port): (options, port) for name, options in logins(broker.address.options).items() for port in ports}
    # All at once, since each waits for its time-outs.
    with ThreadPoolExecutor(len(tries)) as pool:
        under_way = {which: pool.submit(refused, *given, topic) for which, given in tries.items()}
        failed = {which: error for which, one in under_way.items() if (error := one.exception())}
    assert failed == {}
    assert consumed(broker, topic) == []


@pytest.mark.parametrize(
    "login", ["none", "wrong password", "unknown user", "its own password by PLAIN", "setup without its password"]
)
def test_a_wrong_login_is_reported_as_the_cause(broker: kafka.BrokerConnection, login: str) -> None:
    """At once where the broker refuses it; without a login the broker closes the connection and says nothing."""
    options = logins(broker.address.options)[login]
    began = time.monotonic()
    with pytest.raises(kafka.NoBroker) as refused:
        kafka.connect(kafka.Address(broker.address.bootstrap, options, 30 if options else 2))
    told = str(refused.value)
    assert time.monotonic() - began < 20
    assert options.get("sasl.password", "no password") not in told
    if options:
        assert isinstance(refused.value, kafka.BrokerRefused)
        assert told.startswith(f"Kafka at {broker.address.bootstrap} refuses the login: ")
    else:
        assert told.endswith("it may ask for another login, or for TLS: check kafka.security, kafka.username and kafka.password")


def test_the_controller_refuses_the_login_of_clients(broker: kafka.BrokerConnection) -> None:
    right = replace(broker.address, bootstrap=f"127.0.0.1:{controller(broker)}", timeout_s=2)
    with pytest.raises(kafka.NoBroker):
        kafka.connect(right)


@pytest.mark.slow
def test_another_user_of_the_machine_can_neither_read_nor_connect(broker: kafka.BrokerConnection, tmp_path: Path) -> None:
    """As another user where this one is root; else what he meets is looked at: modes of files, and a client without a login."""
    folder, port = home(broker), int(broker.address.bootstrap.rpartition(":")[2])
    secret = [folder / name for name in ("password", "java.properties", "librdkafka.properties", "server.properties")]
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in secret} == {path.name: 0o600 for path in secret}
    for path in folder.rglob("*"):
        if path.is_file() and path not in secret and broker.address.options["sasl.password"].encode() in path.read_bytes():
            raise AssertionError(path)
    another = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if os.geteuid() == 0 else []
    if another and not shutil.which("setpriv"):
        pytest.skip("root reads everything, and there is no `setpriv` to become another user")
    log = next(path for path in folder.rglob("*.log") if path.stat().st_size)
    read = [str(path) for path in (*secret, log)] if another else []
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
    command = [*another, python, "-I", "-c", STRANGER, str(folder), json.dumps([port, controller(broker)]), json.dumps(read)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd="/")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found == {**dict.fromkeys(read, "PermissionError"), str(port): 0, str(controller(broker)): 0}


def test_other_clients_log_in_with_the_files_of_the_state_folder(broker: kafka.BrokerConnection) -> None:
    topic, folder = new_topic(broker, partitions=1), home(broker)
    told = dict(line.split("=", 1) for line in (folder / "librdkafka.properties").read_text().splitlines())
    assert told == librdkafka(broker)
    java = dict(line.split("=", 1) for line in (folder / "java.properties").read_text().splitlines())
    assert java == kafka.java_options(broker.address)
    with kafka.Sender(broker.address) as sender:
        sender.send(topic.name, b"mine")
    assert [record.value for record in consumed(broker, topic)] == [b"mine"]
    assert broker.address.options["sasl.password"] not in repr(broker)
