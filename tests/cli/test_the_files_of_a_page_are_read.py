"""docs/your-files.md: each file is read as the page shows, by definitions without a decoder of the project's own."""

import shlex
from pathlib import Path

import pytest

from tests.documented import File, steps

LEAST_FILES = 10


def test_every_file_is_read_as_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    files, tried = set[str](), set[str]()
    for step in steps("your-files.md"):
        if isinstance(step, File):
            path = tmp_path / step.name
            path.parent.mkdir(exist_ok=True)
            step.write(tmp_path)
            if path.suffix == ".py":
                (path.parent / "tandem.toml").touch()
                assert "def " not in step.text, f"{step.name} has a function"
            else:
                files.add(step.name)
            continue
        program, name, _, file, *_ = shlex.split(step.line)
        assert (program, name) == ("./tandem", "try")
        step.show(capsys)
        tried.add(file)
    assert tried == files
    assert len(files) >= LEAST_FILES
