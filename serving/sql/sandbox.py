"""A server's side of the processes of foreign SQL: the zygote that they are forked from, and each of them."""

import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from types import TracebackType
from typing import Final, Protocol, Self

import msgspec
import pyarrow as pa

from tandem.infra import folders
from tandem.serving.sql import messages
from tandem.serving.sql.limits import MIB, StatementLimits
from tandem.serving.sql.messages import (
    OF_CHILD,
    OF_ZYGOTE,
    Denied,
    Given,
    Kill,
    NamedViews,
    Result,
    Start,
    Statement,
    StatementRefused,
    encode,
)
from tandem.serving.sql.shared_tables import SharedTables
from tandem.views.errors import listed

_START: Final = "import sys; sys.path.insert(0, sys.argv.pop(1)); from tandem.serving.sql.child import main; main(sys.argv[1:])"
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
        """See messages.send."""
        self._wait()
        messages.send(self.child, body, payload, files)

    def receive(self, most: int) -> messages.Frame:
        """See messages.receive."""
        self._wait()
        return messages.receive(self.child, most=most)

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
            OF_ZYGOTE.decode(messages.receive(ours).body)
            ours.settimeout(_END_SECONDS)
            return cls(process, ours)
        except (messages.Broken, TimeoutError, msgspec.DecodeError):
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
        except messages.Broken:
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
            messages.send(self.control, body, files=files)
        except TimeoutError as error:
            raise messages.Broken("does not listen") from error

    def end(self) -> None:
        """End the zygote; waiting children end when their sockets close."""
        self.control.close()
        self.process.kill()
        self.process.wait()


class StatementViews(Protocol):
    """The views that a statement may read."""

    def names(self) -> Sequence[str]:
        """The names of all views; no other view exists for the statement."""
        ...

    def share(self, names: Sequence[str]) -> Mapping[str, SharedTables]:
        """Some of them, at one common snapshot. Raises Refused if they cannot be read."""
        ...


@dataclass
class Sandbox:
    """Runs statements; for any number of threads. Close it, or use it as a context.

    `ready` children wait for statements. A child that has run one is never used again.
    """

    limits: StatementLimits = field(default_factory=StatementLimits)
    ready: int = 2
    clock: Callable[[], float] = time.monotonic
    _zygote: Zygote | None = field(default=None, init=False, repr=False)
    _waiting: deque[Child] = field(default_factory=deque, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def __post_init__(self) -> None:
        self._places = threading.BoundedSemaphore(self.limits.at_once)

    def __enter__(self) -> Self:
        self.warm()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def warm(self) -> None:
        """Start the zygote and the waiting children, in a second or two; else the first statement does. Raises Refused."""
        with self._lock:
            self._fill(at_least=max(1, self.ready))

    def close(self) -> None:
        """End all children and the zygote."""
        with self._lock:
            while self._waiting:
                self._waiting.popleft().end.close()
            if self._zygote is not None:
                self._zygote.end()
                self._zygote = None

    def run(self, statement: str, views: StatementViews) -> pa.Table:
        """The rows of one SELECT over the views. Raises Refused."""
        if len(statement) > self.limits.characters:
            raise StatementRefused(
                f"the statement has {len(statement)} characters; the limit is {self.limits.characters}", "limit"
            )
        if "\0" in statement or any("\ud800" <= one <= "\udfff" for one in statement):
            raise StatementRefused(
                "the statement is not valid text: it has a NUL character or half of a surrogate pair", "statement"
            )
        with self._place(), self._child() as child:
            try:
                return self._asked(child.end, statement, views)
            except TimeoutError:
                raise StatementRefused(f"the statement took more than its {self.limits.seconds:g} seconds", "limit") from None
            except (messages.Broken, msgspec.DecodeError, pa.ArrowException):
                raise StatementRefused(
                    f"the statement crashed its process; it may need more than its {self.limits.memory // MIB} MiB of memory or "
                    f"{self.limits.seconds:g} seconds, nest too deeply, or contain bytes that are not the state of a sketch",
                    "limit",
                ) from None

    def _asked(self, child: socket.socket, statement: str, views: StatementViews) -> pa.Table:
        within = Within(child, self.clock() + self.limits.seconds, self.clock)
        within.send(encode(Statement(statement)))
        named = OF_CHILD.decode(within.receive(0).body)
        if isinstance(named, Denied):
            raise StatementRefused(named.sentence, named.reason)
        assert isinstance(named, NamedViews)
        given = views.share(_known(named.views, views.names())) if named.views else {}
        within = Within(child, self.clock() + self.limits.seconds, self.clock)
        size = sum(one.size for one in given.values())
        within.send(encode(Given(list(given), size)), [one.file for one in given.values()])
        frame = within.receive(self.limits.bytes + MIB)
        told = OF_CHILD.decode(frame.body)
        if isinstance(told, Denied):
            raise StatementRefused(told.sentence, told.reason)
        assert isinstance(told, Result)
        table = pa.ipc.open_stream(frame.payload).read_all()
        table.validate(full=True)  # the bytes come from a process that foreign SQL has used
        return table.rename_columns(_apart(table.column_names))

    @contextmanager
    def _place(self) -> Iterator[None]:
        if not self._places.acquire(timeout=self.limits.seconds):
            raise StatementRefused(f"{self.limits.at_once} statements are already running; try again", "limit")
        try:
            yield
        finally:
            self._places.release()

    @contextmanager
    def _child(self) -> Iterator[Child]:
        """A child for one statement, which is ended afterwards; then the next one starts."""
        with self._lock:
            self._fill(at_least=1)
            child = self._waiting.popleft()
        try:
            yield child
        finally:
            child.end.close()
            with self._lock, suppress(messages.Broken, StatementRefused):
                if self._zygote is not None:
                    self._zygote.kill(child)
                    self._fill(at_least=self.ready)

    def _fill(self, *, at_least: int) -> None:
        """Keep this many children waiting, from a living zygote. Raises Refused."""
        try:
            self._grow(at_least)
        except messages.Broken:
            self._zygote = None  # it died since it was last asked: another one does its work
            try:
                self._grow(at_least)
            except messages.Broken:
                raise StatementRefused("the process that runs SQL statements cannot be started", "failed") from None

    def _grow(self, at_least: int) -> None:
        if self._zygote is None or not self._zygote.lives():
            self._waiting.clear()
            self._zygote = Zygote.started(self.limits)
        while len(self._waiting) < at_least:
            self._waiting.append(self._zygote.fork())


def _known(named: Sequence[str], names: Sequence[str]) -> list[str]:
    """The views that a statement names; names are case-insensitive, unless two views differ only in case. Raises Refused."""
    folded = {name.casefold(): name for name in reversed(names)}
    found: dict[str, str] = {}
    for name in named:
        known = name if name in names else folded.get(name.casefold())
        if known is None:
            raise StatementRefused(f"no view {name!r}; views: {listed(name, names)}", "view")
        if found.setdefault(name.casefold(), known) != known:
            raise StatementRefused(
                f"{known!r} and {found[name.casefold()]!r} differ only in case; a statement can name only one of them", "view"
            )
    return list(found.values())


def _apart(names: Sequence[str]) -> list[str]:
    """The names of columns, made unique: `n`, `n_1`."""
    taken = {name.casefold() for name in names}
    seen: set[str] = set()
    found = []
    for name in names:
        own, number = name, 0
        while own.casefold() in seen or (number and own.casefold() in taken):
            number += 1
            own = f"{name}_{number}"
        seen.add(own.casefold())
        found.append(own)
    return found
