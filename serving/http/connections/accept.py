"""Accepting connections: many in one turn of the event loop, each judged by its address before anything is read from it.

The event loop itself accepts one connection a turn, so a client that opens many would delay all others.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tandem.serving.access.invalid_tokens import network_of
from tandem.serving.http.connections.bounded_protocol import Bounded

_EACH_TURN: Final = 64
_HANDSHAKE_S: Final = 5.0
_PAUSE_S: Final = 0.1
"""Seconds until the next try if the process has no free descriptor."""


@dataclass
class Accepting:
    """Accepts connections of a listening socket into the running loop, many in one turn of it.

    `made` creates a connection. For one event loop.
    """

    bound: socket.socket
    made: Callable[[], Bounded]
    tls: ssl.SSLContext | None
    _tasks: set["asyncio.Task[None]"] = field(default_factory=set, init=False, repr=False)
    _over: bool = field(default=False, init=False, repr=False)

    def start(self) -> None:
        """Accept connections from now on."""
        self.bound.setblocking(False)
        self._listen()

    def stop(self) -> None:
        """Stop accepting."""
        self._over = True
        asyncio.get_running_loop().remove_reader(self.bound)
        for task in self._tasks:
            task.cancel()

    def _listen(self) -> None:
        if not self._over:
            asyncio.get_running_loop().add_reader(self.bound, self._ready)

    def _ready(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(_EACH_TURN):
            try:
                sock, peer = self.bound.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                loop.remove_reader(self.bound)
                loop.call_later(_PAUSE_S, self._listen)
                return
            sock.setblocking(False)
            task = loop.create_task(self._connect(sock, network_of(peer[0])))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _connect(self, sock: socket.socket, address: str) -> None:
        connection = self.made()
        try:
            if connection.came_from(address):
                limit = None if self.tls is None else _HANDSHAKE_S
                await asyncio.get_running_loop().connect_accepted_socket(
                    lambda: connection, sock, ssl=self.tls, ssl_handshake_timeout=limit
                )
        except (OSError, TimeoutError):  # of the handshake
            pass
        finally:
            if not connection.made:
                connection.failed()
                sock.close()
