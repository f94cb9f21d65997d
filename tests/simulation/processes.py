"""Processes that run one at a time, change over only at I/O calls, and can be killed there: a schedule is a list of choices.

Each process has a thread of its own, so that the code under test needs no change; a baton goes from the schedule to one of
them and back, so nothing ever runs at the same time and a seed always gives the same schedule.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue

from tests.killed import Killed


@dataclass
class Process:
    """One run of a program.

    `kind` is what it does now and `site` the step of the schedule that started it. `may` are the errors that may end it, `error`
    is what ended it. `waits` says that it can do nothing until others have gone on; `rests` is for how many steps of the schedule
    it stands still. `calls` counts its I/O calls, `at` is the one that it stands before, `seen` has the versions of tables that
    it saw last, and `tokens` those of the leases that it took, by name.
    """

    name: str
    program: Callable[[], None]
    may: tuple[type[Exception], ...] = ()
    kind: str = ""
    site: int = 0
    rests: int = 0
    calls: int = 0
    at: str = ""
    done: bool = False
    killed: bool = False
    waits: bool = False
    error: BaseException | None = None
    seen: dict[str, int] = field(default_factory=dict, repr=False)
    tokens: dict[str, int] = field(default_factory=dict, repr=False)
    baton: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        self.baton.acquire()


@dataclass
class Schedule:
    """The processes that run, and the one that has the baton: None is the schedule itself."""

    running: list[Process] = field(default_factory=list)
    current: Process | None = None
    _back: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        self._back.acquire()

    def start(self, process: Process) -> None:
        """Let it begin; it runs until it gives the baton back."""
        self.running.append(process)
        self._hand(process, lambda: _WORKERS.run(lambda: self._run(process), self._back.release))

    def resume(self, process: Process) -> None:
        """Let it go on where it gave the baton back."""
        process.waits = False
        self._hand(process, process.baton.release)

    def kill(self, process: Process) -> None:
        """End it where it is: it does nothing from here on."""
        process.killed = True
        self.resume(process)

    def change_over(self, *, waits: bool = False, before: str = "a step") -> None:
        """Called by the process that runs `before` a step: give the baton back, return once it comes again. Raises Killed."""
        process = self.current
        if process is None:
            return
        self.refuse_killed()
        process.waits, process.at = waits, f"{process.kind}: {before}"
        self._back.release()
        process.baton.acquire()
        process.at = ""
        self.refuse_killed()

    def refuse_killed(self) -> None:
        """Raises Killed if the process that runs is to be gone: also while it is being unwound."""
        if self.current is not None and self.current.killed:
            raise Killed

    def _hand(self, process: Process, go: Callable[[], None]) -> None:
        """Give it the baton and wait until it comes back. That it has it is noted first: it goes on at once in its thread."""
        self.current = process
        go()
        self._back.acquire()
        self.current = None
        if process.done:
            self.running.remove(process)

    def _run(self, process: Process) -> None:
        try:
            process.program()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001  # whatever it is, the schedule judges it
            process.error = error
        process.done = True


class _Workers:
    """Threads are kept: starting one costs more than what most processes do."""

    def __init__(self) -> None:
        self._idle: list[SimpleQueue[tuple[Callable[[], None], Callable[[], None]]]] = []

    def run(self, work: Callable[[], None], after: Callable[[], None]) -> None:
        """Do the work in a thread of its own; `after` is called when the thread can do other work."""
        if not self._idle:
            self._idle.append(SimpleQueue())
            threading.Thread(target=self._serve, args=(self._idle[-1],), daemon=True).start()
        self._idle.pop().put((work, after))

    def _serve(self, queue: "SimpleQueue[tuple[Callable[[], None], Callable[[], None]]]") -> None:
        while True:
            work, after = queue.get()
            work()
            self._idle.append(queue)
            after()


_WORKERS = _Workers()
