"""`tandem` commands that the server runs for operators: child processes whose environment has only what a command needs."""

import asyncio
import json
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal
from uuid import uuid4

from structlog.typing import FilteringBoundLogger

from tandem.infra.logs.telling import without
from tandem.infra.process.bounded_child import BoundedChild
from tandem.infra.storage.resolve import VARIABLES
from tandem.serving.access.rights import Principal
from tandem.serving.http.protocol.problem import Problem
from tandem.views.errors import TandemError

MOST_BYTES: Final = 1 << 20
"""Larger documents are refused."""

_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_NAMES: Final = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "JAVA_HOME", "PYTHONPATH", "SSL_CERT_FILE", "SSL_CERT_DIR"),
        # Of the client of an object store: proxies, and the address at which a machine of Azure learns its role.
        *(*_PROXIES, *map(str.lower, _PROXIES), "IDENTITY_ENDPOINT", "IDENTITY_HEADER"),
        # Where Spark finds a cluster.
        *("HADOOP_CONF_DIR", "YARN_CONF_DIR", "KUBECONFIG"),
    )
)
_PREFIXES: Final = ("LC_", "SPARK_", "TANDEM_", *VARIABLES)
_LONGEST_NAME: Final = 200


@dataclass(frozen=True)
class TandemCommand:
    """`words` begin the command, `environ` is the server's environment."""

    words: Sequence[str]
    project: Path
    environ: Mapping[str, str] = field(repr=False)

    def child(self, command: str, options: Sequence[str], *, by: Principal) -> BoundedChild:
        """A child that runs a command of the project with `--json`, for a principal; each option is one word, `--name=value`."""
        words = [*self.words, command, *options, f"--project={self.project}", "--json"]
        return BoundedChild(words, {**_kept(self.environ), "TANDEM_WHO": _name(by)}, self.project, MOST_BYTES)


def document_of(printed: bytes) -> Any:
    """The JSON document that a command printed; None without one, for example when the command was killed."""
    try:
        return json.loads(printed)
    except ValueError:
        return None


def _kept(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name in _NAMES or name.startswith(_PREFIXES)}


def _name(by: Principal) -> str:
    """The principal in characters that environments and terminals accept: an identity provider may send any."""
    return "".join(c if c.isprintable() else "?" for c in str(by))[:_LONGEST_NAME]


Command = Literal["plan", "apply", "promote", "rollback", "retire", "resume"]

State = Literal["running", "done", "changes", "failed", "stopped"]
"""changes: done, and the exit code reports a difference (`plan`), or a closed gate (`promote --check`)."""

KEPT: Final = 50
LINES: Final = 200
_LINE: Final = 2000
_CHANGES: Final = 3
_PATIENCE_S: Final = 30.0


class Busy(TandemError, code="run-active"):
    """Another run is active; `run` is that run."""

    def __init__(self, run: "CommandRun") -> None:
        super().__init__(f"run {run.id} ({run.command}, by {run.by}) is active; wait for it, or stop it")
        self.run = run


@dataclass
class CommandRun:
    """One use of a command, and its progress; `problem` explains a missing document."""

    id: str
    command: Command
    by: str
    started: datetime
    effect: bool
    child: BoundedChild = field(repr=False)
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=LINES))
    ended: datetime | None = None
    exit: int | None = None
    document: Any = None
    problem: str | None = None
    stopping: bool = False
    over: threading.Event = field(default_factory=threading.Event, repr=False)

    @property
    def state(self) -> State:
        """How it stands."""
        if self.ended is None:
            return "running"
        if self.exit == 0:
            return "done"
        if self.stopping:
            return "stopped"
        return "changes" if self.exit == _CHANGES else "failed"


