"""A server on a socket: where it may listen, and how it starts and stops."""

import asyncio
import resource
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp

from tandem.serving.access.limits import network_of
from tandem.serving.access.oidc import is_loopback
from tandem.serving.http.connections.admission import SPARE, Door
from tandem.serving.http.connections.bounded_protocol import Bounded
from tandem.views.errors import TandemError

if TYPE_CHECKING:
    from tandem.serving.http.requests.server import Server

_GRACE_S: Final = 10
_FILES: Final = 512 + SPARE
"""Descriptors that the server needs besides those of its connections: tables, processes of statements, spare slots."""
_SWEEP_TICKS: Final = 2
"""uvicorn ticks ten times a second."""


class CannotServe(TandemError, code="address-unusable"):
    """An address on which the server may not or cannot listen."""


@dataclass(frozen=True)
class Tls:
    """A certificate with its chain, and its key, in PEM files."""

    certificate: Path
    key: Path


def check(tls: Tls | None) -> None:
    """Raises CannotServe if the certificate or key cannot be used."""
    if tls is not None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tls.certificate, tls.key)
        except OSError as error:
            raise _unusable(error) from error


def _unusable(error: OSError) -> CannotServe:
    return CannotServe(f"the certificate and key cannot be used: {error.strerror or error}")


def listening(host: str, port: int, *, tls: Tls | None) -> socket.socket:
    """A socket that listens at the address; port 0 takes a free one. Raises CannotServe, also if that would not be safe."""
    if tls is None and not is_loopback(host):
        raise CannotServe(f"other machines can reach {host}, so it needs --tls-cert and --tls-key; 127.0.0.1 does not")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # What is accepted from it has it too: small answers do not wait for the client's acknowledgement.
            bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            bound.bind(address)
            bound.listen(2048)
        except BaseException:
            bound.close()
            raise
    except OSError as error:
        raise CannotServe(f"cannot listen on {host}:{port}: {error.strerror}; choose another --port") from error
    return bound


def address_of(bound: socket.socket, *, tls: Tls | None) -> str:
    """The URL of a socket."""
    host, port, *_ = bound.getsockname()
    return f"{'http' if tls is None else 'https'}://{f'[{host}]' if ':' in host else host}:{port}"


def configured(app: ASGIApp, **further: Any) -> uvicorn.Config:
    """Uvicorn's settings for an application: it neither logs nor adds headers, and believes no proxy; `further` are others."""
    return uvicorn.Config(
        app,
        loop="uvloop",
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="critical",  # the application reports its own errors
        access_log=False,
        server_header=False,
        proxy_headers=False,
        **further,
    )


def serve(
    app: FastAPI,
    bound: socket.socket,
    *,
    tls: Tls | None,
    ready: Callable[[], None],
    stop: threading.Event,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Answer on the socket until `stop` is set, then finish the running requests. `ready` is called once the server answers.

    `clock` returns monotonic seconds, by which connections are judged. Raises CannotServe if the certificate or key
    cannot be used, and for any other error that ended the server.
    """
    server = cast("Server", app.state.server)
    door = Door(server.settings, _fitting(server.settings.connections), server.metrics, server.access, clock)
    config = configured(
        app,
        timeout_keep_alive=server.settings.keep_alive_s,
        timeout_graceful_shutdown=_GRACE_S,
        ssl_certfile=None if tls is None else tls.certificate,
        ssl_keyfile=None if tls is None else tls.key,
    )
    try:
        config.load()
    except OSError as error:
        raise _unusable(error) from error
    listener = _Server(config, ready, door)
    failed: list[BaseException] = []

    def run() -> None:
        try:
            listener.run(sockets=[bound])
        except BaseException as error:  # noqa: BLE001 - it is raised in the waiting thread
            failed.append(error)
        finally:
            stop.set()

    # Not in this thread: there uvicorn would take the signals that `stop` is set by, and end the process by them.
    thread = threading.Thread(target=run, name="server")
    thread.start()
    try:
        stop.wait()
    finally:
        listener.should_exit = True
        thread.join()
    if failed:
        raise CannotServe(f"the server ended: {failed[0]}") from failed[0]


def _fitting(connections: int) -> int:
    """At most this many connections, within the process's limit of open files, which is raised as far as possible."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return connections if soft == resource.RLIM_INFINITY else max(1, min(connections, soft - _FILES))


class _Server(uvicorn.Server):
    """Reports when it has started, and ends connections that are too slow."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None], door: Door) -> None:
        super().__init__(config)
        self._ready, self._door = ready, door

    async def on_tick(self, counter: int) -> bool:
        if counter % _SWEEP_TICKS == 0:
            self._door.sweep()
        return await super().on_tick(counter)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])
        made = partial(Bounded, self.config, self.server_state, self.lifespan.state, door=self._door)
        self._accepting = [Accepting(bound, made, self.config.ssl) for bound in sockets or ()]
        for one in self._accepting:
            one.start()
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for one in self._accepting:
            one.stop()
        await super().shutdown(sockets)


_EACH_TURN: Final = 64
_HANDSHAKE_S: Final = 5.0
_PAUSE_S: Final = 0.1
"""Seconds until the next try if the process has no free descriptor."""


@dataclass
class Accepting:
    """Accepts connections of a listening socket into the running loop, many in one turn of it, each judged by its address first.

    The event loop itself accepts one connection a turn, so a client that opens many would delay all others.

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
