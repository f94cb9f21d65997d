"""A receiver of alerts: a real HTTP server on loopback that answers as a test asks it to."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any


@dataclass
class Heard:
    """The requests of a receiver; `answers` are its next ones: a status, or what else it does. Then it answers 204.

    The text `429 30` is a status with a Retry-After.
    """

    address: str = ""
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    answers: list[int | str] = field(default_factory=list)
    over: Event = field(default_factory=Event)

    @property
    def documents(self) -> list[Any]:
        return [json.loads(body) for _, body in self.requests]

    @property
    def ids(self) -> list[str]:
        return [headers["webhook-id"] for headers, _ in self.requests]


@contextmanager
def receiver() -> Iterator[Heard]:
    heard = Heard()

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            heard.requests.append(({name.lower(): value for name, value in self.headers.items()}, body))
            match heard.answers.pop(0) if heard.answers else 204:
                case "hang":
                    heard.over.wait(60)
                case "drip":
                    while not heard.over.wait(0.1):
                        try:
                            self.wfile.write(b"H")
                        except OSError:
                            return
                case "drop":
                    self.connection.shutdown(socket.SHUT_RDWR)
                case int(status) | str(status):
                    status, _, retry_after = str(status).partition(" ")
                    self.send_response(int(status))
                    if retry_after:
                        self.send_header("Retry-After", retry_after)
                    if status.startswith("3"):
                        self.send_header("Location", f"{heard.address}/elsewhere")
                    self.send_header("Content-Length", "0")
                    self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    server.daemon_threads = True
    heard.address = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield heard
    finally:
        heard.over.set()
        server.shutdown()
        server.server_close()
