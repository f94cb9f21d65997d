"""docs/keep-what-matters.md: its definitions are valid, and its commands print what the page shows."""

import shlex
from pathlib import Path

import pytest

from tests.documented import File, steps


def test_each_command_prints_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "tandem.toml").touch()
    typed = 0
    for step in steps("keep-what-matters.md"):
        if isinstance(step, File):
            step.write(tmp_path)
            continue
        program, *arguments = shlex.split(step.line)
        assert program == "./tandem"
        if arguments[0] in ("maintain", "status"):
            continue  # they need records: tests/batch/maintain/test_records_expire.py
        step.show(capsys)
        typed += 1
    assert typed == 2
