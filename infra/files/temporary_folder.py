"""Temporary folders of processes; what a killed process left is removed when the next one takes a folder."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory, gettempdir
from typing import Final

from tandem.infra.files import file_lock

_LOCK: Final = "lock"
"""The file in a folder that its process locks. It has this name only once it is locked."""


@contextmanager
def held(prefix: str) -> Iterator[Path]:
    """A new folder that only this user may enter, until the block ends; its name begins with `prefix`. Raises OSError."""
    for lock in Path(gettempdir()).glob(f"{prefix}*/{_LOCK}"):
        with suppress(OSError):  # its process lives, or another one removes it
            if lock.parent.lstat().st_uid == os.getuid():
                with file_lock.held(lock, wait=False):
                    rmtree(lock.parent)
    with TemporaryDirectory(prefix=prefix) as name:
        new = Path(name) / "new"
        with file_lock.held(new):
            new.rename(Path(name) / _LOCK)
            yield Path(name)
