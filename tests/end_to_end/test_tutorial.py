"""The tutorial's commands: every one succeeds, and answers have the rows that the tutorial shows."""

import re
import time
from pathlib import Path

import pytest

from tandem.infra.folders import ROOT
from tests.documented import Command, File, steps
from tests.end_to_end.test_readme import typed

ROWS = ("sensor", "attic", "cellar")
SECONDS = 300


def rows(text: str) -> list[str]:
    """The rows of an answer but for `window_state`, which hangs on when which line was counted."""
    return [re.sub(r"\b(open|on_time|final)\b +", "", line).rstrip() for line in text.splitlines() if line.startswith(ROWS)]


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.timeout(1800)
def test_the_tutorials_commands_work(tmp_path: Path) -> None:
    (tmp_path / "tandem").symlink_to(ROOT / "tandem")
    try:
        for step in steps("tutorial.md"):
            if isinstance(step, File):
                step.write(tmp_path)
            else:
                follow(step, tmp_path)
    finally:
        typed("./tandem down --project my_data", tmp_path)


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.timeout(1800)
def test_the_commands_on_several_sources_and_tables_work(tmp_path: Path) -> None:
    (tmp_path / "tandem").symlink_to(ROOT / "tandem")
    try:
        for step in steps("tutorial-together.md"):
            assert isinstance(step, Command)
            done = typed(step.line, tmp_path)
            assert done.returncode == 0, f"{step.line}\n{done.stdout}\n{done.stderr}"
            if " query " in step.line:
                assert len(done.stdout.splitlines()) > 2, f"{step.line}\n{done.stdout}"
    finally:
        for project in ("my_clicks", "my_orders"):
            typed(f"./tandem down --project {project}", tmp_path)


def follow(step: Command, folder: Path) -> None:
    """What was fed is counted a moment later."""
    deadline = time.monotonic() + SECONDS
    while True:
        done = typed(step.line, folder)
        assert done.returncode == 0, f"{step.line}\n{done.stdout}\n{done.stderr}"
        if not step.shown or rows(step.shown) == rows(done.stdout):
            return
        assert " query " in step.line, f"{step.line}\n{done.stdout}"
        assert time.monotonic() < deadline, f"{step.line}\n{done.stdout}"
        time.sleep(1)
