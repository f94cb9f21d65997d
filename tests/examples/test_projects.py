"""Every example is a project that works in any folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.stack import PYTHONPATH

ROOT = Path(__file__).parents[2]
TESTED = sorted(test.parent for test in (ROOT / "examples").glob("*/test_*.py"))


@pytest.mark.each_run("clicks", "demo", "orders")
@pytest.mark.parametrize("project", TESTED, ids=lambda project: project.name)
def test_its_own_tests_pass(project: Path) -> None:
    """In a process of their own, as a user runs them: `definitions` is then this project's and no other's."""
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            str(project),
            "-c",
            os.devnull,
            ".",
        ],
        cwd=project,
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
