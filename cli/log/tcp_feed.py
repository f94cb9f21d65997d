"""Sends lines that clients write to a TCP socket. The log has acknowledged what a connection sent before more of it is read.

So at most one piece of each connection is in memory, and a client that sends faster than the log takes waits in its own `send`.
"""

import selectors
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Event
from typing import Final

from tandem.cli.log.sending import RecordSending
from tandem.cli.records.bundles import BundledValue, Bundles, UnclosedQuote
from tandem.cli.records.lines import split_lines
from tandem.cli.records.reject_groups import sample_sentence
from tandem.infra import kafka
from tandem.ledger.log.registry_schemas import RegistrySchemas
from tandem.views.counted import counted
from tandem.views.decode.file import value_ends
from tandem.views.errors import TandemError
from tandem.views.source.source import Source

MOST_CONNECTIONS: Final = 64
"""Connections at a time; a later one waits until an earlier one ends."""
_PIECE: Final = 1 << 18
_MOST_LINE: Final = kafka.MOST_BYTES
_LOOK_S: Final = 0.2


def address_of(text: str) -> tuple[str, int] | None:
    """Host and port of `tcp://HOST:PORT`, 127.0.0.1 without a host; None for another text. Raises TandemError for a bad port."""
    scheme, separator, place = text.partition("://")
    if (scheme, separator) != ("tcp", "://"):
        return None
    host, _, port = place.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise TandemError(f"{text}: the port is {port!r}; expected a number up to 65535, as in tcp://:9999", code="usage-invalid")
    return host.strip("[]") or "127.0.0.1", int(port)


@dataclass
class _SocketClient:
    """A connection: its lines that wait to be a record."""

    stream: socket.socket
    name: str
    bundles: Bundles
    rest: bytes = b""
    checked: bool = False


@dataclass
class TcpFeed:
    """Takes connections and sends their lines. `connections` counts those that have ended."""

    source: Source
    sending: RecordSending
    schemas: RegistrySchemas
    say: Callable[[str], None]
    allow_rejects: bool = False
    connections: int = 0
    _selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector, init=False, repr=False)

    def run(self, listener: socket.socket, stop: Event) -> None:
        """Serve until `stop` is set. A connection with a fault gets the sentence and ends. Raises NotSent."""
        clients: dict[socket.socket, _SocketClient] = {}
        listener.setblocking(False)
        with self._selector:
            self._selector.register(listener, selectors.EVENT_READ)
            try:
                while not stop.is_set():
                    for key, _ in self._selector.select(_LOOK_S):
                        if key.fileobj is listener:
                            self._accept(listener, clients)
                        elif (client := clients.get(key.fileobj)) is not None:  # type: ignore[call-overload]  # sockets alone
                            self._take_piece(client)
                            if client.stream.fileno() < 0:
                                del clients[key.fileobj]  # type: ignore[arg-type]
                                if len(clients) == MOST_CONNECTIONS - 1:
                                    self._selector.register(listener, selectors.EVENT_READ)
            finally:
                for stream in clients:
                    stream.close()

    def _accept(self, listener: socket.socket, clients: dict[socket.socket, _SocketClient]) -> None:
        with suppress(BlockingIOError, ConnectionError):
            stream, peer = listener.accept()
            stream.setblocking(False)
            name = f"the connection from {peer[0]}:{peer[1]}"
            clients[stream] = _SocketClient(stream, name, Bundles.of(self.source, name))
            self._selector.register(stream, selectors.EVENT_READ)
            if len(clients) == MOST_CONNECTIONS:
                self._selector.unregister(listener)

    def _take_piece(self, client: _SocketClient) -> None:
        """Send the complete records of one piece, and wait until the log has acknowledged them."""
        try:
            piece = client.stream.recv(_PIECE)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        try:
            self._send(client, piece)
        except kafka.NotSent:
            raise
        except (TandemError, UnclosedQuote) as error:
            self.say(f"tandem: {error}")
            with suppress(OSError):
                client.stream.send(f"{error}\n".encode())
            piece = b""
        if not piece:
            self._selector.unregister(client.stream)
            client.stream.close()
            self.connections += 1

    def _send(self, client: _SocketClient, piece: bytes) -> None:
        lines, client.rest = split_lines(client.rest + piece, framed=value_ends(self.source) == "framed lines")
        if len(client.rest) > _MOST_LINE:
            raise TandemError(f"a line of {client.name} has more than {_MOST_LINE} bytes; it ends the connection")
        if not piece and client.rest:
            lines.append(client.rest)
        values = [*self._values(client, lines, ended=not piece)]
        if values and not client.checked and not self.allow_rejects:
            client.checked = True
            if doubt := sample_sentence(self.source, values, client.name, schemas=self.schemas):
                self.say(f"tandem: {doubt}")
        self.sending.file = client.name
        self.sending.extend(values)
        self.sending.finish()
        if not piece:
            client.bundles.end()

    def _values(self, client: _SocketClient, lines: list[bytes], *, ended: bool) -> Iterator[BundledValue]:
        for line in lines:
            yield from client.bundles.add(line)
        if ended or lines:
            yield from client.bundles.rest()


@contextmanager
def open_listener(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that takes connections. Raises TandemError for a port that another program has, and an address of another host."""
    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise TandemError(f"cannot listen on {host}:{port}: {error.strerror or error}", code="usage-invalid") from error
    with listener:
        yield listener


def summary(feed: TcpFeed, source: str) -> str:
    """What a run has done, as a sentence."""
    sent = counted(feed.sending.sender.acknowledged, "record")
    return f"sent {sent} of {counted(feed.connections, 'connection')} to {source}; all acknowledged"
