"""A pytest plugin: which lines of the product each test reaches, and how long it takes.

`-p tests.mutation.reaching` with TANDEM_REACH naming a folder; each process of the run leaves its own files there. Lines that
Spark's workers or started programs reach are not seen.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

PACKAGES = ("views", "ledger", "batch", "speed", "serving", "infra")


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

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.coverage.switch_context(item.nodeid)
        yield
        self.coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        line = {"test": report.nodeid, "phase": report.when, "outcome": report.outcome, "seconds": report.duration}
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
    config.pluginmanager.register(_Reaching(folder, config.rootpath, worker or "alone"))
