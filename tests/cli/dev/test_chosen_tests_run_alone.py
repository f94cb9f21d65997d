"""`tandem test -- PATH` runs these tests and neither lint nor types; what only sets pytest runs the whole."""

import json
import shlex
import subprocess
import sys

import pytest

from tandem.cli.dev import test as command
from tandem.infra.folders import ROOT
from tests.stack import environ


@pytest.mark.parametrize(
    "words", ["tests/views", "./tests", "tests/test_names.py::test_x", "-n 0 -k tiling", "-ktiling", f"'{ROOT}/tests/laws'"]
)
def test_a_path_of_tests_or_words_select(words: str) -> None:
    assert command.select(shlex.split(words))


@pytest.mark.parametrize("words", ["", "-n 0", "--junitxml out.xml", "-x --durations 5", "docs", "--screenshots docs/images"])
def test_what_only_sets_pytest_does_not_select(words: str) -> None:
    assert not command.select(words.split())


@pytest.mark.parametrize(("gib", "count"), [(2, 2), (8, 2), (15, 3), (16, 4), (256, 5)])
def test_as_many_processes_test_as_have_memory(gib: int, count: int) -> None:
    assert command.processes(gib * 2**30) == count


def test_nothing_but_the_chosen_tests_runs() -> None:
    chosen = ["-n", "0", "tests/infra/test_folders.py"]
    done = subprocess.run(
        [sys.executable, "-m", "tandem.cli", "test", "--json", "--", *chosen],
        env=environ(),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["failed"], list(document["seconds"])) == ([], ["tests"])
    assert "warning" not in done.stderr.lower()
