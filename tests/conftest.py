"""Settings of every test."""

import gc
import os
import signal
from collections.abc import Iterator
from fnmatch import fnmatchcase

import pytest
from hypothesis import HealthCheck, Phase, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from tandem.infra.folders import child_environment

# One broker and one Spark session for the whole run, started by the first test that asks for them.
pytest_plugins = ["tests.stack"]

# A shared machine may be slow at any moment, and the first call of a library loads it: no deadline for one example. The same
# code gets the same examples, so what is red here is red everywhere; the search for new ones is "all"'s.
settings.register_profile(
    "tandem", deadline=None, derandomize=True, max_examples=24, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("all", settings.get_profile("tandem"), derandomize=False, print_blob=True, max_examples=100)
# The first counterexample is enough where a test only has to be red (tests/mutants).
_UNSHRUNK = (Phase.explicit, Phase.generate)
settings.register_profile("first", settings.get_profile("tandem"), max_examples=60, phases=_UNSHRUNK)
# Where the same examples are run under another Python as well (.ci/pythons).
settings.register_profile("few", settings.get_profile("tandem"), max_examples=10)
# TANDEM_HYPOTHESIS=all looks longer for a counterexample.
settings.load_profile(os.environ.get("TANDEM_HYPOTHESIS", "tandem"))

_JAVA = {"broker", "spark"}
"""Marks of tests that start Java."""
_COMPUTING = ("tests/agreement/", "tests/laws/", "tests/simulation/", "tests/mutants/")


class Spread(LoadFileScheduling):
    """Which tests one worker runs in a row: those of a file, but for long ones that share nothing with their neighbours.

    Of three workers and more, the last begins with the last tests, which only compute, while the others wait for Java.
    """

    def _split_scope(self, nodeid: str) -> str:
        return nodeid if nodeid.startswith(_COMPUTING) else super()._split_scope(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        if node.gateway.id == f"gw{self.numnodes - 1}" and self.numnodes > 2:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Spread | None:
    return Spread(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_configure() -> None:
    gc.disable()  # while tests are collected, hardly anything of which is garbage
    # What tests start imports this checkout, as what the launcher starts does.
    os.environ["PYTHONPATH"] = child_environment(os.environ)["PYTHONPATH"]


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C raises here and ends children, as at a terminal, also where whoever started the tests ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session", autouse=True)
def usual_priority() -> Iterator[None]:
    """A command that lowers its own priority lowers that of a worker which calls it, for all tests that follow."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "nice", lambda _: 0)
        yield


def pytest_itemcollected(item: pytest.Item) -> None:
    marker = item.get_closest_marker("each_run")
    if marker is not None and not any(fnmatchcase(_case(item), pattern) for pattern in marker.args):
        item.add_marker(pytest.mark.slow)


def _case(item: pytest.Item) -> str:
    """The part of a test's name that tells its case from the others."""
    return item.name.partition("[")[2].removesuffix("]")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, help="Run the simulated schedule of this seed alone (tests/simulation).")
    parser.addoption(
        "--part", choices=["computing", "other"], help="Run only the tests that do nothing but compute, or all others."
    )
    parser.addoption("--screenshots", metavar="DIR", help="Leave pictures of the web page and of the demo there.")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    part = config.getoption("part")
    if part is not None:
        kept = [item for item in items if item.nodeid.startswith(_COMPUTING) == (part == "computing")]
        config.hook.pytest_deselected(items=[*set(items) - set(kept)])
        items[:] = kept
    # Long files first: a long file that begins last leaves the other worker idle. Single tests that only compute come last.
    long = {item.path for item in items if item.get_closest_marker("slow")}
    java = {item.path for item in items if _JAVA & {mark.name for mark in item.iter_markers()}}
    items.sort(key=lambda item: (item.nodeid.startswith(_COMPUTING), item.path not in long, item.path not in java))


def pytest_collection_finish() -> None:
    # Half a million objects that stay until the end: no later collection has to walk through them.
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_sessionfinish() -> None:
    gc.unfreeze()


def pytest_report_header() -> str:
    return f"hypothesis examples: {settings().max_examples} where a test does not set its own share"
