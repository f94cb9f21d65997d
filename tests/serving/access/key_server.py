"""An identity provider's key address on a real socket, which hangs, fails, lies and rotates as a test says."""

import gzip
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.serving.access.provider import Issuing


@dataclass
class KeyServer:
    """`how` says what the next requests get; `asked` has one entry a request; `go_on` ends what hangs or trickles."""

    issuing: Issuing
    how: str = "keys"
    asked: list[str] = field(default_factory=list)
    go_on: threading.Event = field(default_factory=threading.Event)
    address: str = ""


def _answers(server: KeyServer, to: BaseHTTPRequestHandler) -> None:
    def send(content: bytes, status: int = 200, **headers: str) -> None:
        to.send_response(status)
        for name, value in headers.items():
            to.send_header(name.replace("_", "-"), value)
        to.send_header("Content-Length", str(len(content)))
        to.end_headers()
        to.wfile.write(content)

    def hang() -> None:
        server.go_on.wait(60)

    def trickle() -> None:
        to.send_response(200)
        to.end_headers()
        while not server.go_on.wait(0.02):
            to.wfile.write(b" ")

    def endless() -> None:
        to.send_response(200)
        to.end_headers()
        while not server.go_on.is_set():
            to.wfile.write(b" " * 65536)

    keys = server.issuing.document()
    how: dict[str, Callable[[], object]] = {
        "keys": lambda: send(keys),
        "hang": hang,
        "trickle": trickle,
        "endless": endless,
        "status": lambda: send(keys, 500),
        "redirect": lambda: send(b"", 302, Location=f"{server.address}/elsewhere"),
        "page": lambda: send(b"<html>log in</html>"),
        "list": lambda: send(b"[]"),
        "deep": lambda: send(b"[" * 100_000),
        "packed": lambda: send(gzip.compress(keys), Content_Encoding="gzip"),
        "many": lambda: send(b'{"keys":[' + b",".join([b'{"kty":"EC","use":"sig"}'] * 101) + b"]}"),
        "closed": lambda: None,
    }
    server.asked.append(server.how)
    try:
        how[server.how]()
    except OSError:
        to.close_connection = True  # who asked is gone


@contextmanager
def key_server(issuing: Issuing) -> Iterator[KeyServer]:
    """A server on a free port of loopback, until the context ends."""
    found = KeyServer(issuing)

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _answers(found, self)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as bound:
        bound.daemon_threads = True
        found.address = f"http://127.0.0.1:{bound.server_port}/keys"
        thread = threading.Thread(target=bound.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield found
        finally:
            found.go_on.set()
            bound.shutdown()
            thread.join()
