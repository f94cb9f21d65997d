"""What a command and the owner of a kept session say to each other: JSON lines over a Unix socket of the state folder.

The socket has mode 0600. The secret of Spark's gateway goes over it and nowhere else. A command holds the session until its
connection closes, which the kernel does when the last thread of the command has ended.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

import msgspec

_FOLDER: Final = "run"
_FILE: Final = "session.sock"
_MOST_BYTES: Final = 1 << 20
_DIRECT: Final = 100
"""The kernel's limit for the path of a socket is 108 bytes on Linux, 104 elsewhere."""


class Request(msgspec.Struct, frozen=True):
    """What a client wants: the `session` for the command `what` of process `pid`, which has these marks; or the `lock` of `path`.

    A `ping` asks for a sign of life.
    """

    want: Literal["session", "lock", "ping"]
    what: str = ""
    pid: int = 0
    marks: dict[str, str] = {}
    path: str = ""


class Reply(msgspec.Struct, frozen=True):
    """`yours`: the session, with gateway and number of the loan; `wait`: it starts, or is cleared; `refused`: with the reason.

    `locked` and `held` answer a request for a lock: taken, or held by another process. `alive` answers a ping; `free` if a
    command would get the session at once.
    """

    answer: Literal["yours", "wait", "refused", "locked", "held", "alive"]
    why: str = ""
    port: int = 0
    secret: str = ""
    loan: int = 0
    free: bool = False


class Closed(OSError):
    """The other side has closed the connection, or does not answer."""


class Lines:
    """A connection, read by lines."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._left = b""

    def send(self, message: Request | Reply) -> None:
        """Send a message. Raises OSError."""
        self.socket.sendall(msgspec.json.encode(message) + b"\n")

    def read(self) -> bytes | None:
        """The next line; None if this call, which waits for one read of the socket, has not completed it. Raises OSError."""
        if (line := self._line()) is not None:
            return line
        got = self.socket.recv(65536)
        if not got or len(self._left) > _MOST_BYTES:
            raise Closed("the connection is closed")
        self._left += got
        return self._line()

    def reply(self, seconds: float) -> Reply:
        """The next reply. Raises OSError, also after this many seconds without one."""
        self.socket.settimeout(seconds)
        while (line := self.read()) is None:
            pass
        try:
            return msgspec.json.decode(line, type=Reply)
        except msgspec.DecodeError as error:
            raise Closed(f"not a reply: {error}") from None

    def _line(self) -> bytes | None:
        line, end, left = self._left.partition(b"\n")
        if not end:
            return None
        self._left = left
        return line


def file(state: Path) -> Path:
    """The socket of a state folder."""
    return state / _FOLDER / _FILE


def listen(state: Path) -> socket.socket:
    """Listen on the socket of a state folder, which replaces one of an ended owner. Raises OSError."""
    path = file(state)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # The state folder has mode 0700, so no other user connects between the two calls.
        with _address(path) as address:
            listening.bind(address)
        path.chmod(0o600)
        listening.listen()
    except BaseException:
        listening.close()
        raise
    return listening


def connect(state: Path, seconds: float) -> Lines:
    """Connect to the owner of a state folder's session. Raises OSError if no process listens."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(seconds)
        with _address(file(state)) as address:
            connection.connect(address)
    except BaseException:
        connection.close()
        raise
    return Lines(connection)


def ping(state: Path, seconds: float) -> Reply | None:
    """What the owner of a state folder's session answers within this time; None if it does not."""
    try:
        connection = connect(state, seconds)
    except OSError:
        return None
    with connection.socket:
        try:
            connection.send(Request("ping"))
            return connection.reply(seconds)
        except OSError:
            return None


@contextmanager
def _address(path: Path) -> Iterator[str]:
    """A path that fits into the address of a socket: a long one by a handle of its folder."""
    if len(os.fsencode(path)) <= _DIRECT or not Path("/proc/self/fd").exists():
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
