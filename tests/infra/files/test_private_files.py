"""Private files and folders: created with narrow modes, narrowed if wider, and refused if public on purpose."""

import os
import stat
from pathlib import Path

import pytest

from tandem.infra.files import private_files


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_created_files_are_private(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        folder = private_files.folder(tmp_path / "a" / "state")
        private_files.write(folder / "secret", "one\n")
        first = (folder / "secret").stat().st_ino
        private_files.write(folder / "secret", "two\n")
    finally:
        os.umask(before)
    assert (mode(folder), mode(folder / "secret")) == (0o700, 0o600)
    assert (folder / "secret").read_text() == "two\n"
    assert first != (folder / "secret").stat().st_ino
    assert [path.name for path in folder.iterdir()] == ["secret"]


@pytest.mark.parametrize("wider", [0o755, 0o750, 0o701, 0o777, 0o2770])
def test_a_wider_folder_is_narrowed_once(tmp_path: Path, wider: int) -> None:
    tmp_path.chmod(wider)
    assert private_files.folder(tmp_path) == tmp_path
    assert mode(tmp_path) == wider
    assert private_files.narrow(tmp_path) == wider
    assert mode(tmp_path) == 0o700
    assert private_files.narrow(tmp_path) is None


def test_a_narrow_folder_stays_as_it_is(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert private_files.narrow(tmp_path) is None
    assert mode(tmp_path) == 0o500


def test_a_folder_that_everybody_may_write_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    with pytest.raises(
        private_files.SharedFolder, match=r"is shared with other users \(mode 1777, owner \d+\).*set `state` to a folder of"
    ):
        private_files.narrow(tmp_path)
    assert mode(tmp_path) == 0o1777


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o755)
    monkeypatch.setattr("os.geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(private_files.SharedFolder, match=rf"owner {tmp_path.stat().st_uid}\)"):
        private_files.narrow(tmp_path)
    assert mode(tmp_path) == 0o755


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder to another user")
def test_root_narrows_for_its_owner(tmp_path: Path) -> None:
    os.chown(tmp_path, 65534, 65534)
    tmp_path.chmod(0o755)
    assert private_files.narrow(tmp_path) == 0o755
    assert (mode(tmp_path), tmp_path.stat().st_uid) == (0o700, 65534)
