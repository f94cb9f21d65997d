"""A file is replaced atomically: with the requested mode, and nothing else in its folder."""

import os
import stat
from pathlib import Path

import pytest

from tandem.infra.files import atomic_files


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize(("private", "mode"), [(False, 0o640), (True, 0o600)])
def test_only_the_new_content_exists(tmp_path: Path, *, private: bool, mode: int, durable: bool) -> None:
    before = os.umask(0o027)
    try:
        for content in (b"a longer first one", b"second"):
            atomic_files.replace(tmp_path / "file", content, private=private, durable=durable)
    finally:
        os.umask(before)
    assert (tmp_path / "file").read_bytes() == b"second"
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_failed_write_leaves_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "file"
    atomic_files.replace(path, b"old")
    with pytest.raises(TypeError):
        atomic_files.replace(path, "no bytes")  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    atomic_files.replace(path, b"new")
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
