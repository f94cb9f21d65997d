"""The mutation tester: what it changes, that it sees what a test sees, and a sample of the day."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tandem.infra.folders import ROOT
from tests.mutants.mutants import product
from tests.mutation import command, equivalents
from tests.mutation.changes import changes, differs
from tests.stack import PYTHONPATH

_CODE = '''\
"""About 1 < 2."""

from typing import Final

LIMIT: Final = 2
SQL = f"SELECT min({LIMIT} < 3) FROM rows WHERE a <= 4 AND b"


def within(value: int, *, strict: bool = False) -> int:
    """Whether 1 < 2."""
    if strict and value < LIMIT:
        raise ValueError(f"{value} < 2")
    return max(value, 7 - 4)


class Bounds:
    """The bounds."""

    most: int = 9
'''


def _shown() -> set[tuple[str, str]]:
    return {(change.old, change.new) for change in changes("code.py", _CODE) if differs(change, _CODE)}


def test_numbers_comparisons_and_sql_are_changed_where_an_answer_depends_on_them() -> None:
    shown = _shown()
    assert {("<", "<="), ("2", "3"), ("and", "or"), ("max", "min"), ("-", "+"), ("False", "True")} <= shown
    assert {("<=", "<"), ("AND", "OR"), ("min", "max")} <= shown, "in SQL"
    assert ("strict and value < LIMIT", "(strict)") in shown
    assert ('raise ValueError(f"{value} < 2")', "pass") in shown


def test_docstrings_and_error_texts_stay() -> None:
    for change in changes("code.py", _CODE):
        begin = _CODE.rfind("\n", 0, change.start) + 1
        line = _CODE[begin : _CODE.index("\n", change.start)]
        assert '"""' not in line
        assert "raise" not in line or change.new == "pass"


def test_a_change_is_tested_by_the_tests_that_run_its_lines() -> None:
    lines = {(change.old, change.new): change.lines for change in changes("code.py", _CODE)}
    assert list(lines["and", "or"]) == [11]
    assert list(lines["False", "True"]) == list(range(9, 14)), "a default is used by whoever runs the function"
    for changed in (("2", "3"), ("9", "10")):
        assert list(lines[changed]) == list(range(1, 20)), "a constant by whoever runs the module"


def test_every_place_of_tests_that_are_recorded_exists() -> None:
    assert [place for place in command.places() if not (ROOT / place).exists()] == []


_LONG = """\
import sys
import types


def spin() -> None:
    while True:
        pass


def test_long() -> None:
    spin()


def test_of_a_library_whose_error_has_no_line() -> None:
    cell = 0
    try:
        spin()
    except BaseException:
        nowhere = types.TracebackType(None, sys._getframe(), 0, -1)
        assert nowhere.tb_lineno is None, lambda: cell
        raise ValueError("what?").with_traceback(nowhere)


def test_red() -> None:
    assert 1 > 2


def test_short() -> None:
    pass
"""


@pytest.mark.slow
def test_a_stopped_test_is_no_failure_whatever_it_ends_with(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(_LONG)
    environ = {**os.environ, "REACH_FOLDER": str(tmp_path), "PYTHONPATH": PYTHONPATH}
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "0",
        "-p",
        "tests.mutation.reaching",
        "--rootdir",
        str(tmp_path),
        "test_it.py",
    ]
    done = subprocess.run(words, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed, 3 passed" in done.stdout
    (file,) = tmp_path.glob("*.jsonl")
    reports = [json.loads(line) for line in file.read_text().splitlines()]
    outcomes = {report["test"].partition("::")[2]: report["outcome"] for report in reports if report["phase"] == "call"}
    assert outcomes == {
        "test_long": "stopped",
        "test_of_a_library_whose_error_has_no_line": "stopped",
        "test_red": "failed",
        "test_short": "passed",
    }


def test_every_equivalent_fits_the_code() -> None:
    lines = [old for old, _ in equivalents.reasons()]
    shown = set()
    for file, text in product().items():
        if not {" ".join(line.split()) for line in text.splitlines()}.isdisjoint(lines):
            shown |= {change.shown(text) for change in changes(file, text)}
    assert [pair for pair in equivalents.reasons() if pair not in shown] == [], "no line of the product that changes so"


_TRIALS = """
import sys
from pathlib import Path
from tandem.infra.folders import ROOT
from tests.mutation.changes import changes
from tests.mutation.command import Mutant, tried
from tests.mutation.reach import Reach

file, folder, *tests = sys.argv[1:]
text = (ROOT / file).read_text()
mutant = next(Mutant(change, text) for change in changes(file, text) if change.old == "<=")
for number, test in enumerate([*tests, None]):
    names = [] if test is None else [test]
    reach = Reach({file: dict.fromkeys(mutant.change.lines, names)}, dict.fromkeys(names, 1.0))
    for _, outcome in tried(ROOT, Path(folder, str(number)), [mutant], reach, seconds=9, processes=1):
        print(outcome)
"""


@pytest.mark.slow
def test_a_mutant_that_a_test_notices_is_caught_and_others_survive(tmp_path: Path) -> None:
    place = "tests/ledger/log/test_positions.py::"
    tests = [place + "test_comparison_is_a_partial_order", place + "test_a_negative_offset_is_refused"]
    # In a process of its own, since a trial is a fork of it.
    command = [sys.executable, "-c", _TRIALS, "ledger/log/positions.py", str(tmp_path), *tests]
    done = subprocess.run(command, cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["caught", "survived", "unreached"], done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.timeout(3600)  # it runs most of the tests that need no Spark once, and some of them for each mutant
def test_the_sample_of_the_day_is_caught() -> None:
    command = [sys.executable, "-m", "tests.mutation", "--sample", "24", "--seconds", "30"]
    done = subprocess.run(command, cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
