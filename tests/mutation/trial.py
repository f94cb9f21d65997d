"""Tests run on mutants: each in a process forked from one that has loaded what is not ours, in a copy of the tree."""

import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import pytest

from tests.mutation.changes import Change

_OURS = ("dags", "tandem", "tests")
_LEFT_OUT = shutil.ignore_patterns(".git", ".tandem", ".venv", ".mypy_cache", ".ruff_cache", "node_modules")
_NO_TESTS = 5
_PLUGINS = ("xdist.plugin", "pytest_timeout", "_hypothesis_pytestplugin")
"""Those that the tests need; loading the others (schemathesis, anyio) takes as long as many a mutant's tests."""


class Outcome(StrEnum):
    """What became of a mutant. `UNREACHED`: no test that was recorded runs its line."""

    CAUGHT = "caught"
    HUNG = "hung"
    SURVIVED = "survived"
    UNREACHED = "unreached"


@dataclass(frozen=True)
class Tree:
    """A copy of the code in which one mutant at a time is planted."""

    folder: Path
    root: Path

    @classmethod
    def copied(cls, root: Path, folder: Path) -> "Tree":
        """A copy at a folder that does not exist yet, with what Python compiled beside it; environment and jars are shared."""
        shutil.copytree(root, folder, ignore=_LEFT_OUT, symlinks=True)
        for shared in (".venv", ".tandem"):
            if (root / shared).exists():
                (folder / shared).symlink_to(root / shared)
        return cls(folder, root)

    def begin(self, change: Change, tests: Sequence[str], output: Path) -> int:
        """The process id of a trial, a leader of its own group, that ends with pytest's exit code."""
        file = self.folder / change.file
        file.write_text(change.applied((self.root / change.file).read_text()))
        for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
            compiled.unlink()
        process = os.fork()
        if process == 0:
            self._run(tests, output)
        return process

    def restore(self, change: Change) -> None:
        """Take the mutant out."""
        shutil.copy2(self.root / change.file, self.folder / change.file)

    def _run(self, tests: Sequence[str], output: Path) -> None:
        code = 70
        try:
            os.setsid()
            written = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for stream in (1, 2):
                os.dup2(written, stream)
            os.chdir(self.folder)
            moved = {str(self.root / part): str(self.folder / part) for part in ("", "src", "dags")}
            sys.path[:] = [str(self.folder), *(moved.get(entry, entry) for entry in sys.path if entry)]
            for name in [name for name in sys.modules if name.partition(".")[0] in _OURS]:
                del sys.modules[name]
            sys.dont_write_bytecode = True
            os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
            os.environ["PYTHONPATH"] = os.pathsep.join(moved.values())
            os.environ["TANDEM_HYPOTHESIS"] = "first"
            os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
            plugins = [option for plugin in _PLUGINS for option in ("-p", plugin)]
            code = int(pytest.main(["-q", "-x", "-n", "0", *plugins, "-p", "no:cacheprovider", *tests]))
        finally:
            sys.stdout.flush()
            os._exit(code)


def ended(process: int, deadline: float) -> Outcome | None:
    """What became of the mutant, or None while its tests run; at the deadline (of the monotonic clock) they are killed.

    Raises RuntimeError if pytest found no test.
    """
    done, status = os.waitpid(process, os.WNOHANG)
    if not done:
        if time.monotonic() < deadline:
            return None
        _kill(process)
        os.waitpid(process, 0)
        return Outcome.HUNG
    _kill(process)  # what it started
    code = os.waitstatus_to_exitcode(status)
    if code == _NO_TESTS:
        raise RuntimeError("pytest found none of the tests that were recorded")
    return Outcome.SURVIVED if code == 0 else Outcome.CAUGHT


def _kill(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
