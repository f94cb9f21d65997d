"""The tutorial's commands that need no Java, run as they stand there, show what it shows."""

import shlex
from pathlib import Path

import pytest

from tests.documented import Command, File, steps

LIGHT = ("init", "check", "try")


def test_the_outputs_in_the_tutorial_are_true(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run = []
    for step in steps("tutorial.md"):
        if isinstance(step, File):
            step.write(tmp_path)
            continue
        program, name, *_ = shlex.split(step.line)
        assert program == "./tandem"
        if name in LIGHT:
            step.show(capsys)
            run.append(name)
    assert run == ["init", "check", "try", "try"]


def test_a_missing_line_is_found() -> None:
    shown = Command("./tandem", "a\n...\nc\n")
    assert shown.missing("a\nb\nc\n") is None
    assert shown.missing("c\na\n") == "c\n"
    assert shown.missing("a\nb\n") == "c\n"
