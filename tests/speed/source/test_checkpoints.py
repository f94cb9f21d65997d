"""Each process has its own checkpoint folders: those of ended processes are deleted, those of others stay."""

import os
import subprocess
import sys
from pathlib import Path

from tandem.speed.source.checkpoints import folders, own_folder


def test_checkpoints_of_ended_processes_are_deleted_and_others_stay(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        theirs = tmp_path / "speed" / f"{other.pid}-abc"
        theirs.mkdir(parents=True)
        (tmp_path / "speed" / "notes").mkdir()
        mine = own_folder(tmp_path)
        assert mine.name.startswith(f"{os.getpid()}-")
        assert dict(folders(tmp_path)) == {mine: True, theirs: True}
        other.kill()
    second = own_folder(tmp_path)
    assert dict(folders(tmp_path)) == {mine: True, second: True}
    assert (tmp_path / "speed" / "notes").is_dir()
