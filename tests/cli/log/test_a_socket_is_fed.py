"""`tandem feed tcp://:PORT`: every line of every connection is a record once it was acknowledged, and a bad client ends alone."""

import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from tandem.cli.__main__ import main
from tandem.cli.log.tcp_feed import MOST_CONNECTIONS
from tandem.infra import kafka
from tandem.infra.settings import Settings
from tests.stack import PYTHONPATH, consumed, environ, kafka_toml

pytestmark = pytest.mark.broker

DEFINITIONS = """
from datetime import datetime
from tandem import Event, Source, View, count

class Line(Event):
    at: datetime
    n: int

lines = Source(topic="{topic}", event=Line, event_time="at", key="n % 5")
hits = View(source=lines, measures={{"n": count()}})
"""


@pytest.fixture
def project(tmp_path: Path, broker: kafka.BrokerConnection) -> Path:
    topic = f"socket-{time.monotonic_ns()}"
    (tmp_path / topic).mkdir()
    (tmp_path / topic / "definitions.py").write_text(DEFINITIONS.format(topic=topic))
    (tmp_path / topic / "tandem.toml").write_text(kafka_toml(broker))
    kafka.create(broker, [topic], Settings())
    return tmp_path / topic


@contextmanager
def run_listener(project: Path) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """The command, and its port."""
    command = [sys.executable, "-m", "tandem.cli", "feed", "tcp://:0", "--source", "lines", "--json"]
    process = subprocess.Popen(
        command,
        cwd=project,
        env={**environ(), "PYTHONPATH": PYTHONPATH},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        said = next(line for line in iter(process.stderr.readline, "") if "listening" in line)
        place = re.search(r"127\.0\.0\.1:(\d+)", said)
        assert place is not None, said
        yield process, int(place[1])
    finally:
        process.kill()
        process.communicate()


def write(port: int, content: bytes) -> bytes:
    """What the command answers to a client that writes this and waits for the end."""
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(content)
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(1 << 16), b""))


def rows(*numbers: int) -> bytes:
    return b"".join(b'{"at": "2026-11-01T00:00:00Z", "n": %d}\n' % number for number in numbers)


@pytest.mark.slow
def test_lines_of_all_clients_are_records_and_a_bad_one_ends_alone(project: Path, broker: kafka.BrokerConnection) -> None:
    with run_listener(project) as (process, port):
        with socket.create_connection(("127.0.0.1", port)) as slow:
            slow.sendall(rows(0)[:20])
            clients = [Thread(target=write, args=(port, rows(*range(n, n + 100)).rstrip())) for n in range(1, 8_000, 100)]
            assert len(clients) > MOST_CONNECTIONS
            for client in clients:
                client.start()
            assert b"2 of the first 2 records of the connection from 127.0.0.1:" in write(port, b"GET / HTTP/1.1\r\nHost: a\r\n")
            assert b"has more than 1000000 bytes" in write(port, b"x" * 1_000_001)
            for client in clients:
                client.join()
            slow.sendall(rows(0)[20:])
            slow.shutdown(socket.SHUT_WR)
            assert slow.recv(1) == b""
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=300)
        document = json.loads(out)
    assert (process.returncode, document["sent"], document["connections"]) == (0, 8_001, len(clients) + 3)
    sent = consumed(broker, kafka.topic(broker, project.name))
    assert sorted(json.loads(record.value)["n"] for record in sent) == [*range(8_001)]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["tcp://:http"], "the port is 'http'; expected a number up to 65535"),
        (["tcp://192.0.2.1:9"], "cannot listen on 192.0.2.1:9: "),
        (["tcp://:0", "--follow"], "leave --follow and --wait out"),
    ],
)
def test_what_cannot_be_listened_to_is_one_sentence(
    project: Path, capsys: pytest.CaptureFixture[str], words: list[str], sentence: str
) -> None:
    assert main(["feed", *words, "--source", "lines", "--project", str(project)]) in (1, 2)
    assert sentence in " ".join(capsys.readouterr().err.split())
