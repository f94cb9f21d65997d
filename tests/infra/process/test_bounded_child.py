"""A child has only the given environment, its output is bounded, and it never outlives its parent."""

import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tandem.infra.folders import ROOT
from tandem.infra.process import bounded_child as children
from tandem.infra.process.bounded_child import BoundedChild, ChildResult

WAITS = "import os, sys, threading; print(os.getpid(), file=sys.stderr, flush=True); threading.Event().wait()"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {WAITS}"
LEAVES = f"""
import subprocess, sys
left = subprocess.Popen([sys.executable, "-c", {WAITS!r}], stderr=subprocess.PIPE)
print(left.stderr.readline().decode(), file=sys.stderr)
subprocess.Popen([sys.executable, "-c", {WAITS!r}])
"""


def made(code: str, *, most: int = 1000, **environ: str) -> BoundedChild:
    return BoundedChild([sys.executable, "-c", code], environ, Path("/"), most)


def ended(pid: int, *, seconds: float = 60) -> bool:
    """Whether a process has ended, as soon as it has."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], seconds)[0])
    finally:
        os.close(handle)


class Heard:
    """The lines of a child that runs in a thread, whose pid it says first."""

    def __init__(self, child: BoundedChild) -> None:
        self.child, self.lines, self._first = child, list[str](), threading.Event()
        self.ended: list[ChildResult] = []
        self._thread = threading.Thread(target=lambda: self.ended.append(child.run(self._say)))
        self._thread.start()

    def _say(self, line: str) -> None:
        self.lines.append(line)
        self._first.set()

    @property
    def pid(self) -> int:
        assert self._first.wait(60)
        return int(self.lines[0])

    def code(self) -> int:
        self._thread.join(60)
        return self.ended[0].code


def test_a_childs_output_is_read_and_its_environment_is_the_given_one() -> None:
    lines: list[str] = []
    code = "import os, sys; print(sorted(os.environ)); print('a\\n\\n' + 'b' * 5000, file=sys.stderr); sys.exit(3)"
    found = made(code, LC_ALL="C", A="1").run(lines.append)
    assert found == ChildResult(3, b"['A', 'LC_ALL']\n")
    assert [len(line) for line in lines] == [1, 4096, 904]


def test_output_beyond_the_limit_is_not_kept() -> None:
    assert made("print('x' * 999)").run(print).printed == b"x" * 999 + b"\n"
    assert made("print('x' * 1000)").run(print) == ChildResult(0, None)


def test_a_missing_command_is_reported() -> None:
    lines: list[str] = []
    assert BoundedChild(["/no/such/command"], {}, Path("/"), 1).run(lines.append).code == 127
    assert lines == ["/no/such/command: No such file or directory"]


def test_a_child_ends_on_request() -> None:
    heard = Heard(made(WAITS))
    assert heard.pid
    heard.child.stop()
    assert heard.code() == -signal.SIGTERM
    heard.child.stop()


def test_a_child_that_ignores_sigterm_is_killed() -> None:
    heard = Heard(made(DEAF))
    assert heard.pid
    heard.child.stop(seconds=0.1)
    assert heard.code() == -signal.SIGKILL


def test_a_child_that_is_stopped_before_it_began_ends() -> None:
    child = made(WAITS)
    child.stop()
    assert child.run(print).code == -signal.SIGTERM


def test_processes_that_a_child_leaves_behind_end_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "_GRACE_S", 0.5)
    heard = Heard(made(LEAVES))
    assert heard.code() == 0
    assert len(heard.lines) == 2
    assert all(ended(int(line)) for line in heard.lines)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel kills it on Linux alone")
def test_a_child_ends_with_a_killed_parent() -> None:
    code = f"""
import sys
from pathlib import Path
from tandem.infra.process.bounded_child import BoundedChild
BoundedChild([sys.executable, "-c", {WAITS!r}], {{}}, Path("/"), 1).run(lambda line: print(line, flush=True))
"""
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    assert ended(pid)
