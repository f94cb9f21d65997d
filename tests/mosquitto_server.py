"""A real MQTT broker for tests, Mosquitto, on a port of loopback."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest


@dataclass
class MosquittoServer:
    """A broker that runs; it keeps sessions in its folder."""

    folder: Path
    program: str
    port: int
    options: str = ""
    process: "subprocess.Popen[bytes] | None" = field(default=None, init=False)

    def start(self) -> None:
        """Start and wait until it accepts connections."""
        listed = f"listener {self.port} 127.0.0.1\npersistence true\npersistence_location {self.folder}/\nuser root\n"
        (self.folder / "mosquitto.conf").write_text(listed + (self.options or "allow_anonymous true\n"))
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen([self.program, "-c", str(self.folder / "mosquitto.conf")], stdout=log, stderr=log)
        deadline = time.monotonic() + 300
        while socket.socket().connect_ex(("127.0.0.1", self.port)):
            assert self.process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def stop(self) -> None:
        """Stop; it stores its sessions."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(20)


@contextmanager
def mosquitto_server(folder: Path, options: str = "") -> Iterator[MosquittoServer]:
    """Start a broker and stop it; skips the test where Mosquitto is not installed."""
    program = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
    if program is None:
        pytest.skip("Mosquitto is not installed here")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder.mkdir()
    server = MosquittoServer(folder, program, port, options)
    server.start()
    try:
        yield server
    finally:
        server.stop()
