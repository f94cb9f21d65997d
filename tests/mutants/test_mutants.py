"""The tests can fail: each planted bug turns the test red that is there to catch it."""

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tandem.infra.folders import ROOT
from tests.mutants.mutants import MUTANTS, Mutant, table

_BEING_WRITTEN = "*.pyc.*"
"""Compiled code that another process is about to put in place."""
_RED = 1
"""Pytest's exit code for tests that failed; others are of runs without a test, or that could not begin."""


def test_every_bug_fits_the_code_once() -> None:
    for mutant in MUTANTS:
        assert (ROOT / mutant.file).read_text().count(mutant.old) == 1, f"{mutant.name}: {mutant.file} holds it once"
        assert mutant.old != mutant.new


def test_every_test_that_is_named_exists() -> None:
    for mutant in MUTANTS:
        file, _, name = mutant.test.partition("::")
        names = {each.name for each in ast.parse((ROOT / file).read_text()).body if isinstance(each, ast.FunctionDef)}
        assert name in names, f"{mutant.name}: {mutant.test}"


def test_names_are_unique() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_the_page_lists_all_mutants() -> None:
    assert Path(__file__).with_name("README.md").read_text() == table(), "python -m tests.mutants.mutants writes it"


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
    code, printed = green_without(mutant.test)
    assert code == 0, f"{mutant.test} is red without a bug (exit code {code}): {printed}"
    file = tree / mutant.file
    file.write_text(file.read_text().replace(mutant.old, mutant.new))
    code, printed = outcome(tree, mutant.test)
    # A run that was killed, or that could not begin, shows nothing of the bug.
    assert code == _RED, f"{mutant.test} does not see {mutant.name} (exit code {code}): {printed}"
