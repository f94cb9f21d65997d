"""The messages between the processes of foreign SQL, as JSON in frames.

server -> zygote   Start (with the child's end of a socket), Kill
zygote -> server   Ready, once
server -> child    Statement, then Given (with one descriptor per view)
child  -> server   Named or Denied, then Result (with the rows as an Arrow stream) or Denied
"""

import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from tandem.views.errors import TandemError

Reason = Literal["statement", "view", "limit", "failed"]
"""The kind of a refusal.

statement: it is not one SELECT that DuckDB can run. view: it names an unknown view. limit: it exceeds a limit. failed: what it
needs could not be read or started, which is not a fault of the statement.
"""


CODES: Final[Mapping[Reason, str]] = {
    "statement": "statement-invalid",
    "view": "view-unknown",
    "limit": "statement-over-limit",
    "failed": "statement-failed",
}


class StatementRefused(TandemError, code="statement-failed"):
    """A statement without a result: one sentence, and the kind of its reason."""

    def __init__(self, sentence: str, reason: Reason) -> None:
        super().__init__(sentence, code=CODES[reason])
        self.reason: Reason = reason


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


class Start(msgspec.Struct, frozen=True, tag="start"):
    """Fork a child; the frame carries its end of a socket. `number` names it from now on."""

    number: int


class Kill(msgspec.Struct, frozen=True, tag="kill"):
    """End a child, if it has not ended."""

    number: int


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """Children can be started."""


class Statement(msgspec.Struct, frozen=True, tag="statement"):
    """The statement to run."""

    text: str


class NamedViews(msgspec.Struct, frozen=True, tag="named"):
    """The views that the statement names."""

    views: list[str]


class Given(msgspec.Struct, frozen=True, tag="given"):
    """The views, in the order of the frame's descriptors; `size` is their sum in bytes."""

    views: list[str]
    size: int


class Result(msgspec.Struct, frozen=True, tag="result"):
    """The rows are the frame's payload."""

    rows: int


class Denied(msgspec.Struct, frozen=True, tag="denied"):
    """There is no result, and why."""

    sentence: str
    reason: Reason


TO_ZYGOTE = msgspec.json.Decoder(Start | Kill)
OF_ZYGOTE = msgspec.json.Decoder(Ready)
TO_CHILD = msgspec.json.Decoder(Statement | Given)
OF_CHILD = msgspec.json.Decoder(NamedViews | Result | Denied)
encode = msgspec.json.encode