@dataclass
class Runs:
    """The newest runs of this server, which end with it. One run with an effect is active at a time, and one without.

    `hidden` are secrets that no line and no document shows. For one thread, which must not wait for a run.
    """

    tandem: TandemCommand
    now: Callable[[], datetime]
    log: FilteringBoundLogger
    hidden: frozenset[str] = frozenset()
    _runs: dict[str, CommandRun] = field(default_factory=dict, init=False, repr=False)

    def start(self, command: Command, options: Sequence[str], *, by: Principal, effect: bool = True) -> CommandRun:
        """Start a run. Raises Busy."""
        for run in self._runs.values():
            if run.ended is None and run.effect == effect:
                raise Busy(run)
        run = CommandRun(str(uuid4()), command, str(by), self.now(), effect, self.tandem.child(command, options, by=by))
        self._runs[run.id] = run
        for number in [one.id for one in self._runs.values() if one.ended is not None][: max(0, len(self._runs) - KEPT)]:
            del self._runs[number]
        self.log.info("run began", run=run.id, command=command, by=run.by)
        # The thread lives as long as the child: the kernel ends the one with the other.
        threading.Thread(target=self._run, args=(run,), name=f"run {run.id}").start()
        return run

    def newest_first(self) -> list[CommandRun]:
        """All runs in memory."""
        return list(reversed(self._runs.values()))

    def find(self, number: str) -> CommandRun | None:
        """A run that is in memory."""
        return self._runs.get(number)

    def stop(self, run: CommandRun) -> None:
        """Ask a run to end; it ends a little later."""
        if run.ended is None:
            run.stopping = True
            run.child.stop()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """End the active runs when the context ends."""
        try:
            yield
        finally:
            running = [run for run in self._runs.values() if run.ended is None]
            for run in running:
                self.stop(run)
            for run in running:
                await asyncio.to_thread(run.over.wait, _PATIENCE_S)

    def _run(self, run: CommandRun) -> None:
        def say(line: str) -> None:
            run.lines.append(without(line, self.hidden)[:_LINE])

        try:
            ended = run.child.run(say)
            run.exit = ended.code
            if ended.printed is None:
                run.problem = f"the command printed more than {MOST_BYTES} bytes, the limit of a run"
            else:
                run.document = without(document_of(ended.printed), self.hidden)
        except OSError as error:
            run.problem = f"cannot start the command: {error.strerror}"
        finally:
            run.ended = self.now()
            self.log.info("run ended", run=run.id, command=run.command, by=run.by, exit=run.exit)
            run.over.set()


_REDECODE_LINES = 20


@dataclass
class Redecode:
    """One run at a time; `hidden` are secrets that no answer shows. For one event loop."""

    tandem: TandemCommand
    hidden: frozenset[str] = frozenset()
    _busy: bool = field(default=False, init=False, repr=False)

    async def run(self, options: Sequence[str], *, by: Principal) -> Any:
        """The document of `tandem quarantine --retry`; a caller that is cancelled ends the command. Raises Problem 400, 409,
        503.
        """
        if self._busy:
            raise Problem(409, "another request is decoding records; try again later")
        child, lines = self.tandem.child("quarantine", ["--retry", *options], by=by), deque[str](maxlen=_REDECODE_LINES)
        self._busy = True
        running = asyncio.get_running_loop().run_in_executor(None, child.run, lines.append)
        running.add_done_callback(self._over)
        try:
            ended = await asyncio.shield(running)
        except asyncio.CancelledError:
            child.stop()
            raise
        except OSError as error:
            raise Problem(503, f"cannot start the command: {error.strerror}") from error
        if ended.printed is None:
            raise Problem(400, "the result is too large; lower limit")
        document = without(document_of(ended.printed), self.hidden)
        if ended.code or not isinstance(document, dict):
            told = document.get("error") if isinstance(document, dict) else without(" ".join(lines), self.hidden)
            raise Problem(503, f"the records cannot be decoded: {told or f'exit code {ended.code}'}")
        return document

    def _over(self, _: object) -> None:
        self._busy = False
