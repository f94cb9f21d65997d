"""The commands of docs/recover.md on the real parts: after every loss and its fix the answers are the same as before."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tandem.infra.folders import ROOT
from tests.documented import Command, File, steps
from tests.end_to_end.test_readme import typed

SECONDS = 300


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.timeout(3000)
def test_every_loss_is_fixed_as_the_page_says(tmp_path: Path) -> None:
    (tmp_path / "tandem").symlink_to(ROOT / "tandem")
    before: dict[str, Any] = {}
    compared = 0
    try:
        for step in steps("recover.md"):
            assert not isinstance(step, File)
            if " query " in step.line and not step.shown.startswith("tandem: "):
                rows = answered(step, tmp_path, before.get(step.line))
                compared += step.line in before
                assert before.setdefault(step.line, rows) == rows, step.line
                continue
            done = typed(step.line, tmp_path)
            said = f"{step.line}\n{done.stdout}\n{done.stderr}"
            # What is shown of a command that fails is its sentence.
            assert (done.returncode != 0) == step.shown.startswith("tandem: "), said
            assert step.missing(done.stderr if done.returncode else done.stdout) is None, said
            if not before and " recompute " in step.line:
                before["./tandem query sales --project drill"] = answered(
                    Command("./tandem query sales --project drill"), tmp_path, None
                )
    finally:
        typed("./tandem down --project drill", tmp_path)
    assert compared >= 9


def answered(step: Command, folder: Path, expected: Any) -> Any:
    """The rows, without what hangs on how far the watermark has come; what was read again is counted a moment later."""
    deadline = time.monotonic() + SECONDS
    while True:
        done = typed(f"{step.line} --json", folder)
        rows: Any = None
        if done.returncode == 0:
            rows = [
                {name: value for name, value in row.items() if name not in ("window_state", "_exactness")}
                for row in json.loads(done.stdout)["rows"]
            ]
            if rows and expected in (None, rows):
                return rows
        assert time.monotonic() < deadline, f"{step.line}\n{rows}\n{expected}\n{done.stderr}"
        time.sleep(0.5)
