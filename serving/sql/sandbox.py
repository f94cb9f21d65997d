"""Foreign SQL: each statement in a process of its own, started ahead, used once, and limited in every resource."""

import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self

import msgspec
import pyarrow as pa

from tandem.serving.sql import frames
from tandem.serving.sql.child_processes import Child, Within, Zygote
from tandem.serving.sql.limits import MIB, StatementLimits
from tandem.serving.sql.messages import OF_CHILD, Denied, Given, NamedViews, Result, Statement, encode
from tandem.serving.sql.refusal import StatementRefused
from tandem.serving.sql.shared_tables import SharedTables
from tandem.views.errors import listed


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
            except (frames.Broken, msgspec.DecodeError, pa.ArrowException):
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
            with self._lock, suppress(frames.Broken, StatementRefused):
                if self._zygote is not None:
                    self._zygote.kill(child)
                    self._fill(at_least=self.ready)

    def _fill(self, *, at_least: int) -> None:
        """Keep this many children waiting, from a living zygote. Raises Refused."""
        try:
            self._grow(at_least)
        except frames.Broken:
            self._zygote = None  # it died since it was last asked: another one does its work
            try:
                self._grow(at_least)
            except frames.Broken:
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
