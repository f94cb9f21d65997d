"""The owner of a kept session: starts its JVM when a command first asks, and lets one command at a time use it.

One thread answers and never waits for Java; another one calls Java. So the owner answers its supervisor whatever Java does, and
kills a JVM that does not answer. The owner keeps one JVM in its life: when that ends, `serve` returns, and its process starts
over.
"""

import selectors
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from infra.java import java_home
from infra.settings import Settings
from infra.spark.kept import marks, messages
from infra.spark.kept.marks import Marks
from infra.spark.kept.messages import Lines, Reply, Request
from infra.spark.properties import properties
from views.errors import TandemError

_ROUND_S: Final = 0.2
_PROBE_S: Final = 2.0
_MOST_COMMANDS: Final = 100
"""What a command leaves in a JVM beyond what is cleared, such as threads and loaded classes, ends with the JVM."""


@dataclass(frozen=True)
class _Loan:
    """A command that uses the session."""

    client: Lines
    what: str


@dataclass
class _Call:
    """One call of Java in a thread: when it must have returned, and what it returned or raised."""

    work: Callable[[], Any]
    then: Callable[[Any], None]
    until: float
    brief: bool
    """Whether it returns at once, so that nobody has to know of it."""
    wake: Callable[[], object]
    returned: Any = None
    error: BaseException | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        try:
            self.returned = self.work()
        except BaseException as error:  # noqa: BLE001 - the other thread decides what it means
            self.error = error
        self.ended.set()
        self.wake()


