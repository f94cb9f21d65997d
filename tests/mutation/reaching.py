"""A pytest plugin: which lines of the product each test reaches, and how long it takes.

`-p tests.mutation.reaching` with TANDEM_REACH naming a folder; each process of the run leaves its own files there. Lines that
Spark's workers or started programs reach are not seen.

A long test is stopped after a moment: what it reaches in one example it mostly reaches in all.
"""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Final

import coverage
import pytest

PACKAGES = ("views", "ledger", "batch", "speed", "serving", "infra")
STOPPED: Final = "stopped"
"""The outcome of a test that took more than `_MOST_S` of the processor; otherwise it is pytest's."""
_MOST_S: Final = 1.5
_AGAIN_S: Final = 1.0
"""A library may swallow what a signal raises, so it is raised again."""


class Stop(BaseException):
    """Ends a long test; not an Exception, so that neither the code nor hypothesis takes it for a failure."""


def _in_coverage(frame: FrameType | None) -> bool:
    """Whether coverage itself is running: it is called once for each function that is new to it."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("coverage."):
            return True
        frame = frame.f_back
    return False


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
        self.running = ""
        self.stopped: set[str] = set()
        signal.signal(signal.SIGPROF, self._stop)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if _in_coverage(frame):
            return  # coverage would keep the lock that it holds, and block at its next call; the timer fires again
        # What the test then ends with may be another error, of a library that was called meanwhile.
        self.stopped.add(self.running)
        raise Stop

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.coverage.switch_context(item.nodeid)
        yield
        self.coverage.switch_context("")

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        self.running = item.nodeid
        signal.setitimer(signal.ITIMER_PROF, _MOST_S, _AGAIN_S)
        yield
        signal.setitimer(signal.ITIMER_PROF, 0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        outcome = STOPPED if report.when == "call" and report.nodeid in self.stopped else report.outcome
        line = {"test": report.nodeid, "phase": report.when, "outcome": outcome, "seconds": report.duration}
        self.outcomes.write(json.dumps(line) + "\n")

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        self.coverage.save()
        self.outcomes.close()


def pytest_configure(config: pytest.Config) -> None:
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None and config.getoption("numprocesses", None):
        return  # the tests run in others
    folder = Path(os.environ["TANDEM_REACH"])
    config.pluginmanager.register(_Reaching(folder, config.rootpath, str(os.getpid())))
