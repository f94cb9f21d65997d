"""A pytest plugin: which lines of the product each test reaches, and how long it takes.

`-p tests.mutation.reaching` with REACH_FOLDER naming a folder; each process of the run leaves its own files there. Lines that
Spark's workers or started programs reach are not seen.

A long test is stopped after a moment: what it reaches in one example it mostly reaches in all.
"""

import faulthandler
import json
import os
import signal
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final

import coverage
import pytest

PACKAGES = ("views", "ledger", "batch", "speed", "serving", "infra")
STOPPED: Final = "stopped"
"""The outcome of a test that took more than `_MOST_S` of the processor; otherwise it is pytest's."""
_MOST_S: Final = 1.5
_AGAIN_S: Final = 1.0
"""A library may swallow what a signal raises, so it is raised again."""
_SOON_S: Final = 0.01
_NOT_IN: Final = ("coverage.", "tandem.views.sql.engine.")
"""Where no test is stopped. Coverage would keep the lock that it holds, and block at its next call. DuckDB, which our engine
calls, makes an error of its own of what a signal raises, for which hypothesis then looks for a smaller example, for minutes."""
_HANGING_S: Final = 180.0
"""A test that no signal ends waits in a library: its process is ended, with a traceback of all threads."""
_SAVED_EVERY_S: Final = 30.0


class Stop(BaseException):
    """Ends a long test; not an Exception, so that neither the code nor hypothesis takes it for a failure."""


def _may_stop(frame: FrameType | None) -> bool:
    """Whether none of the running functions is of a module in which no test is stopped."""
    while frame is not None:
        if f"{frame.f_globals.get('__name__', '')}.".startswith(_NOT_IN):
            return False
        frame = frame.f_back
    return True


class _Reaching:
    def __init__(self, folder: Path, root: Path, name: str) -> None:
        self.outcomes = (folder / f"{name}.jsonl").open("w")
        self.coverage = coverage.Coverage(
            data_file=str(folder / f"{name}.coverage"),
            config_file=False,
            include=[str(root / package / "*") for package in PACKAGES],
            messages=False,
        )
        self.coverage.start()
        self.running, self.saved = "", time.monotonic()
        self.stopped: set[str] = set()
        signal.signal(signal.SIGPROF, self._stop)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if not _may_stop(frame):
            signal.setitimer(signal.ITIMER_PROF, _SOON_S, _AGAIN_S)
            return
        # What the test then ends with may be another error, of a library that was called meanwhile.
        self.stopped.add(self.running)
        raise Stop

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.coverage.switch_context(item.nodeid)
        faulthandler.dump_traceback_later(_HANGING_S, exit=True)
        yield
        faulthandler.cancel_dump_traceback_later()
        self.coverage.switch_context("")
        if time.monotonic() - self.saved > _SAVED_EVERY_S:
            self._save()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, None]:
        self.running = item.nodeid
        signal.setitimer(signal.ITIMER_PROF, _MOST_S, _AGAIN_S)
        outcome = yield
        signal.setitimer(signal.ITIMER_PROF, 0)
        if item.nodeid in self.stopped:
            # A signal may end the test at an instruction that has no line, of which pytest can show no traceback.
            outcome.force_result(None)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        outcome = STOPPED if report.when == "call" and report.nodeid in self.stopped else report.outcome
        line = {"test": report.nodeid, "phase": report.when, "outcome": outcome, "seconds": report.duration}
        self.outcomes.write(json.dumps(line) + "\n")

    def _save(self) -> None:
        """Keep what was recorded, in case that the process has to be ended."""
        self.coverage.save()
        self.outcomes.flush()
        self.saved = time.monotonic()

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        self._save()
        self.outcomes.close()


def pytest_configure(config: pytest.Config) -> None:
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None and config.getoption("numprocesses", None):
        return  # the tests run in others
    folder = Path(os.environ["REACH_FOLDER"])
    config.pluginmanager.register(_Reaching(folder, config.rootpath, str(os.getpid())))