@dataclass
class SessionOwner:
    """The session of one project. `load` reads its settings; `start` starts the JVM, as infra.spark.kept.jvm does."""

    load: Callable[[], Settings]
    environ: Mapping[str, str] = field(repr=False)
    start: Callable[[Settings], Any]
    say: Callable[[str], None]
    warn: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    _settings: Settings = field(init=False, repr=False)
    _code: str = field(init=False, repr=False)
    _marks: Marks | None = field(default=None, init=False, repr=False)
    _jvm: Any = field(default=None, init=False)
    _call: _Call | None = field(default=None, init=False)
    _loan: _Loan | None = field(default=None, init=False)
    _waiting: _Loan | None = field(default=None, init=False)
    _wanted: Path | None = field(default=None, init=False)
    _used_up: bool = field(default=False, init=False)
    """Whether a command has left the JVM, which is not cleared yet."""
    _loans: int = field(default=0, init=False)
    _used: float = field(default=0.0, init=False)
    _probed: float = field(default=0.0, init=False)
    _over: str = field(default="", init=False)
    """Why the session ends."""
    _wakes: tuple[socket.socket, socket.socket] = field(default_factory=socket.socketpair, init=False, repr=False)
    """The thread that calls Java writes to the second when Java has answered."""
    _selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector, init=False, repr=False)

    def serve(self, stop: threading.Event) -> None:
        """Answer until `stop` is set, or until the JVM has ended, with which all that it holds is released. Raises OSError."""
        self._settings, self._code = self.load(), marks.digest(marks.code())
        with messages.listen(self._settings.folder) as listening, self._selector:
            self._selector.register(listening, selectors.EVENT_READ)
            self._selector.register(self._wakes[0], selectors.EVENT_READ)
            try:
                while not stop.is_set() and not self._over:
                    for key, _ in self._selector.select(_ROUND_S):
                        if key.fileobj is listening:
                            self._accept(listening)
                        elif key.fileobj is self._wakes[0]:
                            self._wakes[0].recv(64)
                        elif not self._over:
                            self._read(key.data)
                    self._advance()
            finally:
                self._end()

    def _accept(self, listening: socket.socket) -> None:
        connection, _ = listening.accept()
        connection.settimeout(_PROBE_S)
        self._selector.register(connection, selectors.EVENT_READ, Lines(connection))

    def _read(self, client: Lines) -> None:
        try:
            if (line := client.read()) is None:
                return
            request = msgspec.json.decode(line, type=Request)
        except (OSError, msgspec.DecodeError):
            self._drop(client)
            return
        match request.want:
            case "ping":
                idle = self._jvm is not None and self._loan is self._waiting is None and not self._used_up
                self._send(client, Reply("alive", free=idle and (self._call is None or self._call.brief)))
            case "session":
                self._ask(client, request)
            case "lock" if self._loan is not None and client is self._loan.client:
                self._wanted = Path(request.path)
            case _:
                self._drop(client)

    def _ask(self, client: Lines, request: Request) -> None:
        """A command asks for the session: it gets it at once or after a while, or a reason why not."""
        by = f"{request.what} (process {request.pid})"
        if (other := self._loan or self._waiting) is not None:
            self._send(client, Reply("refused", f"is used by {other.what}"))
            return
        try:
            settings = self.load() if self._marks is None else self._settings
            mine = self._marks or self._marks_of(settings)
            newer = self._marks is not None and self._marks != self._marks_of(self.load())
        except TandemError as error:
            self._send(client, Reply("refused", f"cannot start Spark: {error}"))
            return
        if found := marks.differences(mine, request.marks):
            self._send(client, Reply("refused", f"has another value of {found}"))
            if newer:
                self._finish("the settings or the code have changed since it started")
            return
        if marks.digest(marks.code()) != self._code:
            self._send(client, Reply("refused", "runs code that has changed since it started"))
            self._finish("the code has changed since it started")
            return
        self._waiting = _Loan(client, by)
        self._send(client, Reply("wait"))
        # None if the command has ended meanwhile.
        if self._waiting is not None and self._jvm is None and self._call is None:
            self._settings, self._marks = settings, mine
            self.say(f"starting Spark for {by}")
            self._java(lambda: self.start(settings), self._started, settings.speed.ready_s)

    def _marks_of(self, settings: Settings) -> Marks:
        java = java_home.find(self.environ).home
        return marks.marks(settings, java, properties(settings, self.environ), self.environ)

    def _started(self, jvm: Any) -> None:
        self._jvm = jvm
        self._used = self._probed = self.clock()

    def _cleared(self, _: object) -> None:
        self._used = self.clock()
        if self._loans >= _MOST_COMMANDS:
            self._finish(f"{_MOST_COMMANDS} commands have used it")

    def _advance(self) -> None:
        """Whatever is due: the end of a call of Java, or the next one; the end of the session."""
        now = self.clock()
        if self._jvm is not None and self._jvm.ended:
            self._fail("its JVM has ended")
        elif (call := self._call) is not None:
            self._returned(call, now)
        elif self._jvm is not None:
            self._next(now)

    def _returned(self, call: _Call, now: float) -> None:
        if call.ended.is_set():
            self._call = None
            if call.error is None:
                call.then(call.returned)
            else:
                from infra.spark.errors import sentence  # noqa: PLC0415 - PySpark takes memory, and a call of Java has loaded it

                self._fail(f"Spark failed: {sentence(call.error)}")
        elif now > call.until:
            self._fail("Java does not answer")

    def _fail(self, why: str) -> None:
        self.warn(f"the session ends: {why}")
        self._over = why

    def _next(self, now: float) -> None:
        silent_s, loan = self._settings.supervisor.silent_s, self._loan
        if self._used_up:
            following = self._loans + 1
            self._used_up, self._wanted = False, None
            self._java(lambda: self._jvm.clear(following), self._cleared, self._settings.speed.ready_s)
        elif loan is not None and (path := self._wanted) is not None:
            self._wanted = None
            self._java(partial(_lock, self._jvm, path), partial(self._send, loan.client), silent_s)
        elif loan is None and self._waiting is not None:
            self._grant(self._waiting)
        elif now - self._probed > _PROBE_S:
            self._probed = now
            self._java(self._jvm.probe, lambda _: None, silent_s, brief=True)
        elif loan is None and now - self._used > self._settings.session.idle_s:
            self._finish(f"no command has used it for {self._settings.session.idle_s} s")

    def _grant(self, loan: _Loan) -> None:
        self._loan, self._waiting = loan, None
        self._loans += 1
        port, secret = self._jvm.gateway
        self.say(f"lent to {loan.what}")
        self._send(loan.client, Reply("yours", port=port, secret=secret, loan=self._loans))

    def _java(self, work: Callable[[], Any], then: Callable[[Any], None], seconds: float, *, brief: bool = False) -> None:
        self._call = _Call(work, then, self.clock() + seconds, brief, lambda: self._wakes[1].send(b"."))
        threading.Thread(target=self._call.run, name="Java", daemon=True).start()

    def _send(self, client: Lines, reply: Reply) -> None:
        try:
            client.send(reply)
        except OSError:
            self._drop(client)

    def _drop(self, client: Lines) -> None:
        """A client has closed its connection, or is not understood: its command has ended if it had the session."""
        if client.socket.fileno() >= 0:
            self._selector.unregister(client.socket)
            client.socket.close()
        if self._waiting is not None and client is self._waiting.client:
            self._waiting = None
        if self._loan is not None and client is self._loan.client:
            self.say(f"{self._loan.what} has ended")
            self._loan, self._used_up = None, True

    def _finish(self, why: str) -> None:
        self.say(f"the session ends: {why}")
        self._over = why

    def _end(self) -> None:
        if self._waiting is not None:
            self._send(self._waiting.client, Reply("refused", f"has ended: {self._over or 'it was stopped'}"))
        if self._jvm is not None:
            self._jvm.end()


def _lock(jvm: Any, path: Path) -> Reply:
    try:
        return Reply("locked" if jvm.try_lock(path) else "held")
    except TandemError as error:
        return Reply("refused", str(error))
