"""A call of stored project code that takes too long is interrupted; one that cannot be ends the process, with all stacks."""

import subprocess
import sys
from typing import Any

import pytest
import structlog

from tandem.infra.folders import ROOT
from tandem.serving.http.answer_cache.watchdog import Watchdog
from tandem.views.errors import TooLong
from tandem.views.project.source_location import STORED

CODE = """
import os
import re
import threading
import time


def hangs():
    while True:
        time.sleep(0.001)


def swallows():
    while True:
        try:
            hangs()
        except BaseException:
            pass


def naps():
    time.sleep(0.02)


def rests():
    for _ in range(50):
        time.sleep(0.02)


def blocks():
    threading.Event().wait()


def holds():
    re.match("(a|aa)+$", "a" * 100 + "b")


def aborts():
    os.abort()
"""


def stored(name: str, origin: str = f"{STORED}0>/code.py") -> Any:
    """A function of the code, as if it were of a release."""
    module: dict[str, Any] = {}
    exec(compile(CODE, origin, "exec"), module)
    return module[name]


def logged(lines: list[dict[str, Any]]) -> Any:
    def heard(_: Any, __: str, event: Any) -> Any:
        lines.append(dict(event))
        raise structlog.DropEvent

    return structlog.wrap_logger(None, processors=[heard], wrapper_class=structlog.make_filtering_bound_logger("info"))


def test_a_call_that_hangs_is_interrupted() -> None:
    lines: list[dict[str, Any]] = []
    with Watchdog(0.2, logged(lines)).open(), pytest.raises(TooLong):
        stored("hangs")()
    assert lines[0]["function"] == "hangs"
    assert lines[0]["place"].startswith("code.py:")


def test_short_calls_and_other_code_are_not_interrupted() -> None:
    lines: list[dict[str, Any]] = []
    with Watchdog(0.5, logged(lines)).open():
        for _ in range(50):
            stored("naps")()
        stored("rests", "elsewhere.py")()
    assert lines == []


@pytest.mark.parametrize("name", ["swallows", "blocks", "holds", "aborts"])
def test_a_call_that_cannot_be_interrupted_ends_the_process(name: str) -> None:
    program = f"""
import threading
import structlog
from tandem.serving.http.answer_cache.watchdog import Watchdog
from tests.serving.http.answer_cache.test_the_watchdog import stored
with Watchdog(0.2, structlog.get_logger(), exits=True).open():
    call = threading.Thread(target=stored({name!r}))
    call.start()
    call.join()
"""
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == (-6 if name == "aborts" else 1), ended.stderr
    assert f'{STORED}0>/code.py", line ' in ended.stderr
    assert f"in {name}" in ended.stderr


def test_a_process_without_such_calls_goes_on() -> None:
    program = """
import time
import structlog
from tandem.serving.http.answer_cache.watchdog import Watchdog
with Watchdog(0.2, structlog.get_logger(), exits=True).open():
    time.sleep(1)
time.sleep(0.5)
"""
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=300, check=False).returncode == 0
