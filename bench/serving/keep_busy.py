"""A load of look-ups: connections that each send the next request as soon as the answer to the one before is there.

One thread serves all connections, with requests that are written beforehand: a client that needs more than a few microseconds for
each would be measured instead of the server.
"""

import select
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import numpy as np

from tandem.views.errors import TandemError

_PIECE: Final = 1 << 16
_PATIENCE_S: Final = 60


@dataclass(frozen=True)
class BusyLoad:
    """Answers per second, and seconds of an answer: the median and the 99th percentile."""

    rate: float
    p50: float
    p99: float


def requests(address: str, secret: str, paths: Sequence[str]) -> list[bytes]:
    """The bytes of a request for each path."""
    host = urlsplit(address).netloc
    return [f"GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {secret}\r\n\r\n".encode() for path in paths]


def keep_busy(address: str, asked: Sequence[bytes], connections: int, seconds: float) -> BusyLoad:
    """The load of N connections for some time, and at least until an answer.

    Raises TandemError for any answer but 200, and for none within a minute.
    """
    parts = urlsplit(address)
    place = (parts.hostname or "", parts.port or 0)
    spent: list[float] = []
    poll, clients = select.epoll(), {}
    try:
        for number in range(connections):
            sock = socket.create_connection(place)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            clients[sock.fileno()] = _BusyClient(sock, number)
            poll.register(sock.fileno(), select.EPOLLIN)
        began = time.perf_counter()
        for client in clients.values():
            client.ask(asked)
        while (now := time.perf_counter()) < began + seconds or not spent:
            ready = poll.poll(_PATIENCE_S)
            if not ready:
                raise TandemError(f"{address} gave no answer within {_PATIENCE_S} s")
            for descriptor, _ in ready:
                client = clients[descriptor]
                if client.heard():
                    spent.append(time.perf_counter() - client.sent)
                    client.ask(asked)
        p50, p99 = np.percentile(spent, (50, 99))
        return BusyLoad(len(spent) / (now - began), float(p50), float(p99))
    finally:
        poll.close()
        for client in clients.values():
            client.sock.close()


class _BusyClient:
    """A connection, and the answer that arrives on it."""

    def __init__(self, sock: socket.socket, number: int) -> None:
        self.sock, self._next, self._got, self.sent = sock, number * 97, b"", 0.0

    def ask(self, asked: Sequence[bytes]) -> None:
        self._next += 1
        self.sent = time.perf_counter()
        self.sock.sendall(asked[self._next % len(asked)])

    def heard(self) -> bool:
        """Whether the answer is complete."""
        piece = self.sock.recv(_PIECE)
        self._got += piece
        head, end, body = self._got.partition(b"\r\n\r\n")
        if not piece or (end and not head.startswith(b"HTTP/1.1 200")):
            raise TandemError(f"a look-up was answered with {self._got[:300]!r}")
        if not end or len(body) < int(head.lower().partition(b"content-length:")[2].partition(b"\r")[0]):
            return False
        self._got = b""
        return True
