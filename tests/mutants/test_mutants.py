"""The tests can fail: each planted bug turns the test red that is there to catch it."""

import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from tandem.infra.folders import ROOT
from tests.mutants.mutants import MUTANTS, Mutant

_BEING_WRITTEN = "*.pyc.*"
"""Compiled code that another process is about to put in place."""
_RED = 1
"""Pytest's exit code for tests that failed; others are of runs without a test, or that could not begin."""


@cache
def addresses() -> Mapping[str, list[str]]:
    """The address of each test of the tree for pytest, by its name."""
    places: dict[str, list[str]] = defaultdict(list)
    for file in (ROOT / "tests").rglob("test_*.py"):
        for name in re.findall(r"^(?:async )?def (test_\w+)\(", file.read_text(), re.MULTILINE):
            places[name].append(f"{file.relative_to(ROOT)}::{name}")
    return places


def test_every_bug_has_one_place_in_the_code_and_one_test() -> None:
    for mutant in MUTANTS:
        assert mutant.file, "else it raises"
        assert mutant.old != mutant.new
        assert len(addresses()[mutant.test]) == 1, f"{mutant.name}: {mutant.test} is in {addresses()[mutant.test]}"
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    """A copy of the code, as it is compiled: no bug changes more than one file of it."""
    copied = tmp_path / "tree"
    shutil.copytree(ROOT, copied, symlinks=True, ignore=shutil.ignore_patterns(".*", _BEING_WRITTEN))
    yield copied
    shutil.rmtree(copied)


@cache
def green_without(test: str) -> tuple[int, str]:
    return outcome(ROOT, test)


def outcome(folder: Path, test: str) -> tuple[int, str]:
    """Pytest's exit code for one test of a tree, and the end of what it printed."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("TANDEM_", "PYTEST_"))}
    command = [sys.executable, "-B", "-m", "pytest", "-q", "-n", "0", "-x", "-p", "no:cacheprovider", test]
    environ |= {"PYTHONPATH": os.pathsep.join((str(folder / "src"), str(folder))), "TANDEM_HYPOTHESIS": "first"}
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    return done.returncode, (done.stdout + done.stderr)[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_planted_bug_is_caught(mutant: Mutant, tree: Path) -> None:
    (test,) = addresses()[mutant.test]
    code, printed = green_without(test)
    assert code == 0, f"{test} is red without a bug (exit code {code}): {printed}"
    file = tree / mutant.file
    file.write_text(file.read_text().replace(mutant.old, mutant.new))
    code, printed = outcome(tree, test)
    # A run that was killed, or that could not begin, shows nothing of the bug.
    assert code == _RED, f"{test} does not see {mutant.name} (exit code {code}): {printed}"
