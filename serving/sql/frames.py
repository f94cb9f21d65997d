"""Messages between the processes of foreign SQL, over a Unix stream socket: a body, bytes beside it, open files."""

import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_HEAD: Final = struct.Struct(">IQ")
_MOST_BODY: Final = 16 << 20
_MOST_FILES: Final = 100
_PIECE: Final = 1 << 20


class Broken(Exception):
    """The other side has ended, or sent an invalid message; the text says which."""


@dataclass(frozen=True)
class Frame:
    """One message; its receiver owns its `files`, which are descriptors."""

    body: bytes
    payload: bytes = b""
    files: tuple[int, ...] = ()


def send(to: socket.socket, body: bytes, payload: bytes | memoryview = b"", files: Sequence[int] = ()) -> None:
    """Send one message. Raises Broken if the other side has ended, TimeoutError after the socket's own timeout."""
    said = _HEAD.pack(len(body), len(payload)) + body
    try:
        # Descriptors travel with the first bytes.
        sent = socket.send_fds(to, [said], list(files)) if files else 0
        if sent < len(said):
            to.sendall(said[sent:])
        if payload:  # sending no bytes fails if the other side has read everything and ended
            to.sendall(payload)
    except TimeoutError:
        raise
    except OSError as error:
        raise Broken(f"cannot be written to: {error}") from error


def receive(of: socket.socket, *, most: int = 0, files: bool = False) -> Frame:
    """The next message, with at most N bytes besides its body, and with descriptors only if `files`.

    Raises Broken, and TimeoutError after the socket's own timeout.
    """
    try:
        head, descriptors = b"", []
        while len(head) < _HEAD.size:
            if files and not head:
                some, given, _, _ = socket.recv_fds(of, _HEAD.size, _MOST_FILES)
                descriptors += given
            else:
                some = of.recv(_HEAD.size - len(head))
            if not some:
                raise Broken("has ended")
            head += some
        body, payload = _HEAD.unpack(head)
        if body > _MOST_BODY or payload > most:
            raise Broken(f"announced {body} and {payload} bytes; the limits are {_MOST_BODY} and {most}")
        return Frame(_whole(of, body), _whole(of, payload), tuple(descriptors))
    except TimeoutError:
        raise
    except OSError as error:
        raise Broken(f"cannot be read: {error}") from error


def _whole(of: socket.socket, length: int) -> bytes:
    pieces, missing = [], length
    while missing:
        some = of.recv(min(missing, _PIECE))
        if not some:
            raise Broken("ended within a message")
        pieces.append(some)
        missing -= len(some)
    return b"".join(pieces)
