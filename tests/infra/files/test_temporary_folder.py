"""A temporary folder goes with its process, however that ends, and with no other one."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tandem.infra.files import temporary_folder

HOLDS = """
import sys, tempfile, time
from tandem.infra.files import temporary_folder
tempfile.tempdir = sys.argv[1]
with temporary_folder.held("of-tests-") as folder:
    (folder / "0").touch()
    print(folder, flush=True)
    time.sleep(99)
"""


def test_the_next_process_removes_what_a_killed_one_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    process = subprocess.Popen([sys.executable, "-c", HOLDS, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as said:
        theirs = Path(said.readline().strip())
    with temporary_folder.held("of-tests-") as mine:
        assert sorted(tmp_path.iterdir()) == sorted([mine, theirs])
        assert mine.stat().st_mode & 0o777 == 0o700
        process.kill()
        process.wait()
        with temporary_folder.held("of-tests-") as third:
            assert sorted(tmp_path.iterdir()) == sorted([mine, third])
    assert list(tmp_path.iterdir()) == []
