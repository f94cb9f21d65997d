"""A server's side of the processes of foreign SQL: the zygote that they are forked from, and each of them."""

import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

import msgspec

from tandem.infra import folders
from tandem.serving.sql import frames
from tandem.serving.sql.limits import StatementLimits
from tandem.serving.sql.messages import OF_ZYGOTE, Kill, Start, encode
from tandem.serving.sql.refusal import StatementRefused

_START: Final = "import sys; sys.path.insert(0, sys.argv.pop(1)); from tandem.serving.sql.zygote import main; main(sys.argv[1:])"
_START_SECONDS: Final = 120.0
_END_SECONDS: Final = 10.0
_ENVIRONMENT: Final = {
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    # A process with one thread can be forked.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
_NUMBERS: Final = count(1)
"""Numbers of children over all zygotes, so that no zygote can be asked to end another's child."""


@dataclass(frozen=True)
class Child:
    """A process by its number, and this side's end of its socket."""

    number: int
    end: socket.socket


@dataclass(frozen=True)
class Within:
    """A child's socket until a deadline; later operations raise TimeoutError."""

    child: socket.socket
    until: float
    clock: Callable[[], float]

    def send(self, body: bytes, files: Sequence[int] = (), payload: bytes | memoryview = b"") -> None:
        """See frames.send."""
        self._wait()
        frames.send(self.child, body, payload, files)

    def receive(self, most: int) -> frames.Frame:
        """See frames.receive."""
        self._wait()
        return frames.receive(self.child, most=most)

    def _wait(self) -> None:
        self.child.settimeout(max(0.001, self.until - self.clock()))


@dataclass(frozen=True)
class Zygote:
    """The zygote of children; for one thread at a time."""

    process: "subprocess.Popen[bytes]"
    control: socket.socket

    @classmethod
    def started(cls, limits: StatementLimits) -> "Zygote":
        """A new zygote, which inherits only one socket. Raises Refused."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            process = subprocess.Popen(  # noqa: S603  this interpreter, with arguments of our own
                [sys.executable, "-I", "-c", _START, str(folders.IMPORTED), str(theirs.fileno()), encode(limits)],
                env=_ENVIRONMENT,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        assert process.stderr is not None
        try:
            ours.settimeout(_START_SECONDS)
            OF_ZYGOTE.decode(frames.receive(ours).body)
            ours.settimeout(_END_SECONDS)
            return cls(process, ours)
        except (frames.Broken, TimeoutError, msgspec.DecodeError):
            process.kill()
            said = process.stderr.read().decode(errors="replace").strip().splitlines()
            process.wait()
            ours.close()
            why = f": {said[-1]}" if said else ""
            raise StatementRefused(f"the process that runs SQL statements cannot be started{why}", "failed") from None
        finally:
            process.stderr.close()

    def lives(self) -> bool:
        """Whether the zygote can start children."""
        return self.process.poll() is None

    def fork(self) -> Child:
        """A new child. Raises Broken."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        number = next(_NUMBERS)
        try:
            self._say(encode(Start(number)), [theirs.fileno()])
        except frames.Broken:
            ours.close()
            raise
        finally:
            theirs.close()
        return Child(number, ours)

    def kill(self, child: Child) -> None:
        """End a child, if it has not ended. Raises Broken."""
        self._say(encode(Kill(child.number)))

    def _say(self, body: bytes, files: Sequence[int] = ()) -> None:
        """Send a message to the zygote. Raises Broken, also if it does not listen."""
        try:
            frames.send(self.control, body, files=files)
        except TimeoutError as error:
            raise frames.Broken("does not listen") from error

    def end(self) -> None:
        """End the zygote; waiting children end when their sockets close."""
        self.control.close()
        self.process.kill()
        self.process.wait()
