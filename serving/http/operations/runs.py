"""`tandem` commands that the server runs for operators: as children, one with an effect at a time, the newest kept in memory."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal
from uuid import uuid4

from structlog.typing import FilteringBoundLogger

from tandem.infra.logs.telling import without
from tandem.infra.process.bounded_child import BoundedChild
from tandem.serving.access.rights import Principal
from tandem.serving.http.operations.command import MOST_BYTES, TandemCommand, document_of
from tandem.views.errors import TandemError

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
